//! Objective: models may be mixed, in one router and on one switch; a router with e1000s is restarted in the middle of
//! traffic and continues; a file that changes model, mode or moderation is applied; a trace follows packets through
//! both models; a run reports the model of its NICs.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Counters, Finished, Flow, Namespace, Stage};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), 7021);
const RATE: u32 = 500;

/// One router between two TAPs, with these keys in its NICs.
fn one_router(engine: &str, west: &str, east: &str) -> String {
    format!(
        "[[router]]\nname = \"t19\"\nengine = \"{engine}\"\n\
         [[router.nic]]\nname = \"west\"\nattach = \"tap:t19-west\"\naddress = \"192.0.2.1/24\"\n{west}\n\
         [[router.nic]]\nname = \"east\"\nattach = \"tap:t19-east\"\naddress = \"198.51.100.1/24\"\n{east}\n"
    )
}

/// Two routers on a switch, with these keys in their NICs there.
fn two_routers(engine: &str, one: &str, other: &str) -> String {
    let router = |name: &str| format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\n");
    let lan = |side: &str, address: &str, keys: &str| {
        format!(
            "[[router.nic]]\nname = \"lan\"\nattach = \"tap:t19-{side}\"\naddress = \"{address}/24\"\n{keys}\n"
        )
    };
    let core = |address: &str, keys: &str| {
        format!(
            "[[router.nic]]\nname = \"core\"\nattach = \"switch:core\"\naddress = \"{address}/30\"\n{keys}\n"
        )
    };
    let route = |to: &str, via: &str| format!("[[router.route]]\nto = \"{to}/24\"\nvia = \"{via}\"\n");
    [
        "[switch.core]\n".to_owned(),
        router("one") + &lan("west", "192.0.2.1", other) + &core("203.0.113.1", one),
        route("198.51.100.0", "203.0.113.2"),
        router("other") + &core("203.0.113.2", other) + &lan("east", "198.51.100.1", one),
        route("192.0.2.0", "203.0.113.1"),
    ]
    .concat()
}

const VIRTIO_NET: &str = "model = \"virtio-net\"";
const CSB: &str = "model = \"e1000\"";
const BASE: &str = "model = \"e1000\"\nmode = \"base\"";
const COMBINING: &str = "model = \"e1000\"\nmode = \"send-combining\"";
const COALESCED: &str = "model = \"e1000\"\nmode = \"coalesced\"";

/// Running file with a host at either end.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start(text: &str) -> Self {
        let options = ["--json", "--name", "t19"];
        let mut stage = Stage::start_with(RINGROAD, text, &options).expect("it starts");
        let west = stage.host("t19-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t19-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        let world = Self { stage, west, east };
        world.answers();
        world
    }

    /// Waits until the host in the east answers.
    fn answers(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut ping = self.west.command("busybox");
            ping.args(["ping", "-c", "1", "-W", "1", "198.51.100.2"]);
            if support::run(&mut ping, PATIENCE).expect("it ends").status.success() {
                return;
            }
            assert!(Instant::now() < end, "no answer");
        }
    }

    fn flow(&self) -> Flow {
        Flow::start(&self.west, &self.east, EAST, RATE).expect("a flow")
    }

    /// Checks that a flow passes without loss.
    fn carries(&self) {
        let flow = self.flow();
        flow.reaches(300, PATIENCE).expect("it flows");
        let tally = flow.stop().expect("it ends");
        assert_eq!((tally.lost(), tally.repeated, tally.late), (0, 0, 0), "{tally:?}");
    }

    /// Applies another file; returns its report.
    fn apply(&self, text: &str) -> String {
        let path = self.stage.path("changed.toml");
        fs::write(&path, text).expect("a file");
        said(&["apply", path.to_str().expect("a path"), "--run", "t19"])
    }

    fn finish(self) -> Finished {
        let Self { stage, west, east } = self;
        stage.finish_troubled(vec![west, east]).expect("nothing is left")
    }

    fn finish_well(self) -> Counters {
        let Self { stage, west, east } = self;
        stage.finish(vec![west, east]).expect("it ends well")
    }
}

/// Runs a verb that must succeed; returns its output.
fn said(words: &[&str]) -> String {
    let done = support::run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends");
    assert!(done.status.success() && done.stderr.is_empty(), "{words:?}: {}", done.stderr);
    done.stdout
}

fn both_models_in_one_router(engine: &str) {
    for (west, east) in [(VIRTIO_NET, CSB), (BASE, VIRTIO_NET), (COMBINING, CSB)] {
        let world = World::start(&one_router(engine, west, east));
        world.carries();
        let counters = world.finish_well();
        assert_eq!(counters.faults("t19"), [""; 0], "{west} and {east}");
    }
}

