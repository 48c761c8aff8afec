//! Supervisor of a run: a small privileged process with one event loop, and helper threads for work that may block.
//!
//! It opens what needs privileges, hands it to a data plane that has none, and restarts the data plane when it dies. It owns the
//! locks of names, the control socket and the telemetry, so that these outlive a data plane. A run is a loop around one poll(2)
//! that no outsider (the data plane, a client, a reader of its output) can block.
//!
//! [`run`] brings a file up. It re-executes its own program for the data plane (`data-plane SUPERVISOR USER`) and for the
//! cleaner, which removes the files of a killed run (`cleaner RUN`, [`clean_up_after`]). Commands share the rest with a run: the
//! placement [`planned`] for its threads, the locks of names, the live [`table`].
#![forbid(unsafe_code)]

mod account;
mod background_job;
mod bell;
mod carrier_watch;
mod ceiling;
mod change;
mod children;
mod control_plane;
mod costs;
mod deadlines;
mod display;
mod ending;
mod events;
mod file_opener;
mod group_tables;
mod kernels;
mod killed_processes;
mod lent_files;
mod lifecycle;
mod link_jobs;
mod link_monitor;
mod link_repair;
mod merged_reply;
mod metrics;
mod notify;
mod output;
mod packet_ways;
mod parking;
mod pending_placement;
pub mod plan_report;
mod plane;
mod rate;
mod reaper;
mod reply_deadlines;
mod request_router;
mod resources;
mod rolling;
mod router_process;
mod run_lock;
mod running;
mod scaling;
mod schedule;
mod signals;
mod status;
mod stderr;
pub mod table;
mod thread_lookups;
mod thread_placement;
mod vhost_threads;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use engine::BackOff;
use host::users;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use telemetry::Kind;
use uplink::SocketBroker;

use account::Accounting;
use carrier_watch::CarrierWatch;
use ceiling::Ceilings;
pub use ceiling::{mib, needed};
use change::Changes;
use children::Children;
use control_plane::{ControlJournal, ControlPlanes};
use display::Display;
pub use events::{Events, Log};
use kernels::{KernelRouters, backend::HostBackend};
use killed_processes::KilledProcesses;
use link_jobs::LinkJobs;
use link_monitor::LinkMonitor;
use link_repair::LinkRepair;
use metrics::Metrics;
pub use output::Output;
use plane::Plane;
use reply_deadlines::EXTENSION;
use request_router::{RequestRouter, Requester};
use resources::{AlreadyOpen, Resources};
use rolling::Rolling;
use router_process::RouterProcesses;
pub use run_lock::{RunLock, clean_up_after};
use running::Running;
use scaling::Scaling;
pub use signals::StopRequest;
use thread_lookups::Find;
use thread_placement::ThreadPlacement;
pub use thread_placement::{Planned, planned};

/// Time between two tables.
const SECOND: Duration = Duration::from_secs(1);
/// Time limit for the last table at the end of a run: as long as a data plane has for any counters.
const LAST_WORDS: Duration = reply_deadlines::ANSWER;

/// Options of a run.
#[derive(Debug)]
pub struct Options {
    /// Stop after this time.
    pub time: Option<Duration>,
    /// One JSON object a second instead of the table.
    pub json: bool,
    /// Format of events on standard error.
    pub log: Option<Log>,
    /// Name of the run, instead of the one in the file.
    pub name: Option<String>,
    /// User that the data plane runs as.
    pub user: Option<String>,
    /// Memory ceiling of the run, instead of what its plan needs.
    pub memory_max: Option<u64>,
}

/// The data plane, or the date of its next start.
#[derive(Default)]
struct PlaneLifecycle {
    /// `None` while it waits for a restart.
    plane: Option<Plane>,
    /// When to restart it.
    again: Option<Instant>,
    back_off: BackOff,
    /// Since when it forwards.
    up_since: Option<Instant>,
    /// Number of restarts.
    restarts: u32,
    /// Deaths before it served for the first time.
    failed_starts: u32,
    /// True once everything has been up.
    was_up: bool,
}

