//! Objective: a kernel router forwards between two networks over veth pairs, and can be shown, counted, changed, stopped and
//! started like other routers. Requests that cannot be met are refused in one line and change nothing. Interfaces of the host are
//! returned, and nothing is left behind, also after SIGKILL.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use api::{Answer, Request};
use serde_json::Value;
use support::{Counters, Finished, Flow, Namespace, Running, Signal, Stage, Traces, alone, ping, run};

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
    host.ip(&["address", "add", &format!("{net}.2/24"), "dev", link]).expect("an address");
    host.ip(&["link", "set", link, "up"]).expect("up");
    // Repeat ARP requests until there is an answer, not only three times.
    host.set(&format!("net.ipv4.neigh.{link}.mcast_solicit"), "60").expect("set");
    host.ip(&["route", "add", "default", "via", &format!("{net}.1")]).expect("a route");
}

/// Waits until there is a result.
fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it does not come");
        thread::sleep(Duration::from_millis(10));
    }
}

fn has_link(namespace: &Namespace, name: &str) -> bool {
    namespace.links().expect("links").iter().any(|link| link == name)
}

fn ringroad(words: &[&str]) -> Finished {
    run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends")
}

/// Output of a command that succeeds.
fn said(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
    done.stdout
}

/// The one-line error of a command that fails.
fn refused(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(!done.status.success(), "{words:?}: {}", done.stdout);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    done.stderr
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
        assert!(has_link(home, "t39e") && has_link(&self.west, "t39w"));
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
    let silent = || {
        let mut ping = world.west.command("busybox");
        let done = run(ping.args(["ping", "-c", "1", "-W", "1", "198.51.100.2"]), PATIENCE);
        assert!(!done.expect("it ends").status.success());
    };
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
    wait_for(|| (!has_link(&world.west, "t39w") && !has_link(&world.east, "t39e")).then_some(()));
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

#[test]
fn frames_wait_for_it_in_a_queue_that_counts_what_it_drops() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
    let world = World::start();
    let queues = |limit: u32| {
        let keys = format!("\nqdisc = \"bfifo\"\nqdisc_limit = {limit}\naddress = \"192.0.2.1/24\"");
        let text = file().replace("\naddress = \"192.0.2.1/24\"", &keys);
        let done = world.apply(&text, &[]);
        assert!(done.status.success(), "{}", done.stderr);
    };
    let dropped = |counters: &Counters| counters.get("t39.west.queue.drop_qdisc");
    queues(100_000);
    world.pings();
    assert_eq!(dropped(&world.stage.wait_for_counters(|_| true).expect("it counts")), 0);
    // No frame is as short as this.
    queues(1);
    let silent =
        run(world.west.command("busybox").args(["ping", "-c", "1", "-W", "1", "192.0.2.1"]), PATIENCE);
    assert!(!silent.expect("it ends").status.success());
    world.stage.wait_for_counters(|counters| dropped(counters) > 0).expect("it is counted");
    let done = world.apply(&file(), &[]);
    assert!(done.status.success(), "{}", done.stderr);
    world.pings();
    let counters = world.stage.wait_for_counters(|_| true).expect("it counts");
    assert!(counters.named(|name| name.ends_with("drop_qdisc")).is_empty(), "{counters:?}");
    world.finish();
}

/// A host with an interface that a router takes, one that carries a macvlan, and a bridge.
struct Home {
    home: Namespace,
    folder: tempfile::TempDir,
}

const EVERYTHING: &str = "[[router]]\nname = \"t39\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"own\"\nattach = \"veth:t39v\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"stands\"\nattach = \"macvlan:t39m\"\naddress = \"198.51.100.1/24\"\nmtu = 1400\n\
    [[router.nic]]\nname = \"moved\"\nattach = \"link:t39l\"\naddress = \"203.0.113.1/24\"\nmtu = 1300\n\
    [[router.nic]]\nname = \"bridged\"\nattach = \"bridge:t39b\"\naddress = \"10.39.0.1/24\"\n\
    [[router.nic]]\nname = \"inner\"\nattach = \"switch:lan\"\naddress = \"10.39.1.1/24\"\n\
    [switch.lan]\n";

