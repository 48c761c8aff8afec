//! Routers that break the rules in every supported way, all at once, beside one that forwards: each is charged with its misdeed
//! and, if its file says so, restarted after a growing pause; and the forwarding router loses no frames.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::{Engine, Misdeed};
use engine::{Event, Instance, Plugs, State};
use lab::generator::{Generator, GeneratorCounters, Settings};
use lab::sink::{Expected, Sink};
use port::{Bell, Frame, Null, Source};
use telemetry::Kind;
use vmm::{Firmware, Forker, Spawn};

/// Each test needs the whole host, so only one runs at a time.
static HOST: Mutex<()> = Mutex::new(());

const NEIGHBOUR: &str = r#"
[switch.pen]

[[router]]
name   = "neighbour"
engine = "ENGINE"

[[router.nic]]
name    = "near"
attach  = "null"
mac     = "02:00:00:00:01:00"
address = "198.18.0.1/24"

[[router.nic]]
name    = "far"
attach  = "null"
address = "198.19.0.1/24"

[[router.route]]
to  = "198.18.1.0/24"
via = "198.19.0.2"

[[router.neighbour]]
address = "198.19.0.2"
mac     = "02:00:00:00:09:09"
"#;

/// Load on the neighbour in frames a second, low enough to leave the others some of the CPUs.
const RATE: f64 = 5000.0;

/// Frames that must arrive before the other routers are judged.
const ENOUGH: u64 = 100;

/// Two misdeeds that are detected at once: one by the rings, one by the guest's crash.
const QUICK: &[Misdeed] = &[Misdeed::Descriptors, Misdeed::TripleFault];

/// Longer than any pause before a restart.
const MINUTE: Duration = Duration::from_secs(60);

/// Generator whose frames wait while the NIC has no room: every lost frame was lost by the neighbour.
struct Patient(Generator);

impl Source for Patient {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.0.drain(budget, take)
    }

    fn waits(&self) -> bool {
        true
    }

    fn arm(&mut self) -> bool {
        self.0.arm()
    }

    fn bell(&self) -> Bell<'_> {
        self.0.bell()
    }
}

/// Timeout for all of them to be charged. On a busy host, a router that gets little CPU time is late to exceed limits that are
/// rates.
const PATIENCE: Duration = Duration::from_secs(240);

fn hostile(misdeed: Misdeed, number: usize, restart: &str) -> String {
    let name = misdeed.name();
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"ENGINE\"\nrole = \"hostile\"\nmisdeed = \"{name}\"\n\
         restart = \"{restart}\"\n\
         [[router.nic]]\nname = \"a\"\nattach = \"switch:pen\"\naddress = \"10.{number}.0.1/24\"\n\
         [[router.nic]]\nname = \"b\"\nattach = \"switch:pen\"\naddress = \"10.{number}.1.1/24\"\n"
    )
}

/// Returns true if this host can run an engine; otherwise prints the reason.
fn has(engine: Engine) -> bool {
    let missing = match engine {
        Engine::Kvm | Engine::Linux => vmm::open_kvm().err(),
        Engine::Process => {
            let tried = Forker::new().and_then(|forker| forker.spawn("trial", Firmware::Plain));
            tried.map(|spawned| vmm::process::end(&spawned.pidfd)).err()
        }
        Engine::Kernel | Engine::Lxc => Some(anyhow::anyhow!("it has no machine")),
    };
    if let Some(error) = &missing {
        println!("SKIPPED: {error:#}");
    }
    missing.is_none()
}

/// All routers of a test, running, with the observations made.
struct Pen {
    instance: Instance,
    offered: Arc<GeneratorCounters>,
    sink: Arc<Sink>,
    /// Frames lost or damaged by the time all routers were up: the neighbour announces itself.
    before: [u64; 3],
    events: Vec<Event>,
    published: Instant,
    misdeeds: &'static [Misdeed],
    /// Time by which the instance's clock was advanced.
    ahead: Duration,
}