/// Deadlines of the event loop.
struct Times {
    started: Instant,
    /// When to show the next table.
    tick: Option<Instant>,
    /// When to stop.
    end: Option<Instant>,
    /// While the run ends: until when it waits for the last table.
    ending: Option<Instant>,
    /// True after that deadline was extended once.
    extended: bool,
}

/// Starts the process of a data plane.
type StartPlane = Box<dyn FnMut(Instant) -> Result<Plane>>;

/// State of a run before its data plane is told anything.
struct StartupState {
    options: Options,
    stop: StopRequest,
    running: Running,
    placement: ThreadPlacement,
    ceilings: Ceilings,
    lock: RunLock,
    resources: Resources,
    kernels: KernelRouters,
    metrics: Metrics,
    plane: Plane,
    /// For later data planes.
    start_plane: StartPlane,
    stdout: Output,
    stderr: Output,
}

/// State of a run.
struct Supervisor {
    options: Options,
    stop: StopRequest,
    running: Running,
    lifecycle: PlaneLifecycle,
    start_plane: StartPlane,
    /// Clock for measuring how long requested work takes; all other code is given the time as an argument.
    clock: Box<dyn Fn() -> Instant>,
    find: Find,
    /// Processes of isolated routers.
    isolated: RouterProcesses,
    /// The kernel routers.
    kernels: KernelRouters,
    /// The control planes of routers.
    controls: ControlPlanes,
    times: Times,
    children: Children,
    /// Data planes and processes of isolated routers that were killed and have not ended yet.
    killed: KilledProcesses,
    resources: Resources,
    link_jobs: LinkJobs,
    link_repair: LinkRepair,
    link_monitor: LinkMonitor,
    cables: CarrierWatch,
    events: Events,
    display: Display,
    request_router: RequestRouter,
    changes: Changes,
    /// A group whose members are started anew.
    rolling: Option<Rolling>,
    scaling: Scaling,
    metrics: Metrics,
    placement: ThreadPlacement,
    accounting: Accounting,
    /// Limits of all its processes together.
    ceilings: Ceilings,
    /// Last, so that the names stay taken as long as any part of the run exists.
    lock: RunLock,
}

/// Brings a file up and shows what it does, until the time is over, a signal arrives, or a client requests the end.
///
/// # Errors
/// What is wrong with the file or missing on this host, one line each; or that the routers cannot be brought
/// up.
pub fn run(file: &Path, options: Options) -> Result<()> {
    Supervisor::start(file, options)?.map_or(Ok(()), Supervisor::run)
}

