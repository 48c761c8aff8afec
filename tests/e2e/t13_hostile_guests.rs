//! Objective: a router that breaks the rules, in each of fourteen ways, is fenced with one line that gives the reason, and
//! restarted after a growing pause, or not at all, as its file says; it serves again when it is back; and a router beside it
//! loses none of its datagrams. Tested with both engines and both NIC models.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use support::{Counters, Finished, Flow, Namespace, Running, Stage};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(90);
const EAST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), 7013);
/// Pause before another ping is started.
const AGAIN: Duration = Duration::from_millis(20);
/// Restarts within which the router must be heard.
const LIVES: u32 = 5;
/// Datagrams a second through the neighbour.
const RATE: u32 = 500;

/// Engine of the routers, and keys of their NICs.
#[derive(Clone, Copy)]
struct Make {
    engine: &'static str,
    nic: &'static str,
}

const VIRTIO_NET: &str = "model = \"virtio-net\"";
const E1000: &str = "model = \"e1000\"";
const E1000_BASE: &str = "model = \"e1000\"\nmode = \"base\"";
const E1000_COALESCED: &str = "model = \"e1000\"\nmode = \"coalesced\"";

/// Returns a file with a router that forwards between two hosts, and a hostile one with a host of its own.
fn file(Make { engine, nic }: Make, misdeed: &str, restart: &str) -> String {
    format!(
        "[[router]]\nname = \"good\"\nengine = \"{engine}\"\n\
         [[router.nic]]\nname = \"west\"\nattach = \"tap:t13-west\"\naddress = \"192.0.2.1/24\"\nqueue_len = 4096\n{nic}\n\
         [[router.nic]]\nname = \"east\"\nattach = \"tap:t13-east\"\naddress = \"198.51.100.1/24\"\n{nic}\n\
         [[router]]\nname = \"bad\"\nengine = \"{engine}\"\nrestart = \"{restart}\"\n\
         role = \"hostile\"\nmisdeed = \"{misdeed}\"\n\
         [[router.nic]]\nname = \"a\"\nattach = \"tap:t13-bad\"\naddress = \"10.13.0.1/24\"\n{nic}\n\
         [[router.nic]]\nname = \"b\"\nattach = \"null\"\naddress = \"10.13.1.1/24\"\n{nic}\n"
    )
}

/// Line about a vCPU that does not answer challenges. On a busy host it may also be told of one that rings doorbells or accesses
/// registers all the time: these use up the little CPU time that it gets, and a reset of a NIC waits in KVM, where no interrupt
/// reaches the vCPU.
const SILENT: &str = "vCPU 0 has not answered for";

