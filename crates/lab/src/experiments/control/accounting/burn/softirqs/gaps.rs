//! What is taken from a thread that does nothing but look at the clock: where there is more between two looks than a look takes,
//! somebody else had the CPU. Other threads are left out by the scheduler's word, but for the one that carries softirqs on.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::seated;
use crate::rig::Worker;

/// Much longer than from one look to the next, and shorter than an interrupt that does nothing.
const GAP: Duration = Duration::from_nanos(600);

/// The thread, and where it tells.
pub(super) struct Gaps {
    told: Arc<Told>,
    /// How long it waited for its CPU.
    own: File,
    /// What the kernel's thread for softirqs ran, where it can be seen.
    softirqs: Option<File>,
    _worker: Worker<()>,
}

#[derive(Default)]
struct Told {
    lost_ns: AtomicU64,
    gaps: AtomicU64,
}

/// What was taken from the thread.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super::super) struct Taken {
    /// Seconds of which this is told.
    pub(in super::super::super) elapsed: f64,
    /// Seconds of them.
    pub(in super::super::super) lost: f64,
    /// In so many pieces.
    pub(in super::super::super) gaps: f64,
    /// Seconds in which another thread had the CPU.
    pub(in super::super::super) away: f64,
}

impl Taken {
    /// Part of the CPU.
    pub(in super::super::super) fn part(&self) -> f64 {
        self.lost / self.elapsed
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            elapsed: self.elapsed - before.elapsed,
            lost: self.lost - before.lost,
            gaps: self.gaps - before.gaps,
            away: self.away - before.away,
        }
    }
}

impl Gaps {
    /// On this CPU.
    pub(super) fn start(cpu: usize) -> Result<Self> {
        let told = Arc::<Told>::default();
        let (tells, mut last) = (told.clone(), Instant::now());
        let turn = move || {
            let now = Instant::now();
            let gap = now - last;
            last = now;
            if gap >= GAP {
                tells.lost_ns.fetch_add(gap.as_nanos() as u64, Relaxed);
                tells.gaps.fetch_add(1, Relaxed);
            }
        };
        let (worker, tid) = seated("burn/gaps", cpu, turn)?;
        let own = format!("/proc/self/task/{tid}/schedstat");
        let own = File::open(&own).with_context(|| format!("cannot open {own}"))?;
        let softirqs = thread_of_softirqs(cpu).and_then(|path| File::open(path).ok());
        Ok(Self { told, own, softirqs, _worker: worker })
    }

    /// Pieces that were taken so far.
    pub(super) fn seen(&self) -> u64 {
        self.told.gaps.load(Relaxed)
    }

    /// Since it was started; the time since then is not told.
    pub(super) fn look(&self) -> Taken {
        // On a CPU, waiting for one, time slices.
        let waited = number(&self.own, 1);
        let carried_on = self.softirqs.as_ref().map_or(0.0, |file| number(file, 0));
        let away = (waited - carried_on) * 1e-9;
        let lost = self.told.lost_ns.load(Relaxed) as f64 * 1e-9 - away;
        Taken { elapsed: 0.0, lost, gaps: self.seen() as f64, away }
    }
}

/// The n-th number of a file; 0 where there is none.
fn number(file: &File, n: usize) -> f64 {
    let mut buffer = [0; 128];
    let len = file.read_at(&mut buffer, 0).unwrap_or(0);
    let text = std::str::from_utf8(&buffer[..len]).unwrap_or_default();
    text.split_ascii_whitespace().nth(n).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// `schedstat` of `ksoftirqd/CPU`.
fn thread_of_softirqs(cpu: usize) -> Option<std::path::PathBuf> {
    let name = format!("ksoftirqd/{cpu}\n");
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let mut named =
        processes.filter(|path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm == name));
    named.next().map(|path| path.join("schedstat"))
}

#[cfg(test)]
mod tests;
