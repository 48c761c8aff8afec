//! What another file needs of the host is asked for and opened by a thread: the kernel and Open vSwitch may take seconds, in which
//! everything else goes on. One file at a time.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use api::Ticket;
use config::Plan;
use host::named;

use super::Supervisor;
use super::apply::Wanted;
use super::errand::Errand;
use super::metrics::Metrics;
use super::placing::Planned;
use super::resources::{Held, Resources};

/// Opens what a plan needs and is not held.
pub(super) type Open = Arc<dyn Fn(&Plan, &Held) -> Result<Resources> + Send + Sync>;

/// A file on its way to be applied.
pub(super) struct Opening {
    errand: Errand<Done>,
    waiting: Option<Waiting>,
    pub(super) open: Open,
}

struct Waiting {
    ticket: Ticket,
    wanted: Wanted,
    /// What it is once it was read and nothing speaks against it.
    ready: Option<Ready>,
}

/// What is to be applied, as soon as all is open.
pub(super) struct Ready {
    pub(super) plan: Plan,
    pub(super) opened: Resources,
    /// What is planned for its threads.
    pub(super) threads: Planned,
    /// The thread that answers questions for counters, if it is another one.
    pub(super) metrics: Option<Metrics>,
}

/// What the thread has done.
enum Done {
    Read(Result<Plan>),
    Opened(Result<Resources>),
}

/// A file beside the run as it is.
struct Reading {
    file: String,
    text: String,
    running: Plan,
    exclusive: Vec<u32>,
    no_kvm: Option<String>,
}

impl Default for Opening {
    fn default() -> Self {
        Self { errand: Errand::default(), waiting: None, open: Arc::new(Resources::open) }
    }
}

impl Opening {
    /// Whether a file is on its way.
    pub(super) fn is_under_way(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether its thread is opening what the file needs, which was read.
    #[cfg(test)]
    pub(super) fn is_opened_now(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.ready.is_some())
    }

    /// What to poll for reading.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.errand.watched()
    }

    /// Waits for what is being opened, so that it is closed again, but not for long.
    pub(super) fn give_up(&mut self, most: Duration) {
        self.errand.give_up(most);
    }

    fn start(&mut self, work: impl FnOnce() -> Done + Send + 'static) -> Result<()> {
        if self.errand.start("ringroad/opening", work) {
            return Ok(());
        }
        bail!("no thread can be had to open what the file needs: try again in a second")
    }
}

impl Reading {
    /// Reads the file and asks the host whether it can be run here, beside what the run has already.
    fn checked(self) -> Result<Plan> {
        let mut plan = config::parse(&self.text, &self.file)?;
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

impl Supervisor {
    /// Has a file read, and then opened what it needs.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn read(&mut self, ticket: Ticket, wanted: Wanted) -> Result<()> {
        let reading = Reading {
            file: wanted.file.clone(),
            text: wanted.text.clone(),
            running: self.running.plan.clone(),
            exclusive: self.placing.exclusive().collect(),
            no_kvm: self.running.no_kvm.clone(),
        };
        self.desk.opening.start(move || Done::Read(reading.checked()))?;
        self.desk.opening.waiting = Some(Waiting { ticket, wanted, ready: None });
        Ok(())
    }

    /// Goes on with a file for which the thread has done something.
    pub(super) fn attend_opening(&mut self, now: Instant) {
        let opening = &mut self.desk.opening;
        let done = opening.errand.finished();
        if done.is_none() && opening.errand.is_at_work() {
            return;
        }
        let Some(Waiting { ticket, wanted, ready }) = opening.waiting.take() else { return };
        let file = wanted.file.clone();
        let outcome = match (done, ready) {
            (Some(Done::Read(plan)), _) => plan.and_then(|plan| self.go_on_with(ticket, wanted, plan, now)),
            (Some(Done::Opened(opened)), Some(ready)) => {
                opened.and_then(|opened| self.hand_on(ticket, wanted, Ready { opened, ..ready }, now))
            }
            _ => Err(anyhow!("the thread that opens what the file needs has ended: try again in a second")),
        };
        if let Err(error) = outcome {
            self.refuse(ticket, &file, &error, now);
        }
    }

    /// The file was read, and nothing speaks against it: what it needs is opened.
    fn go_on_with(&mut self, ticket: Ticket, wanted: Wanted, plan: Plan, now: Instant) -> Result<()> {
        let threads = self.placing.planned(&plan, now)?;
        let metrics = self.metrics.other(&plan, &mut self.lock)?;
        let (to_open, opened) = (plan.clone(), Resources::default());
        let ready = Ready { plan, opened, threads, metrics };
        if wanted.dry_run {
            return self.hand_on(ticket, wanted, ready, now);
        }
        self.prepare(&to_open)?;
        let (held, open) = (self.resources.held(&to_open), self.desk.opening.open.clone());
        self.desk.opening.start(move || Done::Opened(open(&to_open, &held)))?;
        self.desk.opening.waiting = Some(Waiting { ticket, wanted, ready: Some(ready) });
        Ok(())
    }
}