/// Expected event for a misdeed: its kind, and texts of which one must be in its line. Random register writes may do to rings
/// and doorbells what other misdeeds do on purpose.
fn charge(engine: &str, misdeed: &str) -> (&'static str, &'static [&'static str]) {
    match misdeed {
        "registers" => {
            ("charged", &["accessed device registers", "it broke the ring of", "the doorbell of", SILENT])
        }
        "commands" if engine == "kvm" => ("charged", &["accessed device registers", SILENT]),
        "commands" => ("charged", &["accessed device registers"]),
        "resets" if engine == "kvm" => {
            ("charged", &["accessed device registers", "it rang the doorbell of", SILENT])
        }
        // Each initialisation of an e1000 that is a process rings its doorbell.
        "resets" => ("charged", &["accessed device registers", "it rang the doorbell of"]),
        "descriptors" | "loops" | "addresses" | "indices" | "chains" => {
            ("charged", &["it broke the ring of"])
        }
        // If a doorbell is a register of an e1000, each ring is a register access.
        "kicks" => ("charged", &["it rang the doorbell of", "accessed device registers", SILENT]),
        "sleep" | "spin" => ("charged", &[SILENT]),
        "triple-fault" if engine == "kvm" => ("failed", &["triple fault"]),
        // Only the parent process, the supervisor, learns the signal.
        "triple-fault" => ("failed", &["SIGILL", "the process ended"]),
        "old-epoch" => ("charged", &["vCPU 0 still reads epoch"]),
        "tables" if engine == "kvm" => ("failed", &["exception 14 "]),
        "tables" => ("failed", &["SIGSEGV", "the process ended"]),
        other => panic!("{other}"),
    }
}

/// Run of [`file`] with its hosts, and a flow of datagrams through the good router.
struct World {
    stage: Stage,
    hosts: Vec<Namespace>,
    flow: Flow,
    make: Make,
    misdeed: &'static str,
    /// Number of event lines already examined.
    heard: usize,
    /// Number of route changes.
    changes: u32,
    restart: &'static str,
}

impl World {
    fn start(make: Make, misdeed: &'static str, restart: &'static str) -> Self {
        let text = file(make, misdeed, restart);
        let options = ["--json", "--log", "text", "--name", "t13"];
        let mut stage = Stage::start_with(RINGROAD, &text, &options).expect("it starts");
        let west = stage.host("t13-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t13-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        let bad = stage.host("t13-bad", "10.13.0.2/24", "10.13.0.1").expect("bad");
        let flow = Flow::start(&west, &east, EAST, RATE).expect("the good router forwards");
        let hosts = vec![west, east, bad];
        Self { stage, hosts, flow, make, misdeed, heard: 0, changes: 0, restart }
    }

    /// Waits for the next event of this kind from the bad router; returns its line.
    fn event(&mut self, kind: &str) -> String {
        let mark = format!("t13/bad: {kind}");
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let lines = self.stage.run().stderr_lines(self.heard);
            if let Some(at) = lines.iter().position(|line| line.contains(&mark)) {
                self.heard += at + 1;
                return lines[at].clone();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{}: no event `{mark}`; it said {:?}", self.misdeed, self.stage.run().stderr_lines(0));
    }

    /// Waits until it is charged with its misdeed.
    fn charged(&mut self) -> String {
        if self.misdeed == "old-epoch" {
            self.change_routes();
        }
        let (kind, words) = charge(self.make.engine, self.misdeed);
        let line = self.event(kind);
        assert!(words.iter().any(|word| line.contains(word)), "{}: {line}", self.misdeed);
        line
    }

    /// Waits until it is restarted; returns true if it then answers.
    fn serves_again(&mut self) -> bool {
        self.event("restarted: ");
        answers(&self.hosts[2], "10.13.0.1", Duration::from_secs(2))
    }

    /// Applies the file with another route for the bad router, which creates a new epoch of its table.
    fn change_routes(&mut self) {
        self.changes += 1;
        let text = file(self.make, self.misdeed, self.restart);
        let route =
            format!("[[router.route]]\nto = \"10.{}.0.0/16\"\nvia = \"10.13.0.2\"\n", 100 + self.changes);
        let path = self.stage.path("changed.toml");
        fs::write(&path, text + &route).expect("a file");
        said(&["apply", path.to_str().expect("a path"), "--run", "t13"]);
    }

    /// Returns the bad router's status from `ps`.
    fn status(&self) -> serde_json::Value {
        let told = said(&["ps", "--json"]);
        // Other tests may have runs of their own.
        let runs = told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        let run = runs.into_iter().find(|run| run["run"] == "t13").expect("this run");
        let routers = run["routers"].as_array().expect("its routers");
        routers.iter().find(|router| router["name"] == "bad").expect("the bad router").clone()
    }

    /// Ends the run; checks that nothing is left, that the good router's ledger adds up, and that its flow lost nothing.
    fn finish(self) -> Counters {
        let Self { stage, hosts, flow, misdeed, .. } = self;
        flow.reaches(100, PATIENCE).expect("it flows");
        let tally = flow.stop().expect("it ends");
        assert_eq!((tally.lost(), tally.repeated, tally.late), (0, 0, 0), "{misdeed}: {tally:?}");
        let Finished { stdout, stderr, .. } = stage.finish_troubled(hosts).expect("nothing is left");
        let of_others: Vec<&str> =
            stderr.lines().filter(|line| line.contains("/good: ") && !line.contains("started")).collect();
        assert_eq!(of_others, [""; 0], "{misdeed}");
        let counters = Counters::of(stdout.lines()).expect("counters");
        assert_eq!(counters.faults("good"), [""; 0], "{misdeed}");
        counters
    }
}

/// Returns true if a host answers one of the pings sent ten times a second within this time: a router that comes up meanwhile
/// answers at once.
fn answers(from: &Namespace, address: &str, within: Duration) -> bool {
    let end = Instant::now() + within;
    // Without a route, ping ends at once.
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let mut ping = from.command("busybox");
        let mut ping = Running::start(ping.args(["ping", "-i", "0.1", address])).expect("it starts");
        if ping.wait_for_line(left, |line| line.contains(" bytes from ")).is_ok() {
            return true;
        }
        thread::sleep(AGAIN);
    }
    false
}

/// Runs a verb that must succeed; returns its output.
fn said(words: &[&str]) -> String {
    let done = support::run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends");
    assert!(done.status.success() && done.stderr.is_empty(), "{words:?}: {}", done.stderr);
    done.stdout
}

/// Two lives of a router that is restarted.
fn fenced_and_started_again(make: Make, misdeed: &'static str) {
    let mut world = World::start(make, misdeed, "always");
    world.charged();
    let pause = world.event("restarting: ");
    assert!(pause.ends_with(": in 0.1 s"), "{misdeed}: {pause}");
    let mut serves = world.serves_again();
    world.charged();
    let pause = world.event("restarting: ");
    assert!(pause.ends_with(": in 0.2 s"), "{misdeed}: {pause}");
    // It behaves for only a second, in which a busy host may leave no CPU time for a ping: then further lives are tried.
    for _ in 0..LIVES {
        if serves {
            break;
        }
        serves = world.serves_again();
        world.charged();
    }
    assert!(serves, "{misdeed}: it never serves again");
    let status = world.status();
    assert!(status["restarts"].as_u64() >= Some(1), "{misdeed}: {status}");
    let counters = world.finish();
    match misdeed {
        "kicks" => {
            let doorbells = ["tx.kicks", "registers.tdt_write", "registers.rdt_write"];
            let rung: u64 = doorbells.iter().map(|name| counters.get(&format!("bad.a.{name}"))).sum();
            assert!(rung > 1000, "{rung}");
        }
        "chains" if make.nic == VIRTIO_NET => {
            let lost: u64 =
                ["short", "long"].iter().map(|why| counters.get(&format!("bad.a.tx.drop_too_{why}"))).sum();
            assert!(lost > 100, "only {lost} of the longest chains were walked");
        }
        "registers" => {
            let exits = counters.sum(|name| name.starts_with("bad.vcpu0.exit."));
            assert!(exits > 100, "{exits}");
        }
        _ => {}
    }
}

/// The only life of a router that is not restarted.
fn fenced_for_good(make: Make, misdeed: &'static str) {
    let mut world = World::start(make, misdeed, "never");
    let line = world.charged();
    let status = world.status();
    assert_eq!((&status["state"], &status["restarts"]), (&"failed".into(), &0.into()), "{status}");
    assert!(line.ends_with(status["reason"].as_str().expect("a reason")), "{line}: {status}");
    assert!(!answers(&world.hosts[2], "10.13.0.1", Duration::from_secs(2)), "nobody is there");
    assert_eq!(world.status()["state"], "failed");
    world.finish();
}

/// Defines the tests of a misdeed, in a virtual machine and as a process, with both NIC models.
macro_rules! misdeeds {
    ($($name:ident = $misdeed:literal),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn under_kvm() {
                support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
                super::fenced_and_started_again(super::Make { engine: "kvm", nic: super::VIRTIO_NET }, $misdeed);
            }

            #[test]
            fn under_kvm_with_e1000s() {
                support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
                super::fenced_and_started_again(super::Make { engine: "kvm", nic: super::E1000 }, $misdeed);
            }

            #[test]
            fn as_a_process() {
                support::needs!(Root, Tun, Program("ip"), Program("busybox"));
                super::fenced_and_started_again(super::Make { engine: "process", nic: super::VIRTIO_NET }, $misdeed);
            }

            #[test]
            fn as_a_process_with_e1000s() {
                support::needs!(Root, Tun, Program("ip"), Program("busybox"));
                super::fenced_and_started_again(super::Make { engine: "process", nic: super::E1000 }, $misdeed);
            }
        }
    )+};
}

