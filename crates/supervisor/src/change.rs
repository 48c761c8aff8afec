//! Changes of the running plan, one at a time: a file that is applied, a setting, a router that is stopped or
//! started.
//!
//! ```text
//! wanted --> plan, verified --> what it needs, opened --> data plane --> processes of routers --> kernel --> threads --> it is what runs
//!                                                              |               |                 |           |
//!                                                              +---------------+-----------------+-----------+--> refused: all goes back
//! ```
//!
//! Until the last step the old plan is the one that runs: a data plane that dies meanwhile is restarted with
//! it, and processes that already follow the new one are rolled back. So every process, whenever it starts,
//! is told the plan that runs and no other.

mod edit;
mod followed_here;
mod regroup;
mod spares;
mod steps;

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use api::{Answer, Request, Ticket};
use config::{Group, GroupKind, Plan, Power, Setting, Surplus};
use telemetry::Kind;
use uplink::SocketBroker;

use super::Supervisor;
use super::control_plane::ControlJournal;
use super::file_opener::{FileOpener, FileToCheck, OpenerResult};
use super::metrics::Metrics;
use super::resources::Resources;
use super::run_lock::NameClaim;
use super::thread_placement::Planned;
use edit::Edit;
use spares::Spares;

/// Most changes that may wait.
const MOST_WAITING: usize = 16;

/// Change that a client requests.
#[derive(Clone, Debug)]
pub(super) enum RequestedChange {
    /// Make the run what this file says.
    File(File),
    /// Give a router another setting.
    Setting(Edit),
}

/// Request that waits for earlier ones.
pub(super) enum QueuedRequest {
    /// Another plan.
    Change(RequestedChange),
    /// A router is to run, whether it was stopped, has failed or has turned itself off: start it, or restart
    /// it, as this request says.
    Running(String, Request),
}

/// File that a client applies.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Name of the file.
    pub(super) file: String,
    /// Text of the file.
    pub(super) text: String,
    /// Report only what would change.
    pub(super) dry_run: bool,
}

/// A change and the client that waits for it.
#[derive(Debug)]
struct PendingChange {
    ticket: Ticket,
    wanted: RequestedChange,
}

/// Plan to switch to, with everything that it needs.
pub(super) struct PreparedPlan {
    pub(super) plan: Plan,
    /// Resources opened for it.
    pub(super) opened: Resources,
    /// Placement of its threads; `None`: unchanged.
    pub(super) threads: Option<Planned>,
    /// Metrics endpoint, if it differs from the present one.
    pub(super) metrics: Option<Metrics>,
}

/// Step that a change waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The data plane follows.
    Plane,
    /// The processes of routers follow.
    Processes,
    /// The kernel routers.
    Kernel,
    /// The threads move to their places.
    Threads,
    /// Rollback: the processes that have followed return to the old plan.
    Rollback,
}

/// Change in progress.
struct Change {
    wish: PendingChange,
    next: PreparedPlan,
    phase: Phase,
    /// Processes that have not replied yet: the data plane (`None`), or the process of a router.
    asked: BTreeSet<Option<String>>,
    /// Processes that have followed, in order.
    followed: Vec<Option<String>>,
    /// The kernel routers are being changed.
    waits_for_kernel: bool,
    /// The kernel routers were changed.
    kernel_has_followed: bool,
    changes: Vec<api::Change>,
    /// Why the change is refused.
    refusal: Option<anyhow::Error>,
}

/// All pending changes.
#[derive(Default)]
pub(super) struct Changes {
    waiting: VecDeque<(Ticket, QueuedRequest)>,
    /// Change in preparation: a file that is being read, or, with its plan, one whose resources are being
    /// opened.
    preparing: Option<(PendingChange, Option<PreparedPlan>)>,
    pub(super) file_opener: FileOpener,
    under_way: Option<Box<Change>>,
    spares: Spares,
    /// Number of the plan that runs: so many were adopted before.
    pub(super) number: u64,
}

impl Change {
    fn new(wish: PendingChange, next: PreparedPlan) -> Self {
        let (asked, followed, changes) = Default::default();
        let (waits_for_kernel, kernel_has_followed) = (false, false);
        Self {
            wish,
            next,
            phase: Phase::Plane,
            asked,
            followed,
            waits_for_kernel,
            kernel_has_followed,
            changes,
            refusal: None,
        }
    }
}

