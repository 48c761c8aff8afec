//! A run without processes: a supervisor, data planes that a test plays, clients, and the time.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use api::{Answer, Client, Counters, Outcome, Request};
use link::{Link, ToPlane, ToSupervisor};
use rustix::event::{EventfdFlags, eventfd};
use sched::{ApplyError, Outline, Thread};

use super::fake_backend::FakeBackend;
use crate::ceiling::Ceilings;
use crate::kernels::KernelRouters;
use crate::metrics::Metrics;
use crate::output::Output;
use crate::plane::{Plane, Process};
use crate::resources::Resources;
use crate::run_lock::RunLock;
use crate::signals::StopRequest;
use crate::stderr::Stderr;
use crate::thread_placement::{OutlineApplier, Planned, ThreadPlacement};
use crate::{Options, Running, StartPlane, StartupState, Supervisor};

/// One router on a switch.
pub(super) const ONE: &str = "[switch.lan]\n[[router]]\nname = \"edge\"\nengine = \"process\"\n\
                              [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"192.0.2.1/24\"\n";

/// Long enough for what is in a socket already.
const PATIENCE: Duration = Duration::from_secs(60);

/// Handle of a test on a data plane that it plays.
#[derive(Clone)]
pub(super) struct Scripted(Rc<RefCell<Script>>);

struct Script {
    link: Link,
    /// Its standard error; `None` once it is dead.
    stderr: Option<fs::File>,
    heard: VecDeque<ToPlane>,
    end: Option<String>,
    killed: bool,
    /// True if it does not die of being killed.
    is_stuck: bool,
    pid: u32,
}

impl Scripted {
    /// Next message that it was sent, except liveness checks, which are answered automatically.
    pub(super) fn told(&self) -> Option<ToPlane> {
        let mut script = self.0.borrow_mut();
        // If the supervisor has closed its end, no message comes.
        let came = script.link.receive().unwrap_or_default();
        script.heard.extend(came.into_iter().map(|(message, _)| message));
        script.heard.pop_front()
    }

    /// Sends a message.
    pub(super) fn say(&self, message: &ToSupervisor) {
        self.0.borrow_mut().link.send(message, Vec::new()).expect("the supervisor listens");
    }

    /// Answers a request.
    pub(super) fn answer(&self, id: u64, outcome: Outcome) {
        self.say(&ToSupervisor::Answer { id, outcome });
    }

    /// Writes to its standard error as much as there is room for, without blocking. Returns the number of
    /// octets.
    pub(super) fn cry(&self, text: &str) -> usize {
        let script = self.0.borrow();
        rustix::io::write(script.stderr.as_ref().expect("it lives"), text.as_bytes()).unwrap_or(0)
    }

    /// Ends by itself.
    pub(super) fn die(&self) {
        let mut script = self.0.borrow_mut();
        script.end = Some("was killed by SIGSEGV".to_owned());
        script.stderr = None;
    }

    /// From now on it does not die of being killed, like a process that the kernel does not tear down; only
    /// [`Self::die`] ends it.
    pub(super) fn holds_on(&self) {
        self.0.borrow_mut().is_stuck = true;
    }

    /// Sets its process number.
    pub(super) fn is_process(&self, pid: u32) {
        self.0.borrow_mut().pid = pid;
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.borrow().pid
    }

    /// Returns true if it has died or was killed.
    pub(super) fn is_dead(&self) -> bool {
        self.0.borrow().end.is_some()
    }

    pub(super) fn was_killed(&self) -> bool {
        self.0.borrow().killed
    }

    /// Number of the next request of this kind; messages before it are ignored.
    pub(super) fn asked(&self, wanted: impl Fn(&Request) -> bool) -> Option<u64> {
        while let Some(message) = self.told() {
            match message {
                ToPlane::Ask { id, request } if wanted(&request) => return Some(id),
                _ => {}
            }
        }
        None
    }

    /// Number and plan of the next change; messages before it are ignored.
    pub(super) fn is_to_become(&self) -> Option<(u64, config::Plan)> {
        std::iter::from_fn(|| self.told()).find_map(|told| match told {
            ToPlane::Apply { id, orders, .. } => Some((id, orders.plan)),
            _ => None,
        })
    }

    /// Follows the next change, reporting no differences. Returns its plan.
    pub(super) fn follows(&self) -> Option<config::Plan> {
        let (id, plan) = self.is_to_become()?;
        self.answer(id, Ok(Answer::Applied { changes: Vec::new(), dry_run: false }));
        Some(plan)
    }