impl Supervisor {
    /// Takes the names, opens what the file needs, and starts the data plane. A failure leaves nothing
    /// behind. Returns `None` if a signal arrived meanwhile.
    ///
    /// # Errors
    /// What is wrong with the file or missing on this host, one line each.
    fn start(file: &Path, options: Options) -> Result<Option<Self>> {
        let (mut running, by_process, threads) = Running::read(file, Instant::now())?;
        raise_descriptor_limit();
        let (stop, started) = (StopRequest::listen()?, Instant::now());
        let mut lock = match running.lock(&options, started) {
            // It may have waited for a killed run.
            Err(_) if stop.is_asked() => return Ok(None),
            locked => locked?,
        };
        let metrics = Metrics::open(&running.plan, &mut lock)?;
        let placement = ThreadPlacement::begin(&running.run, threads, &mut lock, started)?;
        let mut ceilings = Ceilings::begin(&running.run, &running.plan, options.memory_max, &lock)?;
        // The data plane initializes while the links are made.
        let user = data_plane_user(options.user.as_deref(), &mut lock)?;
        let plane = Plane::start(user, started)?;
        ceilings.enter(plane.pid());
        Resources::undo(&running.plan).for_each(|undo| lock.add_undo(&undo));
        let mut nothing = AlreadyOpen::default();
        nothing.control.journal = ControlJournal::new(Box::new(lock.leftovers()?));
        let resources = match Resources::open(&running.plan, &nothing) {
            // A signal interrupts system calls; its sender wants the end, not the reason.
            Err(_) if stop.is_asked() => return Ok(None),
            opened => opened?,
        };
        let journal = Box::new(lock.leftovers()?);
        let backend = Box::new(HostBackend::new(journal, lock.containers()?, lock.functions()));
        let kernels = KernelRouters::begin(backend, &running.plan, Instant::now())?;
        let start_plane: StartPlane = Box::new(move |now| Plane::start(user, now));
        let (stdout, stderr) = (Output::stdout(), Output::stderr());
        let begun = StartupState {
            options,
            stop,
            running,
            placement,
            ceilings,
            lock,
            resources,
            kernels,
            metrics,
            plane,
            start_plane,
            stdout,
            stderr,
        };
        let mut supervisor = Self::begin(begun, started)?;
        by_process.into_iter().for_each(|line| supervisor.events.record(Kind::Notice, line));
        Ok(Some(supervisor))
    }

    /// Tells the first data plane what to run.
    ///
    /// # Errors
    /// The folder of the run cannot be used, or the process is out of descriptors.
    fn begin(begun: StartupState, now: Instant) -> Result<Self> {
        let StartupState { options, stop, running, ceilings, mut lock, resources, plane, .. } = begun;
        let mut events = Events::new(&running.run, options.log, begun.stderr, now);
        resources.notices().for_each(|line| events.record(Kind::Notice, line));
        let mut supervisor = Self {
            request_router: RequestRouter::open(&mut lock)?,
            changes: Changes::default(),
            rolling: None,
            scaling: Scaling::default(),
            metrics: begun.metrics,
            display: Display::new(options.json, begun.stdout),
            times: Times { started: now, tick: None, end: None, ending: None, extended: false },
            children: Children::new(now),
            killed: KilledProcesses::default(),
            options,
            stop,
            running,
            lifecycle: PlaneLifecycle { plane: Some(plane), ..PlaneLifecycle::default() },
            start_plane: begun.start_plane,
            clock: Box::new(Instant::now),
            find: Box::new(thread_lookups::find),
            isolated: RouterProcesses::new(),
            kernels: begun.kernels,
            controls: ControlPlanes::default(),
            resources,
            link_jobs: LinkJobs::default(),
            link_repair: LinkRepair::default(),
            link_monitor: LinkMonitor::default(),
            cables: CarrierWatch::default(),
            events,
            placement: begun.placement,
            accounting: Accounting::default(),
            ceilings,
            lock,
        };
        supervisor.tell_of_costs();
        supervisor.order(now)?;
        supervisor.follow_controls(now);
        Ok(supervisor)
    }

    /// Serves until the time is over, a signal arrives, or a client requests the end.
    ///
    /// # Errors
    /// In one line, why the routers cannot be brought up.
    fn run(mut self) -> Result<()> {
        let outcome = self.serve();
        self.finish(Instant::now);
        outcome
    }

    /// The event loop. Only here is the clock read; all other code is given the time as an argument.
    fn serve(&mut self) -> Result<()> {
        loop {
            self.wait(Instant::now());
            if self.attend(Instant::now())? {
                return Ok(());
            }
        }
    }

