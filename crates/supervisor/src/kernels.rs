//! Kernel routers (`engine = "kernel"`): network namespaces in which the host's kernel forwards. Here the term includes container
//! routers (`"lxc"`), whose namespace belongs to a container. One worker thread at a time creates, changes and checks them, one
//! task after the other, because requests about interfaces may block in the kernel. The data plane does not know these routers.
//!
//! ```text
//! Plan --> Spec of each router (plan) --> Task --> thread: KernelBackend (namespaces of this host) --> Done --> Supervisor
//! ```

mod adverts;
mod attend;
pub(crate) mod backend;
mod changes;
pub(crate) mod drop_reasons;
pub(super) mod leftovers;
pub(crate) mod napi;
pub(crate) mod network;
pub(crate) mod plan;
mod rate_limit;
mod serve;
mod tracing;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::Result;
use api::Ticket;
use config::Plan;

use super::background_job::BackgroundJob;
use backend::{Counted, KernelBackend, Seen};
pub(super) use changes::changes;
use network::Network;
use plan::all as wanted;
use tracing::RunningTrace;
use work::{Done, Task};

/// Interval between two checks of all kernel routers.
const LOOK: Duration = Duration::from_secs(1);
/// Longest pause between two attempts to repair a router.
const LONGEST: Duration = Duration::from_secs(30);

/// The kernel routers of a run.
pub(crate) struct KernelRouters {
    /// The namespaces; `None` while a thread works on them.
    backend: Option<Box<dyn KernelBackend>>,
    at_work: BackgroundJob<(Box<dyn KernelBackend>, Done)>,
    waiting: VecDeque<Task>,
    /// Routers that should run, by name.
    forwarders: BTreeMap<String, RouterState>,
    /// When to check them again; `None` before the first check.
    look: Option<Instant>,
    /// Running traces.
    traces: Vec<RunningTrace>,
    /// Clients that have disconnected since the current task began.
    gone: Vec<Ticket>,
}

/// State of a router that should run, as of the last check.
struct RouterState {
    /// Time of its last start.
    since: Instant,
    restarts: u32,
    /// True if it does not exist although it should run.
    has_failed: bool,
    /// Reason of the last failure.
    reason: Option<String>,
    seen: Seen,
    counted: Counted,
    trouble: Option<RepairState>,
}

/// Repair state of a router that lacks an interface or its namespace.
struct RepairState {
    next: Instant,
    /// Pause after the next attempt.
    pause: Duration,
    told: bool,
}

impl RouterState {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            restarts: 0,
            has_failed: false,
            reason: None,
            seen: Seen::default(),
            counted: Counted::default(),
            trouble: None,
        }
    }

    /// Returns true if a repair is due now, and schedules the next one. The pause between repairs doubles, up to `LONGEST`.
    fn try_now(&mut self, now: Instant) -> bool {
        let trouble = self.trouble.get_or_insert(RepairState { next: now, pause: LOOK, told: false });
        if now < trouble.next {
            return false;
        }
        trouble.next = now + trouble.pause;
        trouble.pause = (trouble.pause * 2).min(LONGEST);
        true
    }

    /// Returns true if a failed repair has not been reported yet: once, until a repair succeeds.
    fn take_unreported(&mut self) -> bool {
        self.trouble.as_mut().is_some_and(|trouble| !std::mem::replace(&mut trouble.told, true))
    }
}

impl KernelRouters {
    /// Creates the routers of a plan that should run. If one of them is refused, none is left.
    ///
    /// # Errors
    /// One line: the operation that the kernel refuses.
    pub(crate) fn begin(mut backend: Box<dyn KernelBackend>, plan: &Plan, now: Instant) -> Result<Self> {
        work::change(&mut *backend, &[], &wanted(plan)?)?;
        let (waiting, forwarders, traces, gone) = Default::default();
        let (backend, at_work) = (Some(backend), BackgroundJob::default());
        let mut kernels = Self { backend, at_work, waiting, forwarders, look: None, traces, gone };
        kernels.follow(plan, now);
        Ok(kernels)
    }

