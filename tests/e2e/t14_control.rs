//! Objective: a run can be inspected, changed and traced while it forwards; only its owner can do that, and a client that sends
//! garbage or reads no answers costs no packet.

mod clients;
mod trace;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Finished, Flow, Namespace, Running, Stage};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const SOCKET: &str = "/run/ringroad/runs/t14/control";
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Datagrams a second: few, because a host that is busy otherwise for a second must not overflow a queue.
const RATE: u32 = 1000;

/// Two routers on a switch, and a spare one.
const FILE: &str = r#"
[switch.backbone]

[[router]]
name = "t14-west"
[[router.nic]]
name = "lan"
attach = "tap:t14-west"
address = "192.0.2.1/24"
queue_len = 8000
[[router.nic]]
name = "core"
attach = "switch:backbone"
address = "203.0.113.1/30"
queue_len = 8000
[[router.route]]
to = "0.0.0.0/0"
via = "203.0.113.2"

[[router]]
name = "t14-east"
[[router.nic]]
name = "core"
attach = "switch:backbone"
address = "203.0.113.2/30"
queue_len = 8000
[[router.nic]]
name = "lan"
attach = "tap:t14-east"
address = "198.51.100.1/24"
[[router.route]]
to = "192.0.2.0/24"
via = "203.0.113.1"

[[router]]
name = "t14-spare"
[[router.nic]]
name = "lan"
attach = "null"
address = "198.51.101.1/24"
"#;

/// Run of [`FILE`] with a host on each side.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start() -> Self {
        Self::start_with(FILE)
    }

    fn start_with(file: &str) -> Self {
        let options = ["--json", "--name", "t14"];
        let mut stage = Stage::start_with(RINGROAD, file, &options).expect("it starts");
        let west = stage.host("t14-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t14-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        let world = Self { stage, west, east };
        // From here on neighbours are resolved, so that no datagram waits for them.
        support::ping(world.west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
        world
    }

    /// Starts pings that continue until the value is dropped.
    fn pinging(&self, address: &str, words: &[&str]) -> Running {
        let mut ping = self.west.command("busybox");
        ping.args(["ping", "-i", "0.1"]).args(words).arg(address);
        Running::start(&mut ping).expect("it starts")
    }

    fn flow(&self) -> Flow {
        Flow::start(&self.west, &self.east, (EAST, 7014).into(), RATE).expect("a flow")
    }

    fn finish(self) {
        let Self { stage, west, east } = self;
        let counters = stage.finish(vec![west, east]).expect("nothing is left");
        for router in ["t14-west", "t14-east"] {
            assert_eq!(counters.faults(router), [""; 0]);
        }
    }
}

/// Stops a flow, which must not have lost anything, once enough has arrived.
fn assert_whole(flow: Flow) {
    flow.reaches(100, PATIENCE).expect("it flows");
    let tally = flow.stop().expect("it ends");
    assert_eq!((tally.lost(), tally.repeated, tally.late), (0, 0, 0), "{tally:?}");
}

fn ringroad(words: &[&str]) -> Finished {
    support::run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends")
}

/// Runs a verb that must succeed; returns its output.
fn said(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(done.status.success() && done.stderr.is_empty(), "{words:?}: {}", done.stderr);
    done.stdout
}

/// Runs a verb that must fail; returns its error message.
fn refused(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(!done.status.success() && done.stdout.is_empty(), "{words:?}: {}", done.stdout);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    done.stderr
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Returns this test's own run from `ps --json`.
fn own_run() -> Value {
    let runs = json_lines(&said(&["ps", "--json"]));
    runs.into_iter().find(|run| run["run"] == "t14").expect("the run is listed")
}

fn state_of(router: &str) -> Value {
    let run = own_run();
    let routers = run["routers"].as_array().expect("routers");
    routers.iter().find(|known| known["name"] == router).expect("the router")["state"].clone()
}

#[test]
fn a_run_is_looked_at_while_it_forwards() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let mut world = World::start();
    let flow = world.flow();

    let run = own_run();
    assert_eq!(run["pid"], world.stage.run().id());
    assert_eq!(run["routers"].as_array().expect("routers").len(), 3);
    let table = said(&["ps"]);
    let line = table.lines().find(|line| line.contains("t14-west")).expect("a line for it");
    assert!(line.starts_with("t14 ") && line.contains(" running "), "{line}");

    let shown = said(&["show", "t14-west"]);
    for part in [
        "router     t14-west of run t14",
        "192.0.2.1/24",
        "0.0.0.0/0 via 203.0.113.2 by core",
        "tap:t14-west",
    ] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    let [shown] = &json_lines(&said(&["show", "t14-west", "--json"]))[..] else { panic!("more than a line") };
    assert_eq!(
        (&shown["settings"]["vcpus"], &shown["nics"][0]["settings"]["mtu"]),
        (&1.into(), &1500.into())
    );
    assert!(run["up_ms"].is_u64() && run["routers"][0]["threads"][0]["tid"].is_u64(), "{run}");
    assert_eq!(shown["nics"][0]["name"], "lan");
    assert_eq!(shown["status"]["state"], "running");
    // There is a thread with that ID and that name.
    let thread = &shown["status"]["threads"][0];
    let (pid, tid) = (&run["data_plane"], &thread["tid"]);
    let comm = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).expect("the thread is there");
    assert_eq!(comm.trim_end(), thread["name"].as_str().expect("a name"));

    let top = said(&["top", "t14", "--once"]);
    assert!(
        top.starts_with("run t14\n") && top.contains("t14-west.lan") && top.contains("t14-spare.lan"),
        "{top}"
    );
    let top = json_lines(&said(&["top", "t14-west", "--once", "--json"]));
    assert_eq!(top[0]["run"], "t14");
    let forwarded = top[0]["counters"]["t14-west.vcpu0.forwarded"].as_u64().expect("a counter");
    let seconds = top[0]["seconds"].as_f64().expect("seconds");
    // The table covers one interval, the last second of which may have been without CPU time for any thread.
    let sent = flow.so_far().sent;
    assert!(seconds > 0.0 && forwarded <= sent, "{forwarded} of {sent} in {seconds} s");
    let counters = top[0]["counters"].as_object().expect("counters");
    assert!(!counters.keys().any(|name| name.starts_with("t14-east.")), "only what was asked for");

    let told = said(&["events", "t14"]);
    assert!(told.lines().any(|line| line.contains("Z started ")), "{told}");
    assert!(json_lines(&said(&["events", "t14-west", "--json"])).iter().all(|e| e["router"] == "t14-west"));

    assert_whole(flow);
    world.finish();
}

