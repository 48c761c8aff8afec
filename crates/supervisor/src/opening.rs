//! What another file needs of the host is asked for and opened by a thread: the kernel and Open vSwitch may take seconds, in which
//! everything else goes on. One file at a time.

use std::sync::Arc;

use anyhow::{Result, bail};
use config::Plan;
use host::named;

use super::errand::Errand;
use super::resources::{Held, Resources};

/// Opens what a plan needs and is not held.
pub(super) type Open = Arc<dyn Fn(&Plan, &Held) -> Result<Resources> + Send + Sync>;

/// The thread that reads a file, and then opens what it needs.
pub(super) struct Opening {
    pub(super) errand: Errand<Done>,
    pub(super) open: Open,
}

/// What the thread has done.
pub(super) enum Done {
    Read(Result<Plan>),
    Opened(Result<Resources>),
}

/// A file beside the run as it is.
pub(super) struct Reading {
    pub(super) file: String,
    pub(super) text: String,
    pub(super) running: Plan,
    pub(super) exclusive: Vec<u32>,
    pub(super) no_kvm: Option<String>,
}

impl Default for Opening {
    fn default() -> Self {
        Self { errand: Errand::default(), open: Arc::new(Resources::open) }
    }
}

impl Opening {
    /// Has a thread do it.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(&mut self, work: impl FnOnce() -> Done + Send + 'static) -> Result<()> {
        if self.errand.start("ringroad/opening", work) {
            return Ok(());
        }
        bail!("no thread can be had to open what the file needs: try again in a second")
    }
}

impl Reading {
    /// Reads the file and asks the host whether it can be run here, beside what the run has already.
    pub(super) fn checked(self) -> Result<Plan> {
        let mut plan = config::parse(&self.text, &self.file)?;
        plan.inherit(&self.running);
        let mut facts = host::facts(&plan);
        facts.memory_available = facts.memory_available.map(|free| free + self.running.memory());
        facts.cpus.extend(self.exclusive);
        let errors = plan.check_host(&facts).and(named::faults(&plan, Some(&self.running)));
        if !errors.is_empty() {
            return Err(errors.into());
        }
        facts.no_kvm = self.no_kvm;
        plan.choose_engines(&facts);
        host::need_tun(&plan)?;
        Ok(plan)
    }
}