impl Home {
    fn new() -> Self {
        let home = host("t39-home");
        for (name, peer) in [("t39m", "t39m-peer"), ("t39l", "t39l-peer")] {
            home.ip(&["link", "add", name, "type", "veth", "peer", "name", peer]).expect("a pair");
            home.ip(&["link", "set", name, "up"]).expect("up");
        }
        home.ip(&["link", "add", "t39b", "type", "bridge"]).expect("a bridge");
        home.ip(&["link", "set", "t39b", "up"]).expect("up");
        Self { home, folder: tempfile::tempdir().expect("a folder") }
    }

    fn launch(&self, text: &str) -> Running {
        self.launch_by(self.home.command(RINGROAD), text)
    }

    fn launch_by(&self, mut command: Command, text: &str) -> Running {
        std::fs::write(self.folder.path().join("file.toml"), text).expect("written");
        command.current_dir(self.folder.path()).args(["run", "--log", "text", "file.toml"]);
        Running::start(&mut command).expect("it starts")
    }

    fn start(&self, text: &str) -> Running {
        Self::up(self.launch(text))
    }

    /// Starts a run whose network namespaces `ip netns` shows here.
    fn start_with_names(&self, text: &str) -> Running {
        Self::up(self.launch_by(self.home.command_with_names(RINGROAD), text))
    }

    fn up(mut run: Running) -> Running {
        run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
        run
    }

    /// The host's interfaces without their indices.
    fn interfaces(&self) -> Vec<String> {
        let text = self.home.ip(&["-o", "link", "show"]).expect("links");
        let mut lines: Vec<String> =
            text.lines().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect();
        lines.sort();
        lines
    }

    fn is_as_it_was(&self, before: &[String]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.interfaces();
            // Carriers of pairs may change with a delay.
            if names(&now) == names(before) && mtu_of(&now, "t39l") == mtu_of(before, "t39l") {
                return;
            }
            assert!(Instant::now() < end, "{now:#?} instead of {before:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn names(lines: &[String]) -> Vec<&str> {
    lines.iter().filter_map(|line| line.split([':', '@']).next()).collect()
}

fn mtu_of<'l>(lines: &'l [String], name: &str) -> Option<&'l str> {
    let line = lines.iter().find(|line| line.split([':', '@']).next() == Some(name))?;
    line.split(" mtu ").nth(1)?.split(' ').next()
}

#[test]
fn what_it_took_comes_home_and_nothing_is_left() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    for signal in [Signal::TERM, Signal::KILL, Signal::KILL] {
        let mut run = home.start(EVERYTHING);
        let now = home.interfaces();
        assert!(names(&now).contains(&"t39v") && !names(&now).contains(&"t39l"), "{now:#?}");
        run.signal(signal).expect("signalled");
        let done = run.wait(PATIENCE).expect("it ends");
        assert_eq!(done.status.success(), signal == Signal::TERM, "{}", done.stderr);
        home.is_as_it_was(&before);
    }
    drop(home);
    assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
}

#[test]
fn what_somebody_pulls_out_or_takes_away_is_there_again() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    let mut run = home.start_with_names(EVERYTHING);
    let inside = |words: &[&str]| {
        let done =
            support::run(Command::new("ip").args(["-n", "t39"]).args(words), PATIENCE).expect("it ends");
        done.status.success().then_some(done.stdout)
    };
    inside(&["link", "set", "moved", "netns", home.home.name()]).expect("pulled out");
    wait_for(|| inside(&["-o", "link", "show", "moved"]));
    assert!(!names(&home.interfaces()).contains(&"moved"), "the host does not have it any more");
    inside(&["link", "set", "own", "netns", home.home.name()]).expect("pulled out");
    wait_for(|| inside(&["-o", "link", "show", "own"]));
    assert!(!names(&home.interfaces()).contains(&"own"), "its old pair is deleted");
    let done = support::run(Command::new("ip").args(["netns", "delete", "t39"]), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    wait_for(|| inside(&["-o", "link", "show", "moved"]));
    inside(&["link", "set", "moved", "netns", home.home.name()]).expect("pulled out");
    run.signal(Signal::TERM).expect("signalled");
    let done = run.wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    home.is_as_it_was(&before);
    drop(home);
    assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
}