    /// Does everything that is due. Returns true when it is time to exit.
    ///
    /// # Errors
    /// In one line, why the routers cannot be brought up.
    fn attend(&mut self, now: Instant) -> Result<bool> {
        self.attend_plane(now)?;
        self.attend_router_processes(now)?;
        self.attend_merged_replies(now);
        self.attend_children(now);
        self.attend_dying(now);
        self.attend_cleaner(now);
        self.attend_ceilings(now);
        self.attend_placing(now);
        // Before the data plane is up, no thread waits at the other end.
        if self.is_up() {
            self.brokers_mut().for_each(|broker| broker.serve_request(now));
        }
        self.tend();
        self.mend(now);
        self.attend_links(now);
        self.attend_kernels(now);
        self.attend_controls(now);
        self.attend_changes(now);
        self.attend_clients(now);
        self.attend_rolling(now);
        self.attend_scaling(now);
        self.attend_metrics(now);
        // Work that arose meanwhile does not wait for the next iteration.
        self.tend();
        self.accounting.attend(now);
        self.attend_display(now);
        Ok(self.is_over(now))
    }

    /// Socket pairs between the processes of isolated routers and their NICs, with those of a change in progress.
    fn brokers(&self) -> impl Iterator<Item = &SocketBroker> {
        self.resources.brokers().chain(self.changes.brokers())
    }

    /// Mutable [`Self::brokers`].
    fn brokers_mut(&mut self) -> impl Iterator<Item = &mut SocketBroker> {
        self.resources.brokers_mut().chain(self.changes.brokers_mut())
    }

    fn attend_display(&mut self, now: Instant) {
        self.events.flush();
        let asked = self.stop.is_asked() || self.times.end.is_some_and(|end| now >= end);
        if asked && self.times.ending.is_none() {
            self.times.ending = Some(now + LAST_WORDS);
            self.times.tick = Some(now);
        }
        if self.times.tick.is_some_and(|tick| now >= tick) {
            self.times.tick = self.times.ending.is_none().then(|| now + SECOND);
            self.ask_for_members(now);
            self.ask_all(api::Request::Counters { router: None }, Requester::Display, now);
            self.reclaim_routes();
        }
        if let Some(trouble) = self.display.flush() {
            self.events.record(Kind::Notice, trouble);
        }
    }

    /// Asks for the states of members, if there are groups and the display shows them.
    fn ask_for_members(&mut self, now: Instant) {
        let is_shown = self.display.shows_members() && !self.running.plan.groups.is_empty();
        if is_shown && !self.request_router.is_asked_by(&Requester::MembersShown) {
            self.ask_all(api::Request::Ps {}, Requester::MembersShown, now);
        }
    }

    /// Shows the counters of the data plane.
    fn show(&mut self, counters: api::Counters) {
        let before = self.events.count();
        if let Some(trouble) = self.display.show(counters, &self.running.plan) {
            self.events.record(Kind::Notice, trouble);
        }
        if self.events.count() != before {
            self.display.leave();
        }
    }

    /// Returns true if the run can exit: its end was requested, and the last table was shown or cannot be
    /// obtained.
    fn is_over(&mut self, now: Instant) -> bool {
        let Some(until) = self.times.ending else { return false };
        if !self.is_up() || !self.request_router.is_asked_by(&Requester::Display) {
            return true;
        }
        if now >= until && !std::mem::replace(&mut self.times.extended, true) {
            self.times.ending = Some(now + EXTENSION);
            return false;
        }
        now >= until
    }

    /// Attends to the cleaner process, which removes everything if this process is killed.
    fn attend_cleaner(&mut self, now: Instant) {
        if let Some(line) = self.lock.attend(now) {
            self.events.record(Kind::Notice, line);
            self.display.leave();
        }
    }
}

/// User that the data plane runs as if root starts it; any other user can only use its own identity.
fn data_plane_user(wanted: Option<&str>, lock: &mut RunLock) -> Result<Option<u32>> {
    match wanted {
        Some(_) if !geteuid().is_root() => bail!("--user: only root can run the data plane as another user"),
        Some(wanted) => users::number(wanted).context("--user").map(Some),
        None if geteuid().is_root() => lock.take_user().map(Some),
        None => Ok(None),
    }
}

/// Raises the limit of open files to the maximum that this user may have: each router needs some tens.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, the present limit has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests;