/// A setting of each kind, and the line shown then; at the end everything is as in the file, so that nothing needs to be replaced.
const SETTINGS: [(&str, &str); 12] = [
    ("limit=900kpps", "limit = 900kpps"),
    ("limit=none", "spin = 50us"),
    ("pin.vcpu=0", "pin.vcpu = 0"),
    ("pin.vcpu=any", "pin.vcpu = any"),
    ("affinity.vhost=free", "affinity.vhost = free"),
    ("affinity.vhost=auto", "pin.vhost = any"),
    ("sched={ policy = \"other\" }", "sched = { policy = \"other\" }"),
    ("sched.policy=other", "sched = { policy = \"other\" }"),
    ("restart=never", "restart = never"),
    ("restart=always", "restart = always"),
    ("spin=70us", "spin = 70us"),
    ("spin=50us", "spin = 50us"),
];

/// A refused setting of each kind.
const REFUSED: [(&str, &str); 12] = [
    ("spin=red", "router t14-west: spin: \"red\" is not a time"),
    ("limit=0pps", "router t14-west: limit: \"0pps\" is out of range"),
    ("guarantee=much", "router t14-west: guarantee: \"much\" is no rate"),
    ("guarantee.frame=60", "router t14-west: guarantee.frame: nothing is promised yet"),
    ("pin.vcpu=1023", "router t14-west: pin.vcpu: CPU 1023 cannot be used on this host"),
    ("affinity.vhost=x", "router t14-west: affinity.vhost: \"x\" is not a list of CPUs"),
    ("sched={ policy = \"rr\" }", "router t14-west: sched: sched.priority: missing"),
    ("restart=maybe", "router t14-west: restart: \"maybe\" is no restart policy"),
    ("state=on", "router t14-west: state: \"on\" is no state"),
    ("wan.link=down", "router t14-west: wan.link: there is no NIC \"wan\"; NICs: lan, core"),
    ("lan.link=out", "router t14-west: lan.link: \"out\" is no state of a link"),
    ("memory=64M", "\"memory\" cannot be set while a router runs; keys: restart, "),
];