#[test]
fn what_cannot_be_had_is_one_line_and_nothing_is_left() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    home.home.ip(&["link", "add", "t39v", "type", "bridge"]).expect("a name is taken");
    let taken = home.interfaces();
    let own = Namespace::add("t39-own").expect("a namespace");
    for (from, to, line) in [
        ("", "", "interface \"t39v\" exists: choose another name, or delete it"),
        ("veth:t39v", "macvlan:nowhere", "there is no interface \"nowhere\""),
        ("\"link:t39l\"", "\"link:lo\"", "lo stays in its namespace"),
        ("\"bridge:t39b\"", "\"bridge:t39m\"", "is not a bridge; name a bridge"),
        ("\"veth:t39v\"", "\"veth:t39x\"\nnetns = \"nobody\"", "there is no namespace \"nobody\""),
    ] {
        let done = home.launch(&EVERYTHING.replacen(from, to, 1)).wait(PATIENCE).expect("it ends");
        assert!(!done.status.success() && done.stderr.contains(line), "{line}: {}", done.stderr);
        assert_eq!(home.interfaces(), taken, "{line}");
    }
    home.home.ip(&["link", "delete", "t39v"]).expect("deleted");
    // A namespace of this name exists and is not removed.
    let text = EVERYTHING.replace("name = \"t39\"", &format!("name = \"{}\"", own.name()));
    if own.name().len() <= 14 {
        let done = home.launch(&text).wait(PATIENCE).expect("it ends");
        assert!(!done.status.success() && done.stderr.contains(own.name()), "{}", done.stderr);
        own.ip(&["link", "show"]).expect("it is there");
    }
    home.is_as_it_was(&before);
    drop((home, own));
    assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
}

#[test]
fn a_vlan_that_the_kernel_lacks_is_one_line_and_nothing_is_left() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    let vlan = ["link", "add", "link", "t39m", "name", "t39m.7", "type", "vlan", "id", "7"];
    let has_vlans = home.home.ip(&vlan).and_then(|_| home.home.ip(&["link", "delete", "t39m.7"])).is_ok();
    let text = EVERYTHING.to_owned()
        + "[[router.interface]]\nname = \"guests\"\nnic = \"own\"\nvlan = 7\naddress = \"10.39.7.1/24\"\n";
    if has_vlans {
        let mut run = home.start(&text);
        run.signal(Signal::TERM).expect("signalled");
        let done = run.wait(PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
    } else {
        let done = home.launch(&text).wait(PATIENCE).expect("it ends");
        let lines = done.stderr.lines().filter(|line| line.contains("no VLANs (802.1Q)"));
        assert!(!done.status.success() && lines.count() == 1, "{}", done.stderr);
    }
    home.is_as_it_was(&before);
    drop(home);
    assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
}

/// A kernel router on a switch of the run, with a firmware router beside it.
mod on_a_switch {
    use super::*;

    /// A firmware router with the route back.
    const FIRMWARE: &str = "[switch.lan]\n\
        [[router]]\nname = \"t39p\"\nengine = \"process\"\n\
        [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"10.39.1.2/24\"\n\
        [[router.route]]\nto = \"192.0.2.0/24\"\nvia = \"10.39.1.1\"\n";

    fn both() -> String {
        let west = format!("t39-west-{}", std::process::id());
        format!(
            "{FIRMWARE}[[router]]\nname = \"t39\"\nengine = \"kernel\"\n\
             [[router.nic]]\nname = \"west\"\nattach = \"veth:t39w\"\nnetns = \"{west}\"\naddress = \"192.0.2.1/24\"\n\
             [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"10.39.1.1/24\"\n"
        )
    }

    #[test]
    fn frames_pass_between_the_kernel_and_a_firmware() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"));
        let hosts = |_: &Namespace| Ok(host("t39-west"));
        let started = Stage::start_with_names_after(RINGROAD, &both(), &["--json"], hosts);
        let (stage, west) = started.expect("it starts");
        wait_for(|| stage.client().ok());
        let pings = || {
            settle(&west, "t39w", "192.0.2");
            ping(west.command("busybox"), 3, &["10.39.1.2"]).expect("answers");
        };
        pings();
        assert!(!has_link(stage.home(), "t39.lan"), "its interface is the router's");
        let counters = stage.wait_for_counters(|counters| counters.get("t39.lan.tap.read.frames") >= 3);
        let counters = counters.expect("it counts");
        assert!(counters.get("t39.lan.tap.write.frames") >= 3, "{counters:?}");
        assert!(counters.get("t39.lan.rx.frames") >= 3, "the kernel counts the same: {counters:?}");

        said(&["stop", "t39"]);
        assert!(has_link(stage.home(), "t39.lan"), "it comes home as long as its router is stopped");
        said(&["start", "t39"]);
        pings();