fn models_on_one_switch(engine: &str, pairs: &[(&str, &str)]) {
    for (one, other) in pairs {
        let world = World::start(&two_routers(engine, one, other));
        world.carries();
        let counters = world.finish_well();
        for router in ["one", "other"] {
            assert_eq!(counters.faults(router), [""; 0], "{one} and {other}");
        }
        let port = |port: &str, name: &str| counters.get(&format!("switch.core.{port}.core.{name}"));
        for (from, to) in [("one", "other"), ("other", "one")] {
            assert_eq!(port(from, "in_frames"), counters.get(&format!("{from}.core.tx.frames")), "{from}");
            let copies = port(from, "forwarded") + port(from, "flood_copies");
            assert_eq!(port(to, "out_frames") + port(to, "drop_full"), copies, "{from} to {to}");
        }
    }
}

/// Restarts the router repeatedly while datagrams pass through it.
fn restarted_in_traffic(engine: &str, keys: &str) {
    let world = World::start(&one_router(engine, keys, keys));
    let flow = world.flow();
    flow.reaches(50, PATIENCE).expect("it flows");
    for _ in 0..5 {
        said(&["restart", "t19"]);
        flow.resumes(PATIENCE).expect("it goes on");
    }
    let tally = flow.stop().expect("it ends");
    assert_eq!((tally.repeated, tally.late), (0, 0), "{keys}: {tally:?}");
    // Each start begins a new ledger, and a line of counters may come before or after it, so only the absence of
    // errors can be checked.
    let Finished { stderr, .. } = world.finish();
    assert_eq!(stderr, "", "{keys}");
}

#[test]
fn another_model_is_applied() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let world = World::start(&one_router("kvm", VIRTIO_NET, VIRTIO_NET));
    let changed = world.apply(&one_router("kvm", VIRTIO_NET, CSB));
    assert!(changed.contains("router t19 replaced"), "{changed}");
    assert!(changed.contains("NIC east model virtio-net -> e1000"), "{changed}");
    world.answers();
    world.carries();
    let changed = world.apply(&one_router("kvm", VIRTIO_NET, BASE));
    assert!(changed.contains("NIC east mode csb -> base"), "{changed}");
    world.answers();
    world.carries();
    let shown = said(&["show", "t19"]);
    let nic = |name: &str| shown.lines().find(|line| line.contains(&format!(" {name} tap:"))).expect("a NIC");
    assert!(nic("west").contains("model = virtio-net") && !nic("west").contains("mode = "), "{shown}");
    assert!(nic("east").contains("mode = base, model = e1000"), "{shown}");
    let refused = {
        let path = world.stage.path("changed.toml");
        fs::write(&path, one_router("process", VIRTIO_NET, COALESCED)).expect("a file");
        support::run(Command::new(RINGROAD).args(["apply", path.to_str().expect("a path")]), PATIENCE)
    };
    let refused = refused.expect("it ends");
    assert!(
        !refused.status.success() && refused.stderr.contains("KVM collects the writes"),
        "{}",
        refused.stderr
    );
    world.carries();
    let Finished { stderr, .. } = world.finish();
    assert_eq!(stderr, "");
}

mod all {
    use super::*;

    #[test]
    fn both_models_in_one_router_under_kvm() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        both_models_in_one_router("kvm");
    }

    #[test]
    fn both_models_in_one_router_as_a_process() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        both_models_in_one_router("process");
    }

    #[test]
    fn models_on_one_switch_under_kvm() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        models_on_one_switch("kvm", &[(CSB, VIRTIO_NET), (BASE, CSB), (COALESCED, COMBINING)]);
    }

    #[test]
    fn models_on_one_switch_as_processes() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        models_on_one_switch("process", &[(CSB, VIRTIO_NET), (BASE, COMBINING)]);
    }

    #[test]
    fn restarted_in_traffic_under_kvm() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        [CSB, BASE, COMBINING, COALESCED].iter().for_each(|keys| restarted_in_traffic("kvm", keys));
    }

    #[test]
    fn restarted_in_traffic_as_a_process() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        [CSB, BASE, COMBINING].iter().for_each(|keys| restarted_in_traffic("process", keys));
    }

    #[test]
    fn packets_are_traced_through_either_model() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        for (west, east) in [(CSB, BASE), (BASE, CSB), (COALESCED, VIRTIO_NET)] {
            let world = World::start(&one_router("kvm", west, east));
            let flow = world.flow();
            flow.reaches(20, PATIENCE).expect("it flows");
            let told = said(&["trace", "t19.west", "--count", "3", "--seconds", "50", "--port", "7021"]);
            for place in ["t19.west.rx", "t19.east.tx"] {
                assert!(told.matches(place).count() >= 3, "{west} and {east}: {told}");
            }
            flow.stop().expect("it ends");
            world.finish_well();
        }
    }
}