impl QueuedRequest {
    /// Converts a request into a change.
    ///
    /// # Errors
    /// Returns the request if it is about something else.
    pub(super) fn of(request: Request) -> Result<Self, Request> {
        match request {
            Request::Apply { file, text, dry_run } => {
                Ok(Self::Change(RequestedChange::File(File { file, text, dry_run })))
            }
            Request::Set { router, key, value } if key == "state" && value == "running" => {
                Ok(Self::Running(router.clone(), Request::Start { router }))
            }
            Request::Set { router, key, value } => {
                Ok(Self::Change(RequestedChange::Setting(Edit { router, key, value, answer: None })))
            }
            Request::Stop { name } => {
                let answer = format!("router {name} is stopped");
                Ok(Self::Change(RequestedChange::Setting(Edit::state(name, Power::Stopped, answer))))
            }
            Request::Start { ref router } | Request::Restart { ref router } => {
                Ok(Self::Running(router.clone(), request))
            }
            request => Err(request),
        }
    }
}

impl RequestedChange {
    /// That a group has so many members awake: others are parked, where it has them parked, or end.
    pub(super) fn awake(group: &Group, members: u32) -> Self {
        let parks = group.scale.is_some_and(|scale| scale.surplus == Surplus::Park);
        let key = if parks { GroupKind::AWAKE_KEY } else { group.members_key() };
        let (router, key, value) = (group.name.clone(), key.to_owned(), members.to_string());
        Self::Setting(Edit { router, key, value, answer: None })
    }

    fn is_dry_run(&self) -> bool {
        matches!(self, Self::File(File { dry_run: true, .. }))
    }
}

impl Changes {
    /// Returns true if a change is being prepared or made.
    pub(super) fn is_busy(&self) -> bool {
        self.preparing.is_some() || self.under_way.is_some()
    }

    /// Returns true if no change waits either.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy() && self.waiting.is_empty()
    }

    /// Returns true if the next change opens what its plan needs: a file, or another number of routers.
    fn opens_next(&self) -> bool {
        match self.waiting.front() {
            Some((_, QueuedRequest::Change(RequestedChange::File(_)))) => true,
            Some((_, QueuedRequest::Change(RequestedChange::Setting(edit)))) => edit.moves_routers(),
            Some((_, QueuedRequest::Running(..))) | None => false,
        }
    }

    /// Returns true if a change is being prepared.
    #[cfg(test)]
    pub(super) fn is_prepared(&self) -> bool {
        self.preparing.is_some()
    }

    /// Returns true if a file was read and what it needs is being opened.
    #[cfg(test)]
    pub(super) fn is_opened_now(&self) -> bool {
        matches!(self.preparing, Some((_, Some(_))))
    }

    /// Returns true while processes of routers are told to change. A process that dies then is restarted
    /// afterwards.
    pub(super) fn holds_processes(&self) -> bool {
        self.under_way.as_ref().is_some_and(|change| change.phase != Phase::Plane)
    }

    /// Plan that the change in progress leads to.
    pub(super) fn plan(&self) -> Option<&Plan> {
        self.under_way.as_ref().map(|change| &change.next.plan)
    }

    /// Socket pairs that were opened for the change in progress: NICs that it adds to isolated routers are
    /// connected by them before it is made.
    pub(super) fn brokers(&self) -> impl Iterator<Item = &SocketBroker> {
        self.under_way.iter().flat_map(|change| change.next.opened.brokers())
    }

    /// Mutable [`Self::brokers`].
    pub(super) fn brokers_mut(&mut self) -> impl Iterator<Item = &mut SocketBroker> {
        self.under_way.iter_mut().flat_map(|change| change.next.opened.brokers_mut())
    }

    /// Mutable [`Self::plan`], for tests.
    #[cfg(test)]
    pub(super) fn plan_mut(&mut self) -> Option<&mut Plan> {
        self.under_way.as_mut().map(|change| &mut change.next.plan)
    }

    /// Descriptor to poll for reading.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.file_opener.job.watched()
    }

    /// Waits, at most this long, for resources that are being opened, so that they are closed again. Returns true if they are.
    pub(super) fn give_up(&mut self, most: Duration) -> bool {
        self.file_opener.job.give_up(most)
    }
}

impl Supervisor {
    /// Queues a change for a client.
    pub(super) fn want(&mut self, ticket: Ticket, asked: QueuedRequest, now: Instant) {
        if self.changes.waiting.len() >= MOST_WAITING {
            let why = format!("{MOST_WAITING} changes wait already: try again in a second");
            return self.reply(ticket, Err(api::Error::new(why)), now);
        }
        self.changes.waiting.push_back((ticket, asked));
        self.begin_changes(now);
    }