#[test]
fn a_triple_fault_under_kvm_with_e1000s() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    fenced_and_started_again(Make { engine: "kvm", nic: E1000 }, "triple-fault");
}

#[test]
fn wild_addresses_as_a_process() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"));
    fenced_and_started_again(Make { engine: "process", nic: VIRTIO_NET }, "addresses");
}

mod all {
    use super::*;

    /// Three tests that cover every engine and NIC model.
    #[test]
    fn broken_descriptors_under_kvm() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        fenced_and_started_again(Make { engine: "kvm", nic: VIRTIO_NET }, "descriptors");
    }

    misdeeds!(
        registers = "registers",
        descriptors = "descriptors",
        loops = "loops",
        addresses = "addresses",
        indices = "indices",
        kicks = "kicks",
        sleep = "sleep",
        spin = "spin",
        triple_fault = "triple-fault",
        old_epoch = "old-epoch",
        chains = "chains",
        resets = "resets",
        commands = "commands",
        tables = "tables",
    );

    /// Modes in which each write of TDT is handled in the vCPU's own thread, or coalesced by KVM.
    #[test]
    fn e1000s_of_another_mode() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        for misdeed in ["descriptors", "addresses", "indices"] {
            fenced_and_started_again(Make { engine: "kvm", nic: E1000_BASE }, misdeed);
        }
        for misdeed in ["registers", "descriptors", "indices"] {
            fenced_and_started_again(Make { engine: "kvm", nic: E1000_COALESCED }, misdeed);
        }
    }

    #[test]
    fn for_good_as_a_process() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        for (misdeed, nic) in [("addresses", E1000), ("sleep", VIRTIO_NET), ("triple-fault", E1000_BASE)] {
            fenced_for_good(Make { engine: "process", nic }, misdeed);
        }
    }

    #[test]
    fn for_good_under_kvm() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        for (misdeed, nic) in [("loops", VIRTIO_NET), ("spin", E1000), ("triple-fault", E1000_BASE)] {
            fenced_for_good(Make { engine: "kvm", nic }, misdeed);
        }
    }
}
