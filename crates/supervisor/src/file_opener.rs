//! Opening what another file needs of the host, in a thread: the kernel and Open vSwitch may take seconds,
//! during which the event loop must go on. One file at a time.

use std::sync::Arc;

use anyhow::{Result, bail};
use config::Plan;
use host::references;

use super::background_job::BackgroundJob;
use super::resources::{AlreadyOpen, Resources};
use crate::run_lock::NameClaim;

/// Opens what a plan needs and is not held yet.
pub(super) type Open = Arc<dyn Fn(&Plan, &AlreadyOpen) -> Result<Resources> + Send + Sync>;

/// Thread that reads a file and then opens what it needs.
pub(super) struct FileOpener {
    pub(super) job: BackgroundJob<OpenerResult>,
    pub(super) open: Open,
}

/// Result of a step of the thread.
pub(super) enum OpenerResult {
    Read(Result<Plan>),
    /// What a plan needs, and the names of its new routers.
    Opened(Result<(Resources, NameClaim)>),
}

/// File to be read, with the facts of the run that it has to fit beside.
pub(super) struct FileToCheck {
    pub(super) file: String,
    pub(super) text: String,
    pub(super) running: Plan,
    pub(super) exclusive: Vec<u32>,
    pub(super) no_kvm: Option<String>,
}

impl Default for FileOpener {
    fn default() -> Self {
        Self { job: BackgroundJob::default(), open: Arc::new(Resources::open) }
    }
}

impl FileOpener {
    /// Starts a step in a thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(&mut self, work: impl FnOnce() -> OpenerResult + Send + 'static) -> Result<()> {
        if self.job.start("ringroad/opening", work) {
            return Ok(());
        }
        bail!("no thread can be had to open what the file needs: try again in a second")
    }
}

impl FileToCheck {
    /// Reads the file and checks whether this host can run it, given what the run uses already.
    pub(super) fn checked(self) -> Result<Plan> {
        let mut plan = config::parse(&self.text, &self.file)?;
        plan.inherit(&self.running);
        let mut facts = host::facts(&plan);
        facts.memory_available = facts.memory_available.map(|free| free + self.running.memory());
        facts.cpus.extend(self.exclusive);
        let errors = plan.check_host(&facts).and(references::faults(&plan, Some(&self.running)));
        if !errors.is_empty() {
            return Err(errors.into());
        }
        facts.no_kvm = self.no_kvm;
        plan.choose_engines(&facts);
        host::need_tun(&plan)?;
        Ok(plan)
    }
}
