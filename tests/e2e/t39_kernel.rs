//! Objective: a kernel router forwards between two networks over veth pairs, and can be shown, counted, changed, stopped and
//! started like other routers. Requests that cannot be met are refused in one line and change nothing. Interfaces of the host are
//! returned, and nothing is left behind, also after SIGKILL.

mod home;
mod on_a_switch;
mod six;

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use api::{Answer, Request};
use serde_json::Value;
use support::{Counters, Finished, Flow, Namespace, Stage, ping, run};

use crate::verbs::{refused, ringroad, said};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Longest wait, also on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams per second: few, so that no queue overflows if a busy host pauses for a second.
const RATE: u32 = 1000;

/// A router between two hosts: one gets its end of a pair by `netns`, and the test moves the other's.
fn file() -> String {
    // The name that `Namespace::add` gives it.
    let west = format!("t39-west-{}", std::process::id());
    format!(
        "[[router]]\nname = \"t39\"\nengine = \"kernel\"\n\
         [[router.nic]]\nname = \"west\"\nattach = \"veth:t39w\"\nnetns = \"{west}\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"east\"\nattach = \"veth:t39e\"\naddress = \"198.51.100.1/24\"\n"
    )
}

/// A host without IPv6, so that it sends nothing by itself.
fn host(name: &str) -> Namespace {
    Namespace::add_silent(name).expect("a namespace")
}

/// Gives a host's end of a pair an address and a default route.
fn settle(host: &Namespace, link: &str, net: &str) {
    host.add_four(link, &format!("{net}.2/24"), &format!("{net}.1")).expect("a route");
}

/// Waits until there is a result.
fn wait_for<T>(found: impl FnMut() -> Option<T>) -> T {
    support::until_some(PATIENCE, Duration::from_millis(10), "what has to come", found)
}

/// Messages of all events of a run so far.
fn events(stage: &Stage) -> Vec<String> {
    let mut client = stage.client().expect("it answers");
    match client.ask(&Request::Events { since: None }) {
        Ok(Answer::Events { events, .. }) => events.into_iter().map(|event| event.message).collect(),
        other => panic!("{other:?}"),
    }
}

/// A run of [`file`] with a host on each side.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start() -> Self {
        let hosts = |_: &Namespace| Ok((host("t39-west"), host("t39-east")));
        let started = Stage::start_with_names_after(RINGROAD, &file(), &["--json"], hosts);
        let (stage, (west, east)) = started.expect("it starts");
        let world = Self { stage, west, east };
        world.plug_in();
        world.pings();
        world
    }

    /// Configures both hosts' ends of the pairs.
    fn plug_in(&self) {
        // All interfaces exist by then.
        wait_for(|| self.stage.client().ok());
        let home = self.stage.home();
        assert!(home.has_link("t39e") && self.west.has_link("t39w"));
        home.ip(&["link", "set", "t39e", "netns", self.east.name()]).expect("moved");
        settle(&self.west, "t39w", "192.0.2");
        settle(&self.east, "t39e", "198.51.100");
    }

    fn pings(&self) {
        ping(self.west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
    }

    fn flow(&self) -> Flow {
        let to: SocketAddr = "198.51.100.2:7039".parse().expect("an address");
        let flow = Flow::start(&self.west, &self.east, to, RATE).expect("a flow");
        flow.reaches(100, PATIENCE).expect("it flows");
        flow
    }

    /// Applies a file with this text and these options.
    fn apply(&self, text: &str, words: &[&str]) -> Finished {
        let path = self.stage.path("next.toml");
        std::fs::write(&path, text).expect("written");
        let path = path.display().to_string();
        ringroad(&["apply"].iter().chain(words).copied().chain([path.as_str()]).collect::<Vec<_>>())
    }

    fn events(&self) -> Vec<String> {
        events(&self.stage)
    }

    /// Output of `ip` in the router's namespace.
    fn inside(&self, words: &[&str]) -> String {
        let done = run(Command::new("ip").args(["-n", "t39"]).args(words), PATIENCE).expect("it ends");
        assert!(done.status.success(), "{words:?}: {}", done.stderr);
        done.stdout
    }

    fn finish(self) {
        let Self { stage, west, east } = self;
        stage.finish(vec![west, east]).expect("nothing is left");
    }

    fn finish_troubled(self) {
        let Self { stage, west, east } = self;
        stage.finish_troubled(vec![west, east]).expect("nothing is left");
    }
}