impl Pen {
    fn new(engine: Engine, restart: &str, misdeeds: &'static [Misdeed]) -> Self {
        let mut text = NEIGHBOUR.to_owned();
        for (number, misdeed) in misdeeds.iter().enumerate() {
            write!(text, "{}", hostile(*misdeed, number, restart)).unwrap();
        }
        let plan = config::parse(&text.replace("ENGINE", engine.name()), "pen.toml").expect("a good file");
        let settings = Settings { rate: Some(RATE), ..Settings::default() };
        let generator = Generator::new(&settings).unwrap();
        let offered = generator.counters();
        let (flows, frame) = (settings.flow_count(), settings.frame);
        let sink = Arc::new(Sink::new(Expected { flows, frame, six: false, ttl: 63, destination_mac: None }));
        let near = attach::port(Box::new(Patient(generator)), Arc::new(Null::new()));
        let far = attach::port(Box::new(Null::new()), sink.clone());
        let plugs = Plugs::from([("neighbour.near".to_owned(), near), ("neighbour.far".to_owned(), far)]);
        let instance = Instance::start(&plan, plugs).expect("it starts");
        let (events, published) = (Vec::new(), Instant::now());
        let ahead = Duration::ZERO;
        let mut pen = Self { instance, offered, sink, before: [0; 3], events, published, misdeeds, ahead };
        pen.watch(PATIENCE, |pen| pen.sink.counters().frames.get() >= ENOUGH);
        pen.before = pen.harm();
        assert_eq!(pen.before[0], 0, "{:?}", pen.before);
        pen
    }

    /// Numbers of frames lost, damaged, and repeated.
    fn harm(&self) -> [u64; 3] {
        let counters = self.sink.counters();
        [counters.lost(), counters.bad.get(), counters.repeated.get()]
    }

    /// Supervises the routers for `time`, or until `until` returns true.
    fn watch(&mut self, time: Duration, until: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while start.elapsed() < time && !until(self) {
            std::thread::sleep(Duration::from_millis(20));
            self.look();
            // Publish new routes for the neighbour, which must adopt them, and for the router that will not.
            if self.published.elapsed() > Duration::from_millis(300) {
                self.published = Instant::now();
                for name in ["neighbour", Misdeed::OldEpoch.name()] {
                    if let Some(running) = self.instance.router(name) {
                        running.router.table().routes().publish();
                    }
                }
            }
        }
    }

    fn look(&mut self) {
        self.events.extend(self.instance.look_after(Instant::now() + self.ahead));
    }

    fn of(&self, router: &str) -> Vec<(Kind, &str)> {
        let mine = self.events.iter().filter(|event| event.router == router);
        mine.map(|event| (event.kind, event.message.as_str())).collect()
    }

    /// Reasons for each time that a router was taken down.
    fn charges(&self, router: &str) -> Vec<(Kind, &str)> {
        let charge = |(kind, _): &(Kind, &str)| matches!(kind, Kind::Charged | Kind::Failed);
        self.of(router).into_iter().filter(charge).collect()
    }

    fn all(&self, charges: usize) -> bool {
        self.misdeeds.iter().all(|misdeed| self.charges(misdeed.name()).len() >= charges)
    }

    /// Checks that all offered frames arrived, and that the neighbour was never charged.
    fn judge_neighbour(&mut self) {
        assert_eq!(self.of("neighbour"), []);
        let (offered, sink) = (self.offered.clone(), self.sink.clone());
        let frames = offered.frames.get();
        self.watch(PATIENCE, |_| sink.counters().frames.get() >= frames);
        let counters = self.sink.counters();
        let seen = format!("{:?} of {frames}", counters);
        assert!(counters.frames.get() >= frames && frames > ENOUGH, "{seen}");
        assert_eq!(self.harm(), self.before, "{seen}");
    }
}

/// Line about a vCPU that does not answer challenges. On a busy host it may also be told of one that rings doorbells or accesses
/// registers all the time: these use up the little CPU time that it gets, and a reset of a NIC waits in KVM, where no interrupt
/// reaches the vCPU.
const SILENT: &str = "vCPU 0 has not answered for ";

/// Expected start, or part, of a router's charge; random register accesses may do to its rings and doorbells what other misdeeds do
/// on purpose.
fn expected(misdeed: Misdeed, engine: Engine) -> (Kind, &'static [&'static str]) {
    let fault = if engine == Engine::Kvm { "triple fault" } else { "SIGILL" };
    match misdeed {
        Misdeed::Registers => {
            (Kind::Charged, &["accessed device registers", "broke the ring", "doorbell", SILENT])
        }
        Misdeed::Descriptors | Misdeed::Loops | Misdeed::Addresses | Misdeed::Indices | Misdeed::Chains => {
            (Kind::Charged, &["it broke the ring of "])
        }
        Misdeed::Resets => {
            (Kind::Charged, &["accessed device registers", "it rang the doorbell of ", SILENT])
        }
        Misdeed::Commands => (Kind::Charged, &["accessed device registers", SILENT]),
        Misdeed::Kicks => (Kind::Charged, &["it rang the doorbell of ", SILENT]),
        Misdeed::Sleep | Misdeed::Spin => (Kind::Charged, &[SILENT]),
        Misdeed::TripleFault if fault == "triple fault" => (Kind::Failed, &["triple fault"]),
        Misdeed::TripleFault => (Kind::Failed, &["SIGILL"]),
        Misdeed::OldEpoch => (Kind::Charged, &["vCPU 0 still reads epoch "]),
        Misdeed::Tables if engine == Engine::Kvm => (Kind::Failed, &["exception 14 "]),
        Misdeed::Tables => (Kind::Failed, &["SIGSEGV"]),
    }
}

