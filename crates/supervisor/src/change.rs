//! What a run is to be becomes another plan, one change at a time: a file that is applied, a setting, a router that is stopped or
//! started.
//!
//! ```text
//! wanted --> plan, verified --> what it needs, opened --> data plane --> processes of routers --> threads --> it is what runs
//!                                                              |               |                    |
//!                                                              +---------------+--------------------+--> refused: all goes back
//! ```
//!
//! Until the end the plan that runs is the old one: a data plane that dies meanwhile is started again with that, and processes that
//! have followed go back to it. So whoever is started, whenever that is, is told the plan that runs, and nothing else.

mod steps;

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use api::{Answer, Request, Ticket};
use config::{Plan, Power, Setting};
use telemetry::Kind;

use super::Supervisor;
use super::metrics::Metrics;
use super::opening::{Done, Opening, Reading};
use super::placing::Planned;
use super::resources::Resources;

/// Changes that wait at most.
const MOST_WAITING: usize = 16;

/// What a client wants.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// The run is what this file says.
    File(File),
    /// A router has another setting.
    Setting(Edit),
}

/// What a client asks for, which waits for what others have asked for before.
pub(super) enum Asked {
    /// Another plan.
    Change(Wanted),
    /// That a router runs, whether it was stopped, has failed or has turned itself off: started, or started anew, as this request says.
    Running(String, Request),
}

/// A file that a client wants to run.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Its name.
    pub(super) file: String,
    /// What it says.
    pub(super) text: String,
    /// Only say what would change.
    pub(super) dry_run: bool,
}

/// A setting that a client changes.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) router: String,
    pub(super) key: String,
    pub(super) value: String,
    /// What is answered instead of what has changed.
    pub(super) answer: Option<String>,
}

/// What is wanted, and the client who waits for it.
#[derive(Debug)]
struct Wish {
    ticket: Ticket,
    wanted: Wanted,
}

/// What is to run, and what it needs.
pub(super) struct Next {
    pub(super) plan: Plan,
    /// What was opened for it.
    pub(super) opened: Resources,
    /// What is planned for its threads; none: they stay.
    pub(super) threads: Option<Planned>,
    /// What answers questions for counters, if it is another one.
    pub(super) metrics: Option<Metrics>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The data plane.
    Plane,
    /// The processes of routers.
    Processes,
    /// Threads in their places.
    Threads,
    /// Whoever has followed is to be what it was.
    Back,
}

/// A change that is under way.
struct Change {
    wish: Wish,
    next: Next,
    phase: Phase,
    /// Those who have not answered yet: the data plane, or the process of a router.
    asked: BTreeSet<Option<String>>,
    /// Those who have followed, the first one first.
    followed: Vec<Option<String>>,
    changes: Vec<api::Change>,
    /// Why nothing comes of it.
    refusal: Option<anyhow::Error>,
}

/// All changes that are wanted.
#[derive(Default)]
pub(super) struct Changes {
    waiting: VecDeque<(Ticket, Asked)>,
    /// A file that is read, or whose needs are opened: then with what it says.
    preparing: Option<(Wish, Option<Next>)>,
    pub(super) opening: Opening,
    under_way: Option<Box<Change>>,
}

impl Change {
    fn new(wish: Wish, next: Next) -> Self {
        let (asked, followed, changes) = Default::default();
        Self { wish, next, phase: Phase::Plane, asked, followed, changes, refusal: None }
    }
}

impl Asked {
    /// What a request asks for.
    ///
    /// # Errors
    /// The request is about something else.
    pub(super) fn of(request: Request) -> Result<Self, Request> {
        match request {
            Request::Apply { file, text, dry_run } => {
                Ok(Self::Change(Wanted::File(File { file, text, dry_run })))
            }
            Request::Set { router, key, value } if key == "state" && value == "running" => {
                Ok(Self::Running(router.clone(), Request::Start { router }))
            }
            Request::Set { router, key, value } => {
                Ok(Self::Change(Wanted::Setting(Edit { router, key, value, answer: None })))
            }
            Request::Stop { name } => {
                let answer = format!("router {name} is stopped");
                Ok(Self::Change(Wanted::Setting(Edit::state(name, Power::Stopped, answer))))
            }
            Request::Start { ref router } | Request::Restart { ref router } => {
                Ok(Self::Running(router.clone(), request))
            }
            request => Err(request),
        }
    }
}

impl Wanted {
    fn is_dry_run(&self) -> bool {
        matches!(self, Self::File(File { dry_run: true, .. }))
    }
}

impl Changes {
    /// Whether one is being prepared or made.
    pub(super) fn is_busy(&self) -> bool {
        self.preparing.is_some() || self.under_way.is_some()
    }

    /// Whether the next one is a file.
    fn is_file_next(&self) -> bool {
        matches!(self.waiting.front(), Some((_, Asked::Change(Wanted::File(_)))))
    }

    /// Whether one is being prepared.
    #[cfg(test)]
    pub(super) fn is_prepared(&self) -> bool {
        self.preparing.is_some()
    }