    /// Answers all outstanding requests: with these counters, or that it is done.
    pub(super) fn serve(&self, counters: &BTreeMap<String, u64>) {
        while let Some(message) = self.told() {
            match message {
                ToPlane::Ask { id, request: Request::Counters { .. } } => {
                    let counters = Counters { counters: counters.clone(), ..Counters::default() };
                    self.answer(id, Ok(Answer::Counters(counters)));
                }
                ToPlane::Ask { id, .. } => self.answer(id, Ok(Answer::Done { message: "done".to_owned() })),
                ToPlane::Ping => self.say(&ToSupervisor::Pong),
                _ => {}
            }
        }
    }
}

/// Process that a test plays, for code that watches processes.
pub(super) fn body() -> (Scripted, Box<dyn Process>) {
    let (link, _) = Link::pair().expect("a link");
    let (heard, end) = Default::default();
    let script = Script { link, stderr: None, heard, end, killed: false, is_stuck: false, pid: 5000 };
    let script = Scripted(Rc::new(RefCell::new(script)));
    let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    (script.clone(), Box::new(Body { script, bell }))
}

/// Stands for the process of a data plane.
struct Body {
    script: Scripted,
    bell: OwnedFd,
}

impl Process for Body {
    fn pid(&self) -> u32 {
        self.script.0.borrow().pid
    }

    fn end(&mut self) -> Option<String> {
        self.script.0.borrow().end.clone()
    }

    fn kill(&mut self) {
        let mut script = self.script.0.borrow_mut();
        script.killed = true;
        script.stderr = None;
        if script.is_stuck {
            return;
        }
        script.end.get_or_insert_with(|| "was killed by SIGKILL".to_owned());
    }

    fn pidfd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Places no thread, and records which ones it was to place.
#[derive(Default)]
pub(super) struct Placer(pub(super) Rc<RefCell<Vec<Vec<i32>>>>);

impl OutlineApplier for Placer {
    fn make(&mut self, _: &Outline) -> Result<(), ApplyError> {
        Ok(())
    }

    fn place(&mut self, threads: &[Thread]) -> Vec<ApplyError> {
        self.0.borrow_mut().push(threads.iter().map(|thread| thread.task.tid).collect());
        Vec::new()
    }

    fn try_lock(&mut self, _: &Outline) -> Result<bool, ApplyError> {
        Ok(true)
    }

    fn unlock(&mut self) {}

    fn locked_out(&self) -> ApplyError {
        unreachable!("nobody else is there")
    }

    fn let_go(&mut self) {}

    fn undo_all(&mut self) -> Vec<ApplyError> {
        Vec::new()
    }
}

/// A run and its time.
pub(super) struct Stage {
    /// `None`: it has ended.
    supervisor: Option<Supervisor>,
    planes: Rc<RefCell<Vec<Scripted>>>,
    /// Stand-in for the kernel routers of the host.
    pub(super) kernel: FakeBackend,
    /// True if the host can start no process.
    refuses: Rc<Cell<bool>>,
    pub(super) now: Instant,
    shown: PathBuf,
    told: PathBuf,
    pub(super) socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// Run of this file, whose first data plane has been told what to run.
    pub(super) fn start(text: &str) -> Self {
        Self::start_with(text, Box::new(Placer::default()))
    }

    /// Run of this file with a given applier.
    pub(super) fn start_with(text: &str, applier: Box<dyn OutlineApplier>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let now = Instant::now();
        let plan = config::parse(text, "x.toml").expect("a good file");
        let names: Vec<&str> = plan.routers.iter().map(|router| router.name.as_str()).collect();
        let mut lock = RunLock::unguarded(folder.path()).with(names).expect("free names");
        lock.name_run("lab", false).expect("a free name");
        let socket = lock.run().expect("a name").1.join(api::folder::SOCKET);
        let (planes, refuses) = <(Rc<RefCell<Vec<_>>>, Rc<Cell<bool>>)>::default();
        let mut start_plane = starter(planes.clone(), refuses.clone());
        let shown = folder.path().join("stdout");
        let stdout = fs::File::create(&shown).expect("a file");
        let told = folder.path().join("stderr");
        let stderr = fs::File::create(&told).expect("a file");
        let file = "x.toml".to_owned();
        let metrics = Metrics::open(&plan, &mut lock).expect("no telemetry");
        let (kernel, backend) = FakeBackend::new();
        let kernels = KernelRouters::begin(backend, &plan, now).expect("nothing refuses");
        let begun = StartupState {
            metrics,
            options: Options { time: None, json: true, log: None, name: None, user: None, memory_max: None },
            stop: StopRequest::deaf(),
            running: Running { run: "lab".to_owned(), file, plan, no_kvm: None },
            placement: ThreadPlacement::begin_with(applier, BTreeMap::new, Planned::default(), now)
                .expect("nothing is placed"),
            ceilings: Ceilings::default(),
            lock,
            kernels,
            resources: Resources::default(),
            plane: start_plane(now).expect("a data plane"),
            start_plane,
            stdout: Output::new(Some(stdout.into())),
            stderr: Output::new(Some(stderr.into())),
        };
        let mut supervisor = Supervisor::begin(begun, now).expect("it begins");
        // By default work takes no time: an iteration handles all messages, however busy the host is.
        supervisor.clock = Box::new(move || now);
        Self {
            supervisor: Some(supervisor),
            planes,
            kernel,
            refuses,
            now,
            shown,
            told,
            socket,
            _folder: folder,
        }
    }

