//! The supervisor of a run: small, privileged, one thread, and others for what may have to wait.
//!
//! It opens what needs privileges, hands it to a data plane that has none, and starts that again when it dies. It owns
//! the locks of the names, the control socket and the telemetry, so all of these outlive a data plane. A run is a loop
//! around one poll(2); nobody outside (the data plane, a client, a reader of its output) can make it wait.
//!
//! [`run`] is all that brings a file up. The program that it is called in is started again for the data plane
//! (`data-plane SUPERVISOR USER`) and for what removes the files of a run that was killed (`cleaner RUN`, [`clean_up_after`]).
//! The rest is what commands share with a run: what is [`planned`] for its threads, the locks of names, the live [`table`].
#![forbid(unsafe_code)]

mod account;
mod apart;
mod cables;
mod ceiling;
mod change;
mod children;
mod costs;
mod desk;
mod display;
mod due;
mod dying;
mod errand;
mod events;
mod finding;
mod following;
mod gather;
mod lent;
mod lifecycle;
mod mending;
mod metrics;
mod notify;
mod opening;
mod output;
mod patience;
mod placing;
mod plane;
mod rate;
mod reaper;
mod resources;
mod run_lock;
mod schedule;
pub mod shown;
mod signals;
mod status;
mod stderr;
pub mod table;
mod tending;
mod watching;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use config::Plan;
use engine::BackOff;
use host::{named, users};
use link::{ToPlane, ToSupervisor};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use telemetry::Kind;
use uplink::Passage;

use account::Accounting;
use apart::Aparts;
use cables::Cables;
use ceiling::Ceilings;
pub use ceiling::{mib, needed};
use change::Changes;
use children::Children;
use desk::{Asker, Desk};
use display::Display;
use dying::Dying;
pub use events::{Events, Log};
use finding::Find;
use lifecycle::described;
use mending::Mending;
use metrics::Metrics;
pub use output::Output;
use patience::MORE;
use placing::Placing;
pub use placing::{Planned, planned};
use plane::Plane;
use resources::Resources;
pub use run_lock::{RunLock, clean_up_after};
pub use signals::Stop;
use tending::Tending;
use watching::Watching;

/// Between two tables.
const SECOND: Duration = Duration::from_secs(1);
/// How long the last table may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a data plane may take to end in good order: it gives what it takes down 15 s (`engine::take_down`).
const GRACE: Duration = Duration::from_secs(20);
/// How long threads of this process may take to end with the run.
const THREADS_GRACE: Duration = Duration::from_secs(5);

/// How to run.
#[derive(Debug)]
pub struct Options {
    /// Stop after this time.
    pub time: Option<Duration>,
    /// One JSON object a second instead of the table.
    pub json: bool,
    /// How events are written on standard error.
    pub log: Option<Log>,
    /// Name of the run instead of the file's.
    pub name: Option<String>,
    /// User that the data plane is to be.
    pub user: Option<String>,
    /// Memory of the run at most, instead of what its plan needs.
    pub memory_max: Option<u64>,
}

/// What runs.
struct Running {
    /// Name of the run.
    run: String,
    /// Name of the file that it followed last.
    file: String,
    plan: Plan,
    /// Why this host has no KVM; none: it has it.
    no_kvm: Option<String>,
}

/// The data plane that there is, or when there will be one.
#[derive(Default)]
struct Life {
    /// None while it waits to be started again.
    plane: Option<Plane>,
    /// When to start it again.
    again: Option<Instant>,
    back_off: BackOff,
    /// Since when it forwards.
    up_since: Option<Instant>,
    /// Times it was started again.
    restarts: u32,
    /// Deaths before the first time it served.
    stillborn: u32,
    /// Whether everything was up once.
    was_up: bool,
}

/// What is due when.
struct Times {
    started: Instant,
    /// When to show the next table.
    tick: Option<Instant>,
    /// When to stop.
    end: Option<Instant>,
    /// It is to stop: until when the last table is waited for.
    ending: Option<Instant>,
    /// That time was over once.
    extended: bool,
}

/// Starts the process of a data plane.
type StartPlane = Box<dyn FnMut(Instant) -> Result<Plane>>;

/// What a run has before its data plane is told anything.
struct Begun {
    options: Options,
    stop: Stop,
    running: Running,
    placing: Placing,
    ceilings: Ceilings,
    lock: RunLock,
    resources: Resources,
    metrics: Metrics,
    plane: Plane,
    /// For those that come after it.
    start_plane: StartPlane,
    stdout: Output,
    stderr: Output,
}

/// A run.
struct Supervisor {
    options: Options,
    stop: Stop,
    running: Running,
    life: Life,
    start_plane: StartPlane,
    /// Tells how long work takes that others ask for: all else is told what time it is.
    clock: Box<dyn Fn() -> Instant>,
    find: Find,
    /// Routers in processes of their own.
    apart: Aparts,
    times: Times,
    children: Children,
    /// Data planes, and processes of routers that are apart, that were killed and have not ended yet.
    dying: Dying,
    resources: Resources,
    tending: Tending,
    mending: Mending,
    watching: Watching,
    cables: Cables,
    events: Events,
    display: Display,
    desk: Desk,
    changes: Changes,
    metrics: Metrics,
    placing: Placing,
    accounting: Accounting,
    /// What all its processes may have together.
    ceilings: Ceilings,
    /// Last: the names are taken as long as anything of the run is there.
    lock: RunLock,
}

