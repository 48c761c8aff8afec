//! Objective: `limit` lets no more packets a second into a router than it says, from a TAP or from a switch; what is over it is lost
//! under its name; and it can be set, changed and taken away while the router runs.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Flow, Namespace, Stage, needs, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing here takes so long, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second.
const RATE: u32 = 4000;
/// What the bucket of a slow limit holds.
const BUCKET: f64 = 32.0;

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

/// The same, and the limit is at the second router, behind a switch.
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
            // A run on a busy host may answer later than a client waits.
            if !done.stderr.contains("no answer from") || start.elapsed() > PATIENCE {
                return done;
            }
        }
    }

    fn set(&self, limit: &str) {
        let done = self.ringroad(&["set", "lim", &format!("limit={limit}")]);
        assert!(done.status.success(), "{limit}: {}", done.stderr);
    }

    /// What moved in a second: seconds, and what the limit's counter counted.
    fn second(&self) -> (f64, impl Fn(&str) -> f64 + use<>) {
        let done = self.ringroad(&["top", "lim", "--once", "--json"]);
        let moved: Value = serde_json::from_str(&done.stdout).expect("JSON");
        let seconds = moved["seconds"].as_f64().expect("seconds");
        let counter = move |name: &str| {
            moved["counters"]
                .get(format!("lim.left.limit.{name}"))
                .map_or(0.0, |n| n.as_f64().expect("a number"))
        };
        (seconds, counter)
    }
}

fn holds_its_limit(file: &str) {
    let (world, flow) = World::start(file);
    for limit in [500, 1500] {
        world.set(&format!("{limit}pps"));
        let (seconds, counted) = world.second();
        let (came, passed) = (counted("in_frames"), counted("passed"));
        assert_eq!(came, passed + counted("drop_limit"), "each frame is counted once");
        let most = f64::from(limit) * seconds;
        // The clock of the counters is read a little before or after them.
        assert!(passed <= most * 1.1 + BUCKET, "{passed} passed in {seconds} s at {limit} pps");
        // Where enough has come, as much as may pass does; a busy host sends in bursts that the bucket does not hold.
        assert!(passed >= most.min(came) * 0.25, "{passed} of {came} passed in {seconds} s at {limit} pps");
    }

    world.set("none");
    assert!(!world.ringroad(&["show", "lim"]).stdout.contains("limit ="));
    let (_, counted) = world.second();
    assert_eq!(counted("in_frames"), 0.0, "nothing is counted where there is no limit");
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