fn judge_charges(pen: &Pen, engine: Engine) {
    for &misdeed in pen.misdeeds {
        let (kind, words) = expected(misdeed, engine);
        for (found, line) in pen.charges(misdeed.name()) {
            let fits = words.iter().any(|word| line.contains(word));
            assert!(found == kind && fits && !line.contains('\n'), "{}: {found:?} {line}", misdeed.name());
        }
    }
}

fn host() -> MutexGuard<'static, ()> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn never(engine: Engine, misdeeds: &'static [Misdeed]) {
    let _host = host();
    if !has(engine) {
        return;
    }
    let mut pen = Pen::new(engine, "never", misdeeds);
    pen.watch(PATIENCE, |pen| pen.all(1));
    // However much time passes, they stay stopped.
    pen.ahead += MINUTE;
    pen.look();
    judge_charges(&pen, engine);
    let states: HashMap<String, _> =
        pen.instance.status().into_iter().map(|status| (status.name.clone(), status)).collect();
    for misdeed in misdeeds {
        let status = &states[misdeed.name()];
        let [(_, line)] = pen.charges(misdeed.name())[..] else {
            panic!("{}: {:?}", misdeed.name(), pen.of(misdeed.name()));
        };
        assert_eq!((status.state, status.restarts), (State::Failed, 0), "{}", misdeed.name());
        assert_eq!(status.reason.as_deref(), Some(line));
        assert!(pen.instance.router(misdeed.name()).is_none(), "it is gone");
    }
    assert_eq!(states["neighbour"].state, State::Running);
    pen.judge_neighbour();
}

fn always(engine: Engine, misdeeds: &'static [Misdeed]) {
    let _host = host();
    if !has(engine) {
        return;
    }
    let mut pen = Pen::new(engine, "always", misdeeds);
    pen.watch(PATIENCE, |pen| pen.all(2));
    judge_charges(&pen, engine);
    for &misdeed in misdeeds {
        let events = pen.of(misdeed.name());
        let kinds: Vec<Kind> =
            events.iter().map(|(kind, _)| *kind).filter(|kind| *kind != Kind::Started).collect();
        let charge = expected(misdeed, engine).0;
        let life = [charge, Kind::Restarting, Kind::Restarted, charge, Kind::Restarting];
        assert!(kinds.starts_with(&life), "{}: {events:?}", misdeed.name());
        let pauses = events.iter().filter(|(kind, _)| *kind == Kind::Restarting).map(|(_, line)| *line);
        let pauses: Vec<&str> = pauses.take(2).collect();
        assert_eq!(pauses, ["in 0.1 s", "in 0.2 s"], "{}", misdeed.name());
    }
    assert!(pen.instance.status().iter().all(|status| (status.restarts > 0) != (status.name == "neighbour")));
    pen.judge_neighbour();
}

#[test]
fn what_shows_itself_at_once_is_fenced_under_kvm() {
    never(Engine::Kvm, QUICK);
}

#[test]
fn what_shows_itself_at_once_is_started_again_as_a_process() {
    always(Engine::Process, QUICK);
}

/// All misdeeds; this takes as long as the slowest one is watched before it is charged.
mod all {
    use super::*;

    #[test]
    fn each_is_fenced_once_under_kvm() {
        never(Engine::Kvm, &Misdeed::ALL);
    }

    #[test]
    fn each_is_fenced_once_as_a_process() {
        never(Engine::Process, &Misdeed::ALL);
    }

    #[test]
    fn each_is_started_again_under_kvm() {
        always(Engine::Kvm, &Misdeed::ALL);
    }

    #[test]
    fn each_is_started_again_as_a_process() {
        always(Engine::Process, &Misdeed::ALL);
    }
}