#[test]
fn a_run_is_changed_while_it_forwards() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let world = World::start();
    let flow = world.flow();

    for (words, state) in [
        (["stop", "t14-spare"], "stopped"),
        (["start", "t14-spare"], "running"),
        (["restart", "t14-spare"], "running"),
    ] {
        assert!(said(&words).contains("t14-spare"));
        assert_eq!(state_of("t14-spare"), state, "after {words:?}");
    }
    for (setting, shown) in SETTINGS {
        let told = said(&["set", "t14-west", setting]);
        assert!(told.contains("no packet is lost"), "{setting}: {told}");
        let text = said(&["show", "t14-west"]);
        assert!(text.contains(shown), "{setting}: {text}");
    }
    for (setting, why) in REFUSED {
        let text = refused(&["set", "t14-west", setting]);
        assert!(text.contains(why) && !text.contains(".toml"), "by names, no line of a file: {text}");
    }
    assert!(
        said(&["set", "t14-spare", "state=stopped"]).contains("what arrives while it is stopped is lost")
    );
    said(&["set", "t14-spare", "state=running"]);
    assert!(said(&["set", "t14-spare.lan", "link=down"]).contains("what arrives while it is down is lost"));
    assert!(said(&["show", "t14-spare"]).contains("link = down"));
    said(&["set", "t14-spare.lan", "link=up"]);

    let changed = world.stage.path("changed.toml");
    let further = "[[router.route]]\nto = \"203.0.114.0/24\"\nvia = \"198.51.101.2\"\n";
    fs::write(&changed, FILE.to_owned() + further).expect("a file");
    let changed = changed.to_str().expect("a path");
    let dry = said(&["apply", changed, "--run", "t14", "--dry-run"]);
    assert!(dry.starts_with("run t14 would change:\n") && dry.contains("203.0.114.0/24"), "{dry}");
    assert!(!said(&["show", "t14-spare"]).contains("203.0.114.0/24"), "nothing was done yet");
    let real = json_lines(&said(&["apply", changed, "--run", "t14", "--json"]));
    assert!(real.iter().any(|change| change["hitless"] == true), "{real:?}");
    assert!(said(&["show", "t14-spare"]).contains("203.0.114.0/24 via 198.51.101.2 by lan"));
    let again = said(&["apply", changed, "--run", "t14"]);
    assert_eq!(again, "run t14 is what the file says already");

    assert_whole(flow);
    // It says nothing of links that were moved into the hosts' namespaces.
    world.stage.finish(vec![world.west, world.east]).expect("it ends well, and nothing is left");
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let World { mut stage, west, east } = World::start();
    assert_eq!(said(&["stop", "t14"]), "run t14 is stopping");
    assert!(!Path::new(SOCKET).exists(), "the verb has waited for it");
    let done = stage.run().wait(PATIENCE).expect("it ends");
    assert!(done.status.success() && done.stderr.is_empty(), "{}", done.stderr);
    stage.finish(vec![west, east]).expect("nothing is left");
}

mod all {
    use super::*;

    /// Changes made by `set` and `stop` are part of the plan of the next data plane: the router is not started only to be stopped
    /// again.
    #[test]
    fn what_was_changed_outlives_the_data_plane() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let world = World::start();
        let events = || json_lines(&said(&["events", "t14-spare", "--json"]));
        said(&["stop", "t14-spare"]);
        // A change that is done has its events, whatever becomes of the data plane.
        assert_eq!(events().len(), 1, "{:?}", events());
        said(&["set", "t14-west", "limit=900kpps"]);
        said(&["set", "t14-east", "spin=70us"]);
        let plane = own_run()["data_plane"].as_u64().expect("a data plane");
        let process = i32::try_from(plane).ok().and_then(Pid::from_raw).expect("a number");
        kill_process(process, Signal::KILL).expect("it is there");
        let end = Instant::now() + PATIENCE;
        while own_run()["data_plane"].as_u64().is_none_or(|now| now == plane)
            || state_of("t14-west") != "running"
        {
            assert!(Instant::now() < end, "no data plane after {plane}");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(state_of("t14-spare"), "stopped");
        for (router, shown) in [("t14-west", "limit = 900kpps"), ("t14-east", "spin = 70us")] {
            let text = said(&["show", router]);
            assert!(text.contains(shown), "{text}");
        }
        let events = events();
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
        assert_eq!(kinds, ["stopped"], "it was not started for a moment: {events:?}");
        assert!(said(&["start", "t14-spare"]).contains("router t14-spare runs"));
        assert_eq!(state_of("t14-spare"), "running");
        support::ping(world.west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
        let World { stage, west, east } = world;
        stage.finish_troubled(vec![west, east]).expect("nothing is left");
    }

    #[test]
    fn what_is_not_there_is_told_in_one_line() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let world = World::start();
        let text = refused(&["show", "t14-wset"]);
        assert!(
            text.starts_with("ringroad: there is no router \"t14-wset\"; did you mean \"t14-west\"?"),
            "{text}"
        );
        for (words, wanted) in [
            (&["set", "t14-west", "colour=red"][..], "\"colour\" cannot be set"),
            (&["set", "t14-west", "spin=red"], "spin"),
            (&["set", "t14-west", "spin"], "is no setting; write e.g. spin=100us"),
            (&["trace", "t14-west.wan"], "router t14-west has no NIC \"wan\"; NICs: lan, core"),
            (&["trace", "t14-spare.lan"], "nothing arrives at t14-spare.lan"),
            (&["trace", "t14-west"], "names no NIC; write e.g. edge.wan"),
            (&["trace", "t14-west.lan", "--count", "0"], "a trace follows 1 to 10000 packets"),
            (&["apply", "nowhere.toml", "--run", "t14"], "nowhere.toml"),
            (&["apply", "nowhere.toml", "--run", "t15"], "nowhere.toml"),
            (&["stop", "t14-nobody"], "there is no router or run"),
        ] {
            let text = refused(words);
            assert!(text.contains(wanted), "{words:?}: {text}");
        }
        let bad = world.stage.path("bad.toml");
        fs::write(&bad, FILE.replace("attach = \"null\"", "attach = \"nil\"")).expect("a file");
        assert!(
            refused(&["apply", bad.to_str().expect("a path"), "--run", "t14"])
                .contains("\"nil\" is no attachment")
        );
        assert_eq!(state_of("t14-east"), "running");
        world.finish();
    }
}