impl Running {
    /// Reads a file and asks the host whether it can be run here; and a line that tells what runs as a process for want
    /// of KVM; and what is planned for its threads.
    fn read(file: &Path, now: Instant) -> Result<(Self, Option<String>, Planned)> {
        let (text, file) = (config::text(file)?, file.display().to_string());
        let mut plan = config::parse(&text, &file)?;
        let facts = host::facts(&plan);
        let errors = plan.check_host(&facts).and(named::faults(&plan, None));
        if !errors.is_empty() {
            return Err(errors.into());
        }
        let by_process = plan.choose_engines(&facts);
        host::need_tun(&plan)?;
        let threads = placing::planned(&plan, now)?;
        Ok((Self { run: plan.name.clone(), file, plan, no_kvm: facts.no_kvm }, by_process, threads))
    }

    /// Takes the names of its routers and one for the run.
    fn lock(&mut self, options: &Options, now: Instant) -> Result<RunLock> {
        let mut lock = RunLock::guarded(self.plan.routers.iter().map(|router| router.name.as_str()), now)?;
        let changed = options.name.is_none() && !self.plan.named;
        lock.name_run(options.name.as_deref().unwrap_or(&self.plan.name), changed)?;
        self.run = lock.run().context("a run has a name")?.0.to_owned();
        Ok(lock)
    }
}

/// Brings a file up and shows what it does, until the time is over, a signal comes, or a client asks for the end.
///
/// # Errors
/// What is wrong with the file or missing on this host, one line each; or that the routers cannot be brought up.
pub fn run(file: &Path, options: Options) -> Result<()> {
    Supervisor::start(file, options)?.map_or(Ok(()), Supervisor::run)
}

impl Supervisor {
    /// Takes the names, opens what the file needs, and starts the data plane. What fails leaves nothing behind; `None`
    /// where a signal came meanwhile.
    ///
    /// # Errors
    /// What is wrong with the file or missing on this host, one line each.
    fn start(file: &Path, options: Options) -> Result<Option<Self>> {
        let (mut running, by_process, threads) = Running::read(file, Instant::now())?;
        raise_descriptor_limit();
        let (stop, started) = (Stop::listen()?, Instant::now());
        let mut lock = running.lock(&options, started)?;
        let metrics = Metrics::open(&running.plan, &mut lock)?;
        let placing = Placing::begin(&running.run, threads, &mut lock, started)?;
        let mut ceilings = Ceilings::begin(&running.run, &running.plan, options.memory_max, &lock)?;
        // It gets ready while the links are made.
        let user = data_plane_user(options.user.as_deref(), &mut lock)?;
        let plane = Plane::start(user, started)?;
        ceilings.enter(plane.pid());
        Resources::undo(&running.plan).for_each(|undo| lock.add_undo(&undo));
        let resources = match Resources::open(&running.plan, &Default::default()) {
            // A signal interrupts what the kernel was asked for; whoever sent it wants the end, not the reason.
            Err(_) if stop.is_asked() => return Ok(None),
            opened => opened?,
        };
        let start_plane: StartPlane = Box::new(move |now| Plane::start(user, now));
        let (stdout, stderr) = (Output::stdout(), Output::stderr());
        let begun = Begun {
            options,
            stop,
            running,
            placing,
            ceilings,
            lock,
            resources,
            metrics,
            plane,
            start_plane,
            stdout,
            stderr,
        };
        let mut supervisor = Self::begin(begun, started)?;
        by_process.into_iter().for_each(|line| supervisor.events.tell(Kind::Notice, line));
        Ok(Some(supervisor))
    }

    /// Tells the first data plane what to run.
    ///
    /// # Errors
    /// The folder of the run cannot be used, or no descriptors are left.
    fn begin(begun: Begun, now: Instant) -> Result<Self> {
        let Begun {
            options, stop, running, placing, ceilings, mut lock, resources, plane, start_plane, ..
        } = begun;
        let mut events = Events::new(&running.run, options.log, begun.stderr, now);
        resources.notices().for_each(|line| events.tell(Kind::Notice, line));
        let mut supervisor = Self {
            desk: Desk::open(&mut lock)?,
            changes: Changes::default(),
            metrics: begun.metrics,
            display: Display::new(options.json, begun.stdout),
            times: Times { started: now, tick: None, end: None, ending: None, extended: false },
            children: Children::new(now),
            dying: Dying::default(),
            options,
            stop,
            running,
            life: Life { plane: Some(plane), ..Life::default() },
            start_plane,
            clock: Box::new(Instant::now),
            find: Box::new(finding::find),
            apart: Aparts::new(),
            resources,
            tending: Tending::default(),
            mending: Mending::default(),
            watching: Watching::default(),
            cables: Cables::default(),
            events,
            placing,
            accounting: Accounting::default(),
            ceilings,
            lock,
        };
        supervisor.tell_of_costs();
        supervisor.order(now)?;
        Ok(supervisor)
    }