    /// Run whose data plane is up.
    pub(super) fn up(text: &str) -> Self {
        let mut stage = Self::start(text);
        stage.comes_up();
        stage
    }

    /// Lets the last data plane report that all is up.
    pub(super) fn comes_up(&mut self) {
        self.plane().say(&ToSupervisor::Started { at_ns: 0 });
        self.turn().expect("it goes on");
    }

    pub(super) fn supervisor(&mut self) -> &mut Supervisor {
        self.supervisor.as_mut().expect("it runs")
    }

    /// The data plane started last.
    pub(super) fn plane(&self) -> Scripted {
        self.planes.borrow().last().expect("one was started").clone()
    }

    /// All data planes started so far.
    pub(super) fn planes(&self) -> Vec<Scripted> {
        self.planes.borrow().clone()
    }

    /// The running plan.
    pub(super) fn plan(&self) -> &config::Plan {
        &self.supervisor.as_ref().expect("it runs").running.plan
    }

    /// Number of data planes started so far.
    pub(super) fn started(&self) -> usize {
        self.planes.borrow().len()
    }

    /// Sets whether the host refuses to start processes.
    pub(super) fn refuse(&self, refuses: bool) {
        self.refuses.set(refuses);
    }

    /// Runs one iteration of the event loop. Returns true if the run is over.
    pub(super) fn turn(&mut self) -> Result<bool> {
        let now = self.now;
        self.supervisor().attend(now)
    }

    /// Iterates until the condition holds, which the work of a thread brings about.
    pub(super) fn until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < end, "it does not come to pass");
            self.turn().expect("it goes on");
            std::thread::yield_now();
        }
    }

    /// Advances the time and runs one iteration.
    pub(super) fn after(&mut self, while_: Duration) -> Result<bool> {
        self.now += while_;
        self.turn()
    }

    /// Ends the run.
    pub(super) fn finish(&mut self) {
        let now = self.now;
        self.finish_by(|| now);
    }

    /// Ends the run by this clock.
    pub(super) fn finish_by(&mut self, clock: impl Fn() -> Instant) {
        self.supervisor.take().expect("it ran").finish(clock);
    }

    /// Client that has sent this request.
    pub(super) fn client(&mut self, request: &Request) -> Client {
        let mut client = Client::connect(&self.socket, PATIENCE).expect("somebody listens");
        client.send(request).expect("sent");
        self.turn().expect("it goes on");
        client
    }

    /// Events so far: kind and line.
    pub(super) fn events(&mut self) -> Vec<(String, String)> {
        match self.supervisor().events.answer(Some(0)) {
            Answer::Events { events, .. } => {
                events.into_iter().map(|event| (event.kind, event.message)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Event lines that contain this.
    pub(super) fn lines(&mut self, what: &str) -> Vec<String> {
        self.events().into_iter().map(|(_, line)| line).filter(|line| line.contains(what)).collect()
    }

    /// Lines on its standard error so far.
    pub(super) fn stderr(&self) -> Vec<String> {
        let told = fs::read_to_string(&self.told).expect("what was told");
        told.lines().map(str::to_owned).collect()
    }

    /// Number of tables shown so far.
    pub(super) fn tables(&self) -> usize {
        fs::read_to_string(&self.shown).expect("what was shown").lines().count()
    }
}

fn starter(planes: Rc<RefCell<Vec<Scripted>>>, refuses: Rc<Cell<bool>>) -> StartPlane {
    Box::new(move |now| {
        if refuses.get() {
            bail!("no process can be had");
        }
        let (link, theirs) = Link::pair()?;
        let (stderr, its) = Stderr::pair(now)?;
        let (heard, end) = Default::default();
        let pid = 4001 + u32::try_from(planes.borrow().len())?;
        let script = Script {
            link: Link::new(theirs),
            stderr: Some(its.into()),
            heard,
            end,
            killed: false,
            is_stuck: false,
            pid,
        };
        let script = Scripted(Rc::new(RefCell::new(script)));
        planes.borrow_mut().push(script.clone());
        let body = Body { script, bell: eventfd(0, EventfdFlags::CLOEXEC)? };
        Ok(Plane::new(Box::new(body), (link, stderr), now))
    })
}