    /// Whether what a file needs is being opened, which was read.
    #[cfg(test)]
    pub(super) fn is_opened_now(&self) -> bool {
        matches!(self.preparing, Some((_, Some(_))))
    }

    /// Whether processes of routers are told to change at the moment. One that dies then is started when it is over.
    pub(super) fn holds_processes(&self) -> bool {
        self.under_way.as_ref().is_some_and(|change| change.phase != Phase::Plane)
    }

    /// The plan that is being made to run.
    pub(super) fn plan(&self) -> Option<&Plan> {
        self.under_way.as_ref().map(|change| &change.next.plan)
    }

    /// As [`Self::plan`], to be changed by hand.
    #[cfg(test)]
    pub(super) fn plan_mut(&mut self) -> Option<&mut Plan> {
        self.under_way.as_mut().map(|change| &mut change.next.plan)
    }

    /// What to poll for reading.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.opening.errand.watched()
    }

    /// Waits for what is being opened, so that it is closed again, but not for long.
    pub(super) fn give_up(&mut self, most: Duration) {
        self.opening.errand.give_up(most);
    }
}

impl Supervisor {
    /// A client wants something to be otherwise.
    pub(super) fn want(&mut self, ticket: Ticket, asked: Asked, now: Instant) {
        if self.changes.waiting.len() >= MOST_WAITING {
            let why = format!("{MOST_WAITING} changes wait already: try again in a second");
            return self.reply(ticket, Err(api::Error::new(why)), now);
        }
        self.changes.waiting.push_back((ticket, asked));
        self.begin_changes(now);
    }

    /// Goes on with what a thread has read or opened, and with what waits for its turn.
    pub(super) fn attend_changes(&mut self, now: Instant) {
        self.attend_opening(now);
        self.begin_changes(now);
    }

    /// Begins the next change, unless one is under way.
    fn begin_changes(&mut self, now: Instant) {
        while !self.changes.is_busy() {
            // What is still to be closed may be what it wants.
            if self.changes.is_file_next() && self.tending.holds_files() {
                return;
            }
            let Some((ticket, asked)) = self.changes.waiting.pop_front() else { return };
            let Some(wanted) = self.change_for(ticket, asked, now) else { continue };
            let wish = Wish { ticket, wanted };
            let begun = match &wish.wanted {
                Wanted::File(file) => self.read(file),
                Wanted::Setting(edit) => self.planned_for(edit, now).map(Some),
            };
            match begun {
                Ok(None) => self.changes.preparing = Some((wish, None)),
                Ok(Some(next)) => self.make(wish, next, now),
                Err(error) => self.refuse(wish, &error, now),
            }
        }
    }

    /// What is to be changed. A router that is to run, and that the plan has running, is started by whoever has it instead.
    fn change_for(&mut self, ticket: Ticket, asked: Asked, now: Instant) -> Option<Wanted> {
        let (router, request) = match asked {
            Asked::Change(wanted) => return Some(wanted),
            Asked::Running(router, request) => (router, request),
        };
        if !self.running.plan.routers.iter().any(|known| known.name == router && known.is_stopped()) {
            self.request_running(ticket, request, now);
            return None;
        }
        let answer = match request {
            Request::Restart { .. } => format!("router {router} was started anew"),
            _ => format!("router {router} runs"),
        };
        Some(Wanted::Setting(Edit::state(router, Power::Running, answer)))
    }

    /// Has a file read.
    fn read(&mut self, file: &File) -> Result<Option<Next>> {
        self.need_plane("try")?;
        let reading = Reading {
            file: file.file.clone(),
            text: file.text.clone(),
            running: self.running.plan.clone(),
            exclusive: self.placing.exclusive().collect(),
            no_kvm: self.running.no_kvm.clone(),
        };
        self.changes.opening.start(move || Done::Read(reading.checked()))?;
        Ok(None)
    }

    /// What is to run where a setting is another one. It needs nothing that is not there.
    fn planned_for(&self, edit: &Edit, now: Instant) -> Result<Next> {
        let Edit { router, key, value, .. } = edit;
        let plan = self.running.plan.with(router, key, value)?;
        self.need_plane("ask")?;
        let is_of_threads = Setting::find(key).is_some_and(|setting| setting.key.is_of_threads());
        let planned = is_of_threads.then(|| self.placing.planned(&plan, now)).transpose();
        let threads = planned.map_err(|errors| errors.of_setting(router, key))?;
        Ok(Next { plan, opened: Resources::default(), threads, metrics: None })
    }

    fn need_plane(&self, what: &str) -> Result<()> {
        if self.is_up() {
            return Ok(());
        }
        bail!("{}: {what} again in a second", self.why_not_up())
    }