/// Ends a flow and asserts that it lost nothing.
fn assert_whole(flow: Flow) {
    flow.reaches(100, PATIENCE).expect("it flows");
    let tally = flow.stop().expect("it ends");
    assert_eq!((tally.lost(), tally.repeated), (0, 0), "{tally:?}");
}

fn router() -> Value {
    let text = said(&["show", "t39", "--json"]);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_hosts_kernel_forwards_and_its_router_is_seen() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
    let world = World::start();
    let flow = world.flow();
    let shown = router();
    assert_eq!(
        (&shown["status"]["engine"], &shown["status"]["state"]),
        (&"kernel".into(), &"running".into())
    );
    assert_eq!(shown["nics"][0]["addresses"][0], "192.0.2.1/24");
    assert!(shown["settings"]["vcpus"].is_null(), "{shown}");
    let table = said(&["ps"]);
    assert!(table.lines().any(|line| line.contains("t39") && line.contains("kernel")), "{table}");
    assert!(world.inside(&["-o", "link", "show"]).contains("west"), "it has a name for ip netns");
    let counters = world.stage.wait_for_counters(|counters| counters.get("t39.ip.forwarded") > 100);
    let counters = counters.expect("it counts");
    for name in ["t39.west.rx.frames", "t39.east.tx.frames", "t39.east.tx.bytes"] {
        assert!(counters.get(name) >= 100, "{name}: {counters:?}");
    }
    let shown = said(&["top", "t39", "--once"]);
    assert!(shown.contains("t39.west"), "{shown}");
    assert_whole(flow);
    let captured = refused(&["capture", "t39.west", "/dev/null"]);
    assert!(captured.contains("ip netns exec t39 tcpdump -i west"), "{captured}");
    world.finish();
}

#[test]
fn what_is_set_and_applied_changes_while_it_forwards() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
    let world = World::start();
    let flow = world.flow();
    let text = file();
    assert!(said(&["set", "t39", "rp_filter=strict"]).contains("no packet is lost"));
    assert!(refused(&["set", "t39", "spin=10us"]).contains("a kernel router has no machine"));
    let more = text.replace("\"198.51.100.1/24\"", "[\"198.51.100.1/24\", \"203.0.113.1/24\"]")
        + "[[router.route]]\nto = \"10.39.0.0/16\"\nvia = \"203.0.113.2\"\n\
           [[router.neighbour]]\naddress = \"203.0.113.2\"\nmac = \"02:00:00:00:00:39\"\n";
    let told = world.apply(&more, &["--dry-run"]);
    assert!(told.stdout.contains("route 10.39.0.0/16 via 203.0.113.2 out of east added"), "{told:?}");
    assert!(!world.inside(&["route"]).contains("10.39.0.0/16"), "nothing is done yet");
    let done = world.apply(&more, &[]);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(world.inside(&["route"]).contains("10.39.0.0/16 via 203.0.113.2 dev east"));
    assert!(world.inside(&["neigh"]).contains("203.0.113.2 dev east lladdr 02:00:00:00:00:39"));
    // A refused request changes nothing.
    let bad = more.replace("10.39.0.0/16", "10.40.0.0/16").replace("\"veth:t39e\"", "\"macvlan:nowhere\"");
    let done = world.apply(&bad, &[]);
    assert!(done.stderr.contains("there is no interface \"nowhere\""), "{}", done.stderr);
    assert!(!world.inside(&["route"]).contains("10.40.0.0/16"));
    let done = world.apply(&text, &[]);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(!world.inside(&["route"]).contains("10.39.0.0/16"));
    assert_whole(flow);
    // Refused requests appear among the events.
    world.finish_troubled();
}