    /// Continues the change whose file a thread has read or whose resources it has opened, and begins the
    /// next one in the queue; groups get spare members.
    pub(super) fn attend_changes(&mut self, now: Instant) {
        self.attend_opening(now);
        self.begin_changes(now);
        self.attend_spares(now);
    }

    /// Begins the next change, unless one is in progress.
    fn begin_changes(&mut self, now: Instant) {
        while !self.changes.is_busy() {
            // It may need something that is still being closed or held, or change routes that are still being taken back.
            let is_held = self.link_jobs.holds_files() || self.controls.are_ending();
            if self.changes.opens_next() && is_held {
                return;
            }
            let Some((ticket, asked)) = self.changes.waiting.pop_front() else { return };
            let Some(wanted) = self.change_for(ticket, asked, now) else { continue };
            let wish = PendingChange { ticket, wanted };
            let begun = match &wish.wanted {
                RequestedChange::File(file) => self.read(file),
                RequestedChange::Setting(edit) if edit.moves_routers() => {
                    self.opened_for_group(&wish, edit, now).map(Some)
                }
                RequestedChange::Setting(edit) => self.planned_for(edit, now).map(|next| Some((next, true))),
            };
            match begun {
                Ok(Some((next, true))) => self.make(wish, next, now),
                Ok(next) => self.changes.preparing = Some((wish, next.map(|(next, _)| next))),
                Err(error) => self.refuse(wish, &error, now),
            }
        }
    }

    /// Determines the change to make. A request to run a router that the plan already has running goes to the
    /// process that holds the router instead.
    fn change_for(&mut self, ticket: Ticket, asked: QueuedRequest, now: Instant) -> Option<RequestedChange> {
        let (router, request) = match asked {
            QueuedRequest::Change(wanted) => return Some(wanted),
            QueuedRequest::Running(router, request) => (router, request),
        };
        if self.running.plan.group(&router).is_some() {
            let answer = format!("group {router} runs");
            return Some(RequestedChange::Setting(Edit::state(router, Power::Running, answer)));
        }
        if !self.running.plan.routers.iter().any(|known| known.name == router && known.is_stopped()) {
            self.request_running(ticket, request, now);
            return None;
        }
        let answer = match request {
            Request::Restart { .. } => format!("router {router} was started anew"),
            _ => format!("router {router} runs"),
        };
        Some(RequestedChange::Setting(Edit::state(router, Power::Running, answer)))
    }

    /// Starts reading a file in a thread.
    fn read(&mut self, file: &File) -> Result<Option<(PreparedPlan, bool)>> {
        self.need_plane("try")?;
        let reading = FileToCheck {
            file: file.file.clone(),
            text: file.text.clone(),
            running: self.running.plan.clone(),
            exclusive: self.placement.exclusive().collect(),
            no_kvm: self.running.no_kvm.clone(),
        };
        self.changes.file_opener.start(move || OpenerResult::Read(reading.checked()))?;
        Ok(None)
    }

    /// Plan after a change of a setting. It needs no resources beyond those that are open.
    fn planned_for(&self, edit: &Edit, now: Instant) -> Result<PreparedPlan> {
        let Edit { router, key, value, .. } = edit;
        let plan = self.running.plan.with(router, key, value)?;
        self.need_plane("ask")?;
        let moves_threads = Setting::find(key).is_some_and(|setting| setting.key.moves_threads());
        let planned = moves_threads.then(|| self.placement.planned(&plan, now)).transpose();
        let threads = planned.map_err(|errors| errors.of_setting(router, key))?;
        Ok(PreparedPlan { plan, opened: Resources::default(), threads, metrics: None })
    }

    fn need_plane(&self, what: &str) -> Result<()> {
        if self.is_up() {
            return Ok(());
        }
        bail!("{}: {what} again in a second", self.why_not_up())
    }

    /// Continues with a file after the thread has finished a step.
    fn attend_opening(&mut self, now: Instant) {
        let job = &mut self.changes.file_opener.job;
        let done = job.finished();
        if done.is_none() && job.is_at_work() {
            return;
        }
        let Some((wish, next)) = self.changes.preparing.take() else { return };
        let outcome = match (done, next) {
            (Some(OpenerResult::Read(plan)), _) => plan.and_then(|plan| self.opened_for(&wish, plan, now)),
            (Some(OpenerResult::Opened(opened)), Some(next)) => opened.map(|(opened, names)| {
                self.lock.adopt(names);
                (PreparedPlan { opened, ..next }, true)
            }),
            _ => Err(anyhow!("the thread that opens what the file needs has ended: try again in a second")),
        };
        match outcome {
            Ok((next, true)) => self.make(wish, next, now),
            Ok((next, false)) => self.changes.preparing = Some((wish, Some(next))),
            Err(error) => self.refuse(wish, &error, now),
        }
    }