    /// Goes on with a file for which the thread has done something.
    fn attend_opening(&mut self, now: Instant) {
        let errand = &mut self.changes.opening.errand;
        let done = errand.finished();
        if done.is_none() && errand.is_at_work() {
            return;
        }
        let Some((wish, next)) = self.changes.preparing.take() else { return };
        let outcome = match (done, next) {
            (Some(Done::Read(plan)), _) => plan.and_then(|plan| self.opened_for(&wish, plan, now)),
            (Some(Done::Opened(opened)), Some(next)) => opened.map(|opened| (Next { opened, ..next }, true)),
            _ => Err(anyhow!("the thread that opens what the file needs has ended: try again in a second")),
        };
        match outcome {
            Ok((next, true)) => self.make(wish, next, now),
            Ok((next, false)) => self.changes.preparing = Some((wish, Some(next))),
            Err(error) => self.refuse(wish, &error, now),
        }
    }

    /// The file was read, and nothing speaks against it: has opened what it needs; and whether all is there already.
    fn opened_for(&mut self, wish: &Wish, plan: Plan, now: Instant) -> Result<(Next, bool)> {
        let threads = Some(self.placing.planned(&plan, now)?);
        let metrics = self.metrics.other(&plan, &mut self.lock)?;
        let next = Next { plan, opened: Resources::default(), threads, metrics };
        if wish.wanted.is_dry_run() {
            return Ok((next, true));
        }
        // While there is none, what is held may be away.
        self.need_plane("try")?;
        self.prepare(&next.plan)?;
        let (plan, held) = (next.plan.clone(), self.resources.held(&next.plan));
        let open = self.changes.opening.open.clone();
        self.changes.opening.start(move || Done::Opened(open(&plan, &held)))?;
        Ok((next, false))
    }

    /// Takes the names that a plan needs beyond those that the run has.
    fn prepare(&mut self, plan: &Plan) -> Result<()> {
        for router in &plan.routers {
            if !self.lock.has(&router.name) {
                self.lock.add(&router.name)?;
            }
        }
        Resources::undo(plan).for_each(|undo| self.lock.add_undo(&undo));
        Ok(())
    }

    /// Tells why nothing comes of what was wanted.
    fn refuse(&mut self, wish: Wish, error: &anyhow::Error, now: Instant) {
        let message = match error.downcast_ref::<config::Errors>() {
            Some(errors) => errors.lines().collect::<Vec<_>>().join("; "),
            None => format!("{error:#}"),
        };
        if let Wanted::File(File { file, .. }) = &wish.wanted {
            self.lock_only_what_runs();
            self.events.tell(Kind::Refused, format!("{file} was not applied: {message}"));
        }
        self.reply(wish.ticket, Err(api::Error::new(message)), now);
    }

    /// Everybody has followed: it is what runs.
    fn commit(&mut self, change: Change, now: Instant) {
        let Change { wish, next, changes, .. } = change;
        match wish.wanted {
            Wanted::File(File { file, dry_run, .. }) => {
                if !dry_run {
                    self.adopt(next, now);
                    let disturbing = changes.iter().filter(|change| !change.hitless).count();
                    let message =
                        format!("{file}: {} changes, {disturbing} of them not hitless", changes.len());
                    self.events.tell(Kind::Applied, message);
                    self.running.file = file;
                }
                self.lock_only_what_runs();
                self.reply(wish.ticket, Ok(Answer::Applied { changes, dry_run }), now);
            }
            Wanted::Setting(edit) => {
                self.adopt(next, now);
                let message = edit.told(&changes);
                self.reply(wish.ticket, Ok(Answer::Done { message }), now);
            }
        }
    }

    /// The plan that runs is this one, and what it needs is kept.
    fn adopt(&mut self, next: Next, now: Instant) {
        let Next { plan, opened, metrics, .. } = next;
        self.resources.adopt(opened, &plan, &mut self.tending);
        if let Some(metrics) = metrics {
            self.metrics = metrics;
        }
        let before = std::mem::replace(&mut self.running.plan, plan);
        self.end_processes_of(&before, now);
    }

    /// Lets go of names that nothing of the run has any more, and of room below its ceilings.
    fn lock_only_what_runs(&mut self) {
        let plan = &self.running.plan;
        self.lock.keep(|name| plan.routers.iter().any(|router| router.name == name));
        self.ceilings.follow(plan);
    }
}

impl Edit {
    /// A router is to run, or to be stopped.
    fn state(router: String, state: Power, answer: String) -> Self {
        Self { router, key: "state".to_owned(), value: state.name().to_owned(), answer: Some(answer) }
    }

    /// What has changed by it, in one line, with what that loses.
    fn told(self, changes: &[api::Change]) -> String {
        let Self { router, key, value, answer } = self;
        if let Some(answer) = answer {
            return answer;
        }
        let told = |change: &api::Change| match &change.why {
            Some(why) => format!("{}; {why}", change.what),
            None => change.what.clone(),
        };
        let told: Vec<String> = changes.iter().map(told).collect();
        let what =
            if told.is_empty() { format!("router {router}: {key} = {value}") } else { told.join("; ") };
        match Setting::find(&key) {
            Some(setting) if setting.loses.is_none() => format!("{what} ({})", setting.price()),
            _ => what,
        }
    }
}