#[test]
fn forwarding_and_a_cable_are_switched_off_and_on() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
    let world = World::start();
    let silent = || assert!(!support::answers(world.west.command("busybox"), &["198.51.100.2"]));
    for (name, off, on) in
        [("t39", "forwarding=false", "forwarding=true"), ("t39.east", "link=down", "link=up")]
    {
        said(&["set", name, off]);
        silent();
        said(&["set", name, on]);
        world.pings();
    }
    world.finish();
}

#[test]
fn it_is_stopped_started_and_started_anew() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
    let world = World::start();
    assert!(said(&["stop", "t39"]).contains("router t39 is stopped"));
    assert_eq!(router()["status"]["state"], "stopped");
    wait_for(|| (!world.west.has_link("t39w") && !world.east.has_link("t39e")).then_some(()));
    assert!(said(&["start", "t39"]).contains("router t39 runs"));
    world.plug_in();
    world.pings();
    world.inside(&["link", "add", "theirs", "type", "bridge"]);
    assert!(said(&["restart", "t39"]).contains("router t39 was started anew"));
    assert_eq!(router()["status"]["state"], "running");
    assert!(!world.inside(&["-o", "link", "show"]).contains("theirs"));
    // The hosts' ends have kept their addresses.
    world.pings();
    world.finish();
}

mod all {
    use super::*;

    #[test]
    fn frames_wait_for_it_in_a_queue_that_counts_what_it_drops() {
        support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
        let world = World::start();
        let queues = |limit: u32| {
            let keys = format!("\nqdisc = \"bfifo\"\nqdisc_limit = {limit}\naddress = \"192.0.2.1/24\"");
            let text = file().replace("\naddress = \"192.0.2.1/24\"", &keys);
            let done = world.apply(&text, &[]);
            assert!(done.status.success(), "{}", done.stderr);
            let is_in_place =
                done.stdout.contains("qdisc of west = bfifo of") && !done.stdout.contains("removed");
            assert!(is_in_place, "{}", done.stdout);
        };
        let dropped = |counters: &Counters| counters.get("t39.west.queue.drop_qdisc");
        queues(100_000);
        world.pings();
        assert_eq!(dropped(&world.stage.wait_for_counters(|_| true).expect("it counts")), 0);
        // No frame is as short as this.
        queues(1);
        assert!(!support::answers(world.west.command("busybox"), &["192.0.2.1"]));
        world.stage.wait_for_counters(|counters| dropped(counters) > 0).expect("it is counted");
        let done = world.apply(&file(), &[]);
        assert!(done.status.success(), "{}", done.stderr);
        world.pings();
        let counters = world.stage.wait_for_counters(|_| true).expect("it counts");
        assert!(counters.named(|name| name.ends_with("drop_qdisc")).is_empty(), "{counters:?}");
        world.finish();
    }

    #[test]
    fn an_interface_that_somebody_deletes_is_made_again() {
        support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
        let world = World::start();
        // The run reports the loss of what it has seen, which it does once a second.
        wait_for(|| (router()["nics"][1]["settings"]["carrier"] == "up").then_some(()));
        world.east.ip(&["link", "delete", "t39e"]).expect("deleted");
        wait_for(|| world.events().iter().any(|line| line.contains("were created again")).then_some(()));
        world.stage.home().ip(&["link", "set", "t39e", "netns", world.east.name()]).expect("moved");
        settle(&world.east, "t39e", "198.51.100");
        world.pings();
        let events = world.events();
        assert!(events.iter().any(|line| line.contains("NIC east: its interface was deleted")), "{events:?}");
        world.finish_troubled();
    }
}
