//! Affinity of interrupts. No file asks for a move, so what cannot be moved is reported and stays.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use super::Applier;
use crate::cgroup;
use crate::error::ApplyError;
use crate::interrupts::Interrupt;
use crate::outline::Outline;
use crate::undo::Undo;

/// Interrupts that could not be moved, by number and interface.
#[derive(Debug, Default)]
pub(super) struct Unmoved {
    /// Those that are known.
    known: BTreeSet<(u32, String)>,
    /// Those not reported yet, and why the first of them stays.
    news: Option<(Vec<String>, io::Error)>,
}

impl Unmoved {
    fn note(&mut self, interrupt: &Interrupt, outcome: io::Result<()>) {
        let known = (interrupt.irq.number, interrupt.interface.clone());
        let Err(error) = outcome else {
            self.known.remove(&known);
            return;
        };
        if self.known.insert(known) {
            let name = format!("{} of {}", interrupt.irq.number, interrupt.interface);
            self.news.get_or_insert_with(|| (Vec::new(), error)).0.push(name);
        }
    }

    /// Error for those that were not reported yet.
    pub(super) fn report(&mut self) -> Option<ApplyError> {
        let (names, error) = self.news.take()?;
        let what = format!("interrupts {} stay where they are", names.join(", "));
        Some(ApplyError::host(what, error))
    }
}

impl Applier {
    /// Moves interrupts; `was_whole`: those of the previous outline are where it says.
    pub(super) fn move_interrupts(&mut self, outline: &Outline, was_whole: bool) {
        for wanted in &outline.interrupts {
            let path = wanted.path();
            let is_moved = self.undos.iter().any(|undo| undo.path() == path);
            if was_whole && is_moved && self.outline.interrupts.contains(wanted) {
                continue;
            }
            let outcome = self.move_interrupt(wanted);
            self.unmoved.note(wanted, outcome);
        }
    }

    fn move_interrupt(&mut self, wanted: &Interrupt) -> io::Result<()> {
        let path = wanted.path();
        let was = fs::read_to_string(&path)?.trim().to_owned();
        // The kernel refuses any change of an interrupt that it manages itself (EIO). Then there must be no record: undoing it would
        // fail as well.
        cgroup::write(&path, &was)?;
        self.record(Undo::Setting { path: path.clone(), was });
        cgroup::write(&path, &wanted.cpus.to_string())
    }
}