    /// Serves until the time is over, a signal comes, or a client asks for the end.
    ///
    /// # Errors
    /// The routers cannot be brought up, in one line.
    fn run(mut self) -> Result<()> {
        let outcome = self.serve();
        self.finish(Instant::now);
        outcome
    }

    /// The place that reads the clock: everything else is told what time it is.
    fn serve(&mut self) -> Result<()> {
        loop {
            self.wait(Instant::now());
            if self.attend(Instant::now())? {
                return Ok(());
            }
        }
    }

    /// Does what there is to do; whether it is time to leave.
    ///
    /// # Errors
    /// The routers cannot be brought up, in one line.
    fn attend(&mut self, now: Instant) -> Result<bool> {
        self.attend_plane(now)?;
        self.attend_apart(now)?;
        self.attend_gathers(now);
        self.attend_children(now);
        self.attend_dying(now);
        self.attend_cleaner(now);
        self.attend_ceilings(now);
        self.attend_placing(now);
        // Before that nobody waits at the other end.
        if self.is_up() {
            self.resources.passages().for_each(Passage::answer);
        }
        self.tend();
        self.mend(now);
        self.attend_links(now);
        self.attend_changes(now);
        self.attend_clients(now);
        self.attend_metrics(now);
        // What has come up meanwhile does not wait for the next turn.
        self.tend();
        self.accounting.attend(now);
        self.attend_display(now);
        Ok(self.is_over(now))
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
            self.ask_all(api::Request::Counters { router: None }, Asker::Display, now);
        }
        if let Some(trouble) = self.display.flush() {
            self.events.tell(Kind::Notice, trouble);
        }
    }

    /// Shows what the data plane counted.
    fn show(&mut self, counters: api::Counters) {
        let before = self.events.count();
        if let Some(trouble) = self.display.show(counters, &self.running.plan) {
            self.events.tell(Kind::Notice, trouble);
        }
        if self.events.count() != before {
            self.display.leave();
        }
    }

    /// Whether it is time to leave: it was asked for, and the last table was shown or cannot be had.
    fn is_over(&mut self, now: Instant) -> bool {
        let Some(until) = self.times.ending else { return false };
        if !self.is_up() || !self.desk.is_asked_by(&Asker::Display) {
            return true;
        }
        if now >= until && !std::mem::replace(&mut self.times.extended, true) {
            self.times.ending = Some(now + MORE);
            return false;
        }
        now >= until
    }

    /// Looks after the cleaner, which removes everything if this process is killed.
    fn attend_cleaner(&mut self, now: Instant) {
        if let Some(line) = self.lock.attend(now) {
            self.events.tell(Kind::Notice, line);
            self.display.leave();
        }
    }

    /// Ends what is left, and removes what was made; how long that takes is told by the clock.
    fn finish(mut self, clock: impl Fn() -> Instant) {
        let now = clock();
        notify::notify("STOPPING=1");
        let had_ended = self.life.plane.is_none();
        self.let_go_of_threads();
        self.remember_costs();
        self.finish_apart(now, GRACE, &clock);
        if let Some(mut plane) = self.life.plane.take() {
            plane.say(&ToPlane::Stop, Vec::new(), now);
            // While it comes up it does not listen; what is not up need not be ended in good order.
            let grace = if plane.is_up { GRACE } else { Duration::ZERO };
            let (said, process) = plane.wait(grace, &clock, |message| {
                // Of a router that does not stop.
                if let ToSupervisor::Kill { router, pid } = message {
                    self.children.kill(&router, pid, now);
                }
            });
            self.dying.kill(&described(None), process, now);
            self.repeat(None, said, now);
        }
        self.children.end_all(now);
        self.bury_all(&clock);
        self.changes.give_up(THREADS_GRACE);
        self.tending.give_up(THREADS_GRACE);
        self.resources.give_up(THREADS_GRACE);
        self.tell_of_ceilings(now);
        self.give_back();
        if self.life.was_up && !had_ended {
            self.events.tell(Kind::Stopped, "the run has ended");
        }
        self.events.flush();
        let _ = self.display.flush();
        let Self { desk, metrics, resources, placing, lock, .. } = self;
        drop((desk, metrics, resources, placing));
        drop(lock);
    }
}

/// User that the data plane is to be, where root starts it; any other user has only itself to give.
fn data_plane_user(wanted: Option<&str>, lock: &mut RunLock) -> Result<Option<u32>> {
    match wanted {
        Some(_) if !geteuid().is_root() => bail!("--user: only root can run the data plane as another user"),
        Some(wanted) => users::number(wanted).context("--user").map(Some),
        None if geteuid().is_root() => lock.take_user().map(Some),
        None => Ok(None),
    }
}

/// As many open files as this user may have: each router needs some tens.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it may not be raised, what is there must do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests;