        let delete = ["-n", "t39", "link", "delete", "lan"];
        let done = run(Command::new("ip").args(delete), PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
        // Each ping is one packet, which is lost without an interface: wait for the new TAP, and for the router to have it.
        let is_whole = |events: &[String]| {
            ["NIC t39.lan: its link is there again", "its deleted interfaces were created again"]
                .iter()
                .all(|wanted| events.iter().any(|line| line.contains(wanted)))
        };
        wait_for(|| is_whole(&events(&stage)).then_some(()));
        ping(west.command("busybox"), 3, &["10.39.1.2"]).expect("it is made again");

        let path = stage.path("next.toml");
        let apply = |text: &str| {
            std::fs::write(&path, text).expect("written");
            said(&["apply", &path.display().to_string()])
        };
        apply(FIRMWARE);
        wait_for(|| (!has_link(stage.home(), "t39.lan")).then_some(()));
        apply(&both());
        pings();
        // A process router takes over the name and the port of a kernel router.
        apply(&FIRMWARE.replace("t39p", "t39"));
        apply(&both());
        pings();
        stage.finish_troubled(vec![west]).expect("nothing is left");
    }
}

mod all {
    use super::*;

    /// Routers of one file.
    const MANY: usize = 100;

    #[test]
    fn a_hundred_of_them_run_from_one_file() {
        support::needs!(Root, Program("ip"), Program("nsenter"));
        let _turn = alone();
        let traces = Traces::now();
        let home = Home::new();
        let before = home.interfaces();
        let router = |n: usize| {
            format!(
                "[[router]]\nname = \"t39-{n}\"\nengine = \"kernel\"\n\
                 [[router.nic]]\nname = \"a\"\nattach = \"veth:t39a{n}\"\naddress = \"10.{n}.1.1/24\"\n\
                 [[router.nic]]\nname = \"b\"\nattach = \"veth:t39b{n}\"\naddress = \"10.{n}.2.1/24\"\n"
            )
        };
        let mut run = home.start(&(0..MANY).map(router).collect::<String>());
        let runs: Vec<Value> =
            said(&["ps", "--json"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let routers = runs.iter().flat_map(|run| run["routers"].as_array().cloned().unwrap_or_default());
        assert_eq!(routers.filter(|router| router["state"] == "running").count(), MANY);
        run.signal(Signal::KILL).expect("killed");
        run.wait(PATIENCE).expect("it ends");
        home.is_as_it_was(&before);
        drop(home);
        assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
    }
}

mod long {
    use std::process::Stdio;

    use support::RandomTimes;

    use super::*;

    /// Rounds; `RINGROAD_ROUNDS` may override it.
    const ROUNDS: u32 = 40;

    #[test]
    fn a_command_that_is_killed_at_any_moment_leaves_nothing() {
        support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
        let _turn = alone();
        let (traces, mut moments) = (Traces::now(), RandomTimes::new());
        let home = Home::new();
        let before = home.interfaces();
        let rounds = std::env::var("RINGROAD_ROUNDS").ok().and_then(|text| text.parse().ok());
        for round in 0..rounds.unwrap_or(ROUNDS) {
            // In the middle of the start, or while a router is restarted, which moves its interfaces.
            let is_up = round % 3 == 2;
            let mut run = if is_up { home.start(EVERYTHING) } else { home.launch(EVERYTHING) };
            let mut restart = Command::new(RINGROAD);
            restart.args(["restart", "t39"]).stdout(Stdio::null()).stderr(Stdio::null());
            let asked = is_up.then(|| restart.spawn().expect("it starts"));
            let moment = moments.within(Duration::from_millis(if is_up { 60 } else { 300 }));
            thread::sleep(moment);
            run.signal(Signal::KILL).expect("killed");
            run.wait(PATIENCE).expect("it ends");
            if let Some(mut asked) = asked {
                asked.wait().expect("it ends");
            }
            println!("round {round}: killed after {moment:?}");
            if round % 2 == 0 {
                // The same names and interfaces are used at once, without a pause.
                let mut next = home.start(EVERYTHING);
                next.signal(Signal::TERM).expect("signalled");
                let done = next.wait(PATIENCE).expect("it ends");
                assert!(done.status.success(), "after {moment:?}: {}", done.stderr);
            }
            home.is_as_it_was(&before);
        }
        drop(home);
        assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
    }
}
