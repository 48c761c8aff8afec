//! What runs: the file, its plan, and the names that it takes on this host.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use config::Plan;
use host::references;

use super::Options;
use super::kernels::leftovers;
use super::run_lock::RunLock;
use super::thread_placement::{self, Planned};

/// Configuration that runs.
pub(super) struct Running {
    /// Name of the run.
    pub(super) run: String,
    /// Name of the file that was applied last.
    pub(super) file: String,
    pub(super) plan: Plan,
    /// Why this host has no KVM; `None`: it has KVM.
    pub(super) no_kvm: Option<String>,
}

impl Running {
    /// Reads a file, removes what killed runs have left of its kernel routers, and checks whether this host can run it. Also returns a
    /// line that lists what runs as a process for want of KVM, and the placement of its threads.
    pub(super) fn read(file: &Path, now: Instant) -> Result<(Self, Option<String>, Planned)> {
        let (text, file) = (config::text(file)?, file.display().to_string());
        let mut plan = config::parse(&text, &file)?;
        leftovers::remove(&plan);
        let facts = host::facts(&plan);
        let errors = plan.check_host(&facts).and(references::faults(&plan, None));
        if !errors.is_empty() {
            return Err(errors.into());
        }
        let by_process = plan.choose_engines(&facts);
        host::need_tun(&plan)?;
        let threads = thread_placement::planned(&plan, now)?;
        Ok((Self { run: plan.name.clone(), file, plan, no_kvm: facts.no_kvm }, by_process, threads))
    }

    /// Takes the locks on the names of its routers and groups, and of the run.
    pub(super) fn lock(&mut self, options: &Options, now: Instant) -> Result<RunLock> {
        let mut lock = RunLock::guarded(self.plan.names(), now)?;
        let changed = options.name.is_none() && !self.plan.named;
        lock.name_run(options.name.as_deref().unwrap_or(&self.plan.name), changed)?;
        self.run = lock.run().context("a run has a name")?.0.to_owned();
        Ok(lock)
    }
}
