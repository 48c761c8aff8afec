//! Objective: `limit` admits no more packets a second into a router than it says, from a TAP or from a switch; excess frames are
//! dropped under a name of their own; and it can be set, changed and removed while the router runs.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Flow, Namespace, Stage, needs, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second.
const RATE: u32 = 4000;

/// A router between two TAPs.
const ALONE: &str = r#"
[[router]]
name = "lim"
limit = "500pps"
[[router.nic]]
name = "left"
attach = "tap:lim-l"
address = "192.0.2.1/24"
[[router.nic]]
name = "right"
attach = "tap:lim-r"
address = "198.51.100.1/24"
"#;

/// Two routers behind a switch, with the limit at the second one.
const BEHIND: &str = r#"
[switch.lan]
[[router]]
name = "first"
[[router.nic]]
name = "left"
attach = "tap:lim-l"
address = "192.0.2.1/24"
[[router.nic]]
name = "core"
attach = "switch:lan"
address = "203.0.113.1/30"
[[router.route]]
to = "198.51.100.0/24"
via = "203.0.113.2"
[[router]]
name = "lim"
limit = "500pps"
[[router.nic]]
name = "left"
attach = "switch:lan"
address = "203.0.113.2/30"
[[router.nic]]
name = "right"
attach = "tap:lim-r"
address = "198.51.100.1/24"
[[router.route]]
to = "192.0.2.0/24"
via = "203.0.113.1"
"#;

struct World {
    stage: Stage,
    left: Namespace,
    right: Namespace,
}

impl World {
    fn start(file: &str) -> (Self, Flow) {
        let mut stage = Stage::start(RINGROAD, file).expect("it starts");
        let left = stage.host("lim-l", "192.0.2.2/24", "192.0.2.1").expect("left");
        let right = stage.host("lim-r", "198.51.100.2/24", "198.51.100.1").expect("right");
        let to = "198.51.100.2:7033".parse().expect("an address");
        let flow = Flow::start(&left, &right, to, RATE).expect("a flow");
        flow.reaches(100, PATIENCE).expect("it forwards");
        (Self { stage, left, right }, flow)
    }

    fn ringroad(&self, words: &[&str]) -> support::Finished {
        let start = Instant::now();
        loop {
            let mut command: Command = self.stage.home().command(RINGROAD);
            let done = run(command.args(words), PATIENCE).expect("it ends");
            // On a busy host a run may answer later than a client waits.
            if !done.stderr.contains("no answer from") || start.elapsed() > PATIENCE {
                return done;
            }
        }
    }

    fn set(&self, limit: &str) {
        let done = self.ringroad(&["set", "lim", &format!("limit={limit}")]);
        assert!(done.status.success(), "{limit}: {}", done.stderr);
    }

    /// Returns the increase of the limit's counters in a second.
    fn second(&self) -> impl Fn(&str) -> u64 + use<> {
        let done = self.ringroad(&["top", "lim", "--once", "--json"]);
        let moved: Value = serde_json::from_str(&done.stdout).expect("JSON");
        move |name: &str| {
            let counter = &moved["counters"][format!("lim.left.limit.{name}")];
            counter.as_u64().unwrap_or(0)
        }
    }

    /// Waits for a second in which more frames arrived than may pass, and each frame was counted once. A reading may fall between
    /// two counters; at the end they add up in any case.
    fn some_pass_and_some_do_not(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let counted = self.second();
            let [came, passed, dropped] = ["in_frames", "passed", "drop_limit"].map(counted);
            if passed > 0 && dropped > 0 && came == passed + dropped {
                return;
            }
            assert!(Instant::now() < end, "{came} came, {passed} passed, {dropped} did not");
        }
    }
}

fn holds_its_limit(file: &str) {
    let (world, flow) = World::start(file);
    for limit in [500, 1500] {
        world.set(&format!("{limit}pps"));
        world.some_pass_and_some_do_not();
    }

    world.set("none");
    assert!(!world.ringroad(&["show", "lim"]).stdout.contains("limit ="));
    assert_eq!(world.second()("in_frames"), 0, "nothing is counted where there is no limit");
    let before = flow.so_far().received;
    flow.reaches(before + 1000, PATIENCE).expect("it flows");

    world.set("1.5kpps");
    assert!(world.ringroad(&["show", "lim"]).stdout.contains("limit = 1500pps"));
    let refused = world.ringroad(&["set", "lim", "limit=0pps"]);
    assert!(!refused.status.success());
    let why = "limit: \"0pps\" is out of range; write \"1pps\" to \"1000Mpps\", or none";
    assert!(refused.stderr.trim_end().ends_with(why), "{}", refused.stderr);

    drop(flow);
    let World { stage, left, right } = world;
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    assert_eq!(counters.faults("lim"), [""; 0]);
    let of_limit = |name: &str| counters.get(&format!("lim.left.limit.{name}"));
    assert_eq!(of_limit("in_frames"), of_limit("passed") + of_limit("drop_limit"));
    assert!(of_limit("drop_limit") > 0);
}

#[test]
fn what_comes_from_a_tap_is_limited() {
    needs!(Root, Kvm, Tun, Program("ip"));
    holds_its_limit(ALONE);
}

mod all {
    use super::*;

    #[test]
    fn what_comes_from_a_switch_is_limited() {
        needs!(Root, Kvm, Tun, Program("ip"));
        holds_its_limit(BEHIND);
    }

    #[test]
    fn a_router_in_a_process_of_its_own_is_limited() {
        needs!(Root, Kvm, Tun, Program("ip"));
        holds_its_limit(&ALONE.replacen("limit", "isolate = \"process\"\nlimit", 1));
    }
}