    /// Starts opening what a valid file needs. The second value is true if there is nothing to wait for (a
    /// dry run).
    fn opened_for(&mut self, wish: &PendingChange, plan: Plan, now: Instant) -> Result<(PreparedPlan, bool)> {
        let threads = Some(self.placement.planned(&plan, now)?);
        let metrics = self.metrics.other(&plan, &mut self.lock)?;
        let next = PreparedPlan { plan, opened: Resources::default(), threads, metrics };
        if wish.wanted.is_dry_run() {
            return Ok((next, true));
        }
        // Without a data plane the resources held may be away being renewed.
        self.need_plane("try")?;
        self.may_have_controls(&next.plan)?;
        // Remains of a killed run may still hold a name, which is waited for.
        let (claim, announce) = (self.lock.claim(next.plan.names()), self.lock.undo_journal()?);
        let (plan, mut held) = (next.plan.clone(), self.resources.held(&next.plan));
        held.control.journal = ControlJournal::new(Box::new(self.lock.leftovers()?));
        let open = self.changes.file_opener.open.clone();
        let work = move || -> Result<(Resources, NameClaim)> {
            let names = claim.take()?;
            Resources::undo(&plan).for_each(|undo| announce(&undo));
            Ok((open(&plan, &held)?, names))
        };
        self.changes.file_opener.start(move || OpenerResult::Opened(work()))?;
        Ok((next, false))
    }

    /// Reports why a change is refused.
    fn refuse(&mut self, wish: PendingChange, error: &anyhow::Error, now: Instant) {
        let message = match error.downcast_ref::<config::Errors>() {
            Some(errors) => errors.lines().collect::<Vec<_>>().join("; "),
            None => format!("{error:#}"),
        };
        match &wish.wanted {
            RequestedChange::File(File { file, .. }) => {
                self.lock_only_what_runs();
                self.events.record(Kind::Refused, format!("{file} was not applied: {message}"));
            }
            RequestedChange::Setting(edit) if edit.moves_routers() => self.lock_only_what_runs(),
            RequestedChange::Setting(_) => {}
        }
        if wish.ticket == Ticket::NOBODY {
            self.tell_of_spares(&wish.wanted, &message, now);
        }
        self.reply(wish.ticket, Err(api::Error::new(message)), now);
    }

    /// Commits a change that all processes have followed: its plan is the one that runs.
    fn commit(&mut self, change: Change, now: Instant) {
        let Change { wish, next, changes, followed, .. } = change;
        match wish.wanted {
            RequestedChange::File(File { file, dry_run, .. }) => {
                if !dry_run {
                    self.adopt(next, &followed, now);
                    self.reload_controls();
                    let disturbing = changes.iter().filter(|change| !change.hitless).count();
                    let message =
                        format!("{file}: {} changes, {disturbing} of them not hitless", changes.len());
                    self.events.record(Kind::Applied, message);
                    self.running.file = file;
                }
                self.lock_only_what_runs();
                self.reply(wish.ticket, Ok(Answer::Applied { changes, dry_run }), now);
            }
            RequestedChange::Setting(edit) => {
                self.adopt(next, &followed, now);
                if edit.moves_routers() {
                    self.lock_only_what_runs();
                }
                let message = edit.told(&changes);
                self.reply(wish.ticket, Ok(Answer::Done { message }), now);
            }
        }
    }

    /// Makes this the running plan, which these processes have `followed`, and keeps what it needs.
    fn adopt(&mut self, next: PreparedPlan, followed: &[Option<String>], now: Instant) {
        let PreparedPlan { plan, opened, metrics, .. } = next;
        self.resources.adopt(opened, &plan, &mut self.link_jobs);
        if let Some(metrics) = metrics {
            self.metrics = metrics;
        }
        let before = std::mem::replace(&mut self.running.plan, plan);
        self.changes.number += 1;
        self.kernels.follow(&self.running.plan, now);
        self.follow_controls(now);
        self.follow_parking(&before, now);
        self.end_processes_of(&before, followed, now);
    }

    /// Releases locks on names that the run no longer uses, and lowers the ceilings to what it needs.
    fn lock_only_what_runs(&mut self) {
        let plan = &self.running.plan;
        self.lock.keep(|held| plan.names().any(|name| name == held));
        self.ceilings.follow(plan);
    }
}