    /// Queues the change from one plan to another. Returns true if anything has to change.
    ///
    /// # Errors
    /// One line: the attachment of a NIC is not available for kernel routers.
    pub(super) fn change(&mut self, from: &Plan, to: &Plan) -> Result<bool> {
        let (from, to) = (wanted(from)?, wanted(to)?);
        let is_other = from != to;
        if is_other {
            self.add(Task::Change { from, to });
            self.start_next();
        }
        Ok(is_other)
    }

    /// Adjusts the set of routers to a plan that has been carried out.
    pub(super) fn follow(&mut self, plan: &Plan, now: Instant) {
        let running = || plan.in_kernel().filter(|router| !router.is_stopped());
        self.forwarders.retain(|name, _| running().any(|router| router.name == *name));
        for router in running() {
            self.forwarders.entry(router.name.clone()).or_insert_with(|| RouterState::new(now));
        }
    }

    /// Returns the namespace of a router that runs, as of the last check.
    pub(super) fn network(&self, router: &str) -> Option<&Network> {
        self.forwarders.get(router)?.seen.network.as_ref()
    }

    /// Has a router checked now, and repaired without a pause if it lacks an interface: the TAP that it needs was made again.
    pub(super) fn repair_soon(&mut self, router: &str, now: Instant) {
        let Some(known) = self.forwarders.get_mut(router) else { return };
        if let Some(trouble) = &mut known.trouble {
            *trouble = RepairState { next: now, pause: LOOK, ..*trouble };
        }
        self.look = Some(now);
    }

    /// Queues a task behind all others.
    fn add(&mut self, task: Task) {
        self.waiting.push_back(task);
    }

    /// Returns the result of the current task, if it has finished.
    fn finished(&mut self) -> Option<Done> {
        let (backend, done) = self.at_work.finished()?;
        self.backend = Some(backend);
        Some(done)
    }

    /// Starts the next task on a thread. If no thread is available the task stays in the queue.
    fn start_next(&mut self) {
        let Some(backend) = self.backend.take() else { return };
        let Some(task) = self.waiting.pop_front() else {
            self.backend = Some(backend);
            return;
        };
        let work = |(mut backend, task): (Box<dyn KernelBackend>, Task)| {
            let done = task.carry_out(&mut *backend);
            (backend, done)
        };
        if let Some((backend, task)) = self.at_work.start_with("ringroad/kernel", (backend, task), work) {
            self.backend = Some(backend);
            self.waiting.push_front(task);
        }
    }

    /// Returns a descriptor that is readable when the current task has finished.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.at_work.watched()
    }

    /// Returns the time of the next check of routers or traces.
    pub(super) fn due(&self) -> Option<Instant> {
        let look = self.look.filter(|_| !self.forwarders.is_empty());
        self.traces.iter().map(RunningTrace::due).chain(look).min()
    }

    /// Ends the traces of a client that has disconnected.
    pub(super) fn forget(&mut self, client: Ticket) {
        self.traces.retain(|trace| trace.ticket != client);
        self.waiting.retain(|task| !matches!(task, Task::Follow(ticket, _) if *ticket == client));
        if self.backend.is_none() {
            self.gone.push(client);
        }
    }

    /// Returns true if its thread has nothing to do: what is asked now is answered soon.
    pub(super) fn is_idle(&self) -> bool {
        self.backend.is_some() && self.waiting.is_empty()
    }

    /// Removes all routers, after waiting at most `most` for the current task. When that time is over, what is left goes with the
    /// backend, which kills containers without asking them to end. Returns descriptions of all that could not be removed, or was left so.
    pub(super) fn end(&mut self, most: Duration) -> Vec<String> {
        self.waiting.clear();
        let end = Instant::now() + most;
        let came_back = self.at_work.wait(most).map(|(backend, _)| backend);
        let Some(mut backend) = self.backend.take().or(came_back) else {
            return vec!["kernel routers are left behind: a step of one of them does not end".to_owned()];
        };
        let (mut lines, mut late) = <(Vec<String>, Vec<String>)>::default();
        for name in std::mem::take(&mut self.forwarders).into_keys() {
            if Instant::now() < end {
                lines.extend(backend.end(&name).err().map(|error| format!("{error:#}")));
            } else {
                late.push(name);
            }
        }
        if !late.is_empty() {
            lines.push(format!("killed without being asked to end: {}", late.join(", ")));
        }
        lines
    }
}
