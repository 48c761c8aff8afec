//! Objective: a parallel group (`[[group]]`, `kind = "parallel"`) is one router to the hosts around it. Real stacks talk through two
//! members on the queues of the same TAPs, and of ports of switches; ARP is answered once; one that is killed, stopped or told to go
//! leaves its flows to the other; members come while it forwards; what cannot be is refused in one line, and nothing is left behind.

mod filtered;
mod links;
mod parked;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use support::{Flow, Namespace, Process, Stage, run, transfer};

use crate::verbs::said_at;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PORT: u16 = 7042;
/// Flows that are spread over members: with so many no member is without any, but once in millions of runs.
const FLOWS: u16 = 24;
/// Datagrams a second of each.
const RATE: u32 = 100;

/// A group between two TAPs.
fn between_taps(engine: &str) -> String {
    format!(
        "[[group]]\nname = 'duo'\nkind = 'parallel'\nmembers = 2\nengine = '{engine}'\n\
         [[group.nic]]\nname = 'west'\nattach = 'tap:t43-west'\naddress = '192.0.2.1/24'\nqueue_len = 4096\n\
         [[group.nic]]\nname = 'east'\nattach = 'tap:t43-east'\naddress = '198.51.100.1/24'\nqueue_len = 4096\n"
    )
}

/// A group between two routers, on switches.
fn between_switches() -> String {
    let edge = |name: &str, lan: &str, core: &str, to: &str, via: &str| {
        format!(
            "[[router]]\nname = '{name}'\n[[router.nic]]\nname = 'lan'\nattach = 'tap:t43-{name}'\naddress = '{lan}/24'\n\
             [[router.nic]]\nname = 'core'\nattach = 'switch:{name}'\naddress = '{core}/24'\n\
             [[router.route]]\nto = '{to}/24'\nvia = '{via}'\n"
        )
    };
    let nic = |side: &str, address: &str| {
        format!("[[group.nic]]\nname = '{side}'\nattach = 'switch:{side}'\naddress = '{address}/24'\n")
    };
    let route = |to: &str, via: &str| format!("[[group.route]]\nto = '{to}/24'\nvia = '{via}'\n");
    [
        "[switch.west]\n[switch.east]\n".to_owned(),
        edge("west", "192.0.2.1", "203.0.113.1", "198.51.100.0", "203.0.113.2"),
        edge("east", "198.51.100.1", "10.42.0.1", "192.0.2.0", "10.42.0.2"),
        "[[group]]\nname = 'duo'\nkind = 'parallel'\nmembers = 2\n".to_owned(),
        nic("west", "203.0.113.2") + &nic("east", "10.42.0.2"),
        route("192.0.2.0", "203.0.113.1") + &route("198.51.100.0", "10.42.0.1"),
    ]
    .concat()
}

/// A running file with a host at either end.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start(text: &str) -> Self {
        Self::start_with(text, &["--json"])
    }

    fn start_with(text: &str, options: &[&str]) -> Self {
        let mut stage = Stage::start_with(RINGROAD, text, options).expect("it starts");
        let west = stage.host("t43-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t43-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        Self { stage, west, east }
    }

    fn flows(&self) -> Vec<Flow> {
        let to = |n| SocketAddr::new(IpAddr::V4(EAST), PORT + n);
        (0..FLOWS).map(|n| Flow::start(&self.west, &self.east, to(n), RATE).expect("a flow")).collect()
    }

    fn ask(&self, words: &[&str]) -> String {
        said_at(&self.stage, words)
    }

    fn routers(&self, more: &[&str]) -> Vec<serde_json::Value> {
        let told = self.ask(&[&["ps", "--json"][..], more].concat());
        let told: serde_json::Value = serde_json::from_str(told.trim()).expect("JSON");
        told["routers"].as_array().expect("routers").clone()
    }

    /// How the members are, in the order of their numbers.
    fn members(&self) -> Vec<String> {
        let routers = self.routers(&["--members"]);
        let told = |router: &serde_json::Value| router["member"].as_str().map(str::to_owned);
        routers.iter().filter_map(told).collect()
    }

    fn become_members(&self, wanted: &[&str]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let members = self.members();
            if members == wanted {
                return;
            }
            assert!(Instant::now() < end, "{members:?} are not {wanted:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the group is one router in the list, with its members like this: one that a busy host keeps from its probes is
    /// suspect for a moment.
    fn becomes_one(&self, wanted: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let routers = self.routers(&[]);
            let own: Vec<_> = routers.iter().filter(|router| router["name"] == "duo").collect();
            assert_eq!(own.len(), 1, "{routers:?}");
            if own[0]["member"] == wanted {
                return;
            }
            assert!(Instant::now() < end, "{routers:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process of a member, which is named while the data plane answers.
    fn pid(&self, member: &str) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            let routers = self.routers(&["--members"]);
            let own = routers.iter().find(|router| router["name"] == member).expect("it is there");
            if let Some(pid) = own["pid"].as_u64() {
                return u32::try_from(pid).expect("small");
            }
            assert!(Instant::now() < end, "{member} has no process: {own}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn finish(self) -> String {
        let done = self.stage.finish_troubled(vec![self.west, self.east]).expect("nothing is left");
        done.stderr
    }
}

fn signal(pid: u32, signal: &str) {
    let done = run(std::process::Command::new("kill").args([signal, &pid.to_string()]), PATIENCE);
    assert!(done.expect("kill runs").status.success());
}

fn all_resume(flows: &[Flow], what: &str) {
    for (n, flow) in flows.iter().enumerate() {
        assert!(
            flow.resumes(PATIENCE).is_some(),
            "flow {n} does not go on after {what}: {:?}",
            flow.so_far()
        );
    }
}

/// Two hosts talk through two members, which share the flows, and outside there is one router.
fn try_two(text: &str) {
    let world = World::start(text);
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let flows = world.flows();
    let both = |counters: &support::Counters| {
        // Without probes, which do not leave the host.
        (0..2).all(|n| counters.get(&format!("duo_{n}.east.group.passed")) > 500)
    };
    world.stage.wait_for_counters(both).expect("both forward");
    for flow in &flows {
        flow.reaches(100, PATIENCE).expect("it arrives");
    }
    transfer(&world.west, &world.east, (EAST, PORT - 1).into(), 2_000_000, PATIENCE);
    let counters = world.stage.wait_for_counters(|counters| counters.get("duo.west.group.probes_back") > 0);
    let counters = counters.expect("probes come back");
    assert!(counters.get("duo.west.group.arp_answered") > 0, "somebody has asked for the group");
    // By both members together, what it takes to know two hosts.
    let asked = counters.get("duo.east.group.arp_asked");
    assert!((1..=50).contains(&asked), "{asked} questions");
    world.becomes_one("2 members: 2 serving");
    let shown = world.ask(&["show", "duo"]);
    assert!(shown.contains("kind = parallel") && !shown.contains("192.0.0."), "{shown}");
    let inside = world.ask(&["show", "duo", "--members"]);
    assert!(inside.contains("duo_0") && inside.contains("duo_1"), "{inside}");
    let table = world.ask(&["top", "duo", "--members", "--once"]);
    for member in ["duo_0: ", "duo_1: "] {
        let is_its = |line: &str| line.starts_with(member) && line.ends_with(" pps passed");
        let part = table.lines().find(|line| is_its(line)).expect("a line with its part");
        assert!(part.contains(" of 8 queues; "), "{part}");
    }
    let late: u64 = flows.into_iter().map(|flow| flow.stop().expect("it ends").late).sum();
    let moved = world.stage.wait_for_counters(|_| true).expect("counters").get("duo.group.suspected");
    assert!(late == 0 || moved > 0, "no flow has changed hands, and {late} datagrams are out of order");
    world.finish();
}

#[test]
fn two_virtual_machines_are_one_router_between_taps() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    try_two(&between_taps("kvm"));
}

#[test]
fn two_members_are_one_router_between_switches() {
    support::needs!(Root, Tun, Program("ip"));
    try_two(&between_switches());
}

#[test]
fn the_table_of_a_run_tells_what_each_member_has() {
    support::needs!(Root, Tun, Program("ip"));
    let mut world = World::start_with(&between_taps("process"), &[]);
    for member in ["duo_0: serving, 4 of 8 queues; ", "duo_1: serving, 4 of 8 queues; "] {
        let is_its = |line: &str| line.starts_with(member) && line.ends_with(" pps passed");
        world.stage.run().wait_for_line(PATIENCE, is_its).expect("a line with its part");
    }
    world.finish();
}

#[test]
fn one_that_is_killed_leaves_its_flows_to_the_other_and_comes_back() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    let world = World::start(&between_taps("kvm"));
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let flows = world.flows();
    for member in ["duo_0", "duo_1"] {
        signal(world.pid(member), "-9");
        all_resume(&flows, "a member was killed");
        world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
        all_resume(&flows, "it has come back");
    }
    drop(flows);
    let said = world.finish();
    assert_eq!(said.lines().filter(|line| line.contains("failed: its process (pid ")).count(), 2, "{said}");
}

#[test]
fn one_that_hangs_is_found_by_what_it_does_not_forward() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    let world = World::start(&between_taps("kvm"));
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let flows = world.flows();
    let pid = world.pid("duo_1");
    signal(pid, "-STOP");
    all_resume(&flows, "a member hangs");
    // It is ended, and another one takes its place.
    let end = Instant::now() + PATIENCE;
    while Process::look(pid).is_some() {
        assert!(Instant::now() < end, "it hangs for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    all_resume(&flows, "it was replaced");
    drop(flows);
    let said = world.finish();
    assert!(said.contains("duo_1: notice: it forwards no probe"), "{said}");
}

#[test]
fn members_come_and_go_while_it_forwards() {
    support::needs!(Root, Tun, Program("ip"));
    let world = World::start(&between_taps("process"));
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let flows = world.flows();
    world.ask(&["set", "duo", "members=4"]);
    world.become_members(&["serving, 2 of 8 queues"; 4]);
    all_resume(&flows, "members came");
    world.ask(&["set", "duo", "members=1"]);
    world.become_members(&["serving, 8 of 8 queues"]);
    all_resume(&flows, "members went");
    let refused = |words: &[&str]| {
        let command = &mut world.stage.home().command(RINGROAD);
        let done = run(command.args(words), PATIENCE).expect("an answer");
        assert!(!done.status.success());
        done.stderr.trim().to_owned()
    };
    let told = refused(&["set", "duo", "members=9"]);
    assert!(told.contains("has 8 queues while the run lasts, too few for 9 members"), "{told}");
    let told = refused(&["set", "duo", "members=many"]);
    assert!(told.contains("\"many\" is no number"), "{told}");
    drop(flows);
    world.finish();
}

fn try_to_restart(engine: &str) {
    let world = World::start(&between_taps(engine));
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let flows = world.flows();
    let told = world.ask(&["restart", "duo"]);
    assert_eq!(told, "group duo: 2 members were started anew");
    all_resume(&flows, "all were restarted");
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let routers = world.routers(&["--members"]);
    assert!(routers.iter().all(|router| router["restarts"] == 1), "{routers:?}");
    let lost: u64 = flows.into_iter().map(|flow| flow.stop().expect("it ends").lost()).sum();
    let suspected = world.stage.wait_for_counters(|_| true).expect("counters").get("duo.group.suspected");
    assert!(lost == 0 || suspected > 0, "nobody was late, and {lost} datagrams are lost");
    world.finish();
}

#[test]
fn processes_are_restarted_one_after_the_other_while_the_group_forwards() {
    support::needs!(Root, Tun, Program("ip"));
    try_to_restart("process");
}

#[test]
fn nothing_is_left_of_a_run_that_is_killed() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    let mut world = World::start(&between_taps("kvm"));
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let members = [world.pid("duo_0"), world.pid("duo_1")];
    signal(world.stage.run().id(), "-9");
    let end = Instant::now() + PATIENCE;
    let is_there = |host: &Namespace, tap: &str| host.links().expect("links").iter().any(|link| link == tap);
    while members.iter().any(|pid| Process::look(*pid).is_some())
        || is_there(&world.west, "t43-west")
        || is_there(&world.east, "t43-east")
    {
        assert!(Instant::now() < end, "something is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_this_version_cannot_run_is_refused_in_one_line() {
    support::needs!(Root, Tun, Program("ip"));
    let folder = tempfile::tempdir().expect("a folder");
    for (old, new, what) in [
        (
            "kind =",
            "scale = { min = 3, max = 4 }\nkind =",
            "group.members: 2 is outside of scale; write 3 to 4",
        ),
        ("tap:t43-west", "null", "group.nic.attach: members of a parallel group cannot share \"null\""),
        ("members = 2", "members = 0", "group.members: 0 is out of range"),
        ("engine = 'process'", "role = 'echo'", "group.role: members are found alive by what they forward"),
    ] {
        let text = between_taps("process").replacen(old, new, 1);
        let file = folder.path().join("file.toml");
        std::fs::write(&file, text).expect("written");
        let done =
            run(std::process::Command::new(RINGROAD).arg("run").arg(&file), PATIENCE).expect("it ends");
        assert!(!done.status.success(), "{new}");
        assert!(done.stderr.contains(what), "{new}: {}", done.stderr);
    }
}

#[test]
fn a_check_says_that_frames_of_a_flow_may_overtake_each_other() {
    support::needs!(Root, Tun, Program("ip"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file.toml");
    let text = between_taps("process").replacen("kind =", "spread = 'round-robin'\nkind =", 1);
    std::fs::write(&file, text).expect("written");
    let done = run(std::process::Command::new(RINGROAD).arg("check").arg(&file), PATIENCE).expect("it ends");
    let what =
        "group duo: parallel, 2 members, frames are dealt out one by one: those of a flow may overtake";
    assert!(done.stdout.contains(what), "{}{}", done.stdout, done.stderr);
}

mod all {
    use super::*;

    #[test]
    fn one_with_a_cable_of_its_own_out_leaves_its_flows_to_the_other_and_is_not_restarted() {
        support::needs!(Root, Tun, Program("ip"));
        let world = World::start(&between_taps("process"));
        world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
        let flows = world.flows();
        world.ask(&["set", "duo_1", "west.link=down"]);
        world.become_members(&["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
        all_resume(&flows, "a cable was pulled out");
        // Four seconds of rounds in which the other one is judged: twice as long as a member may be silent.
        let rounds = |counters: &support::Counters| counters.get("duo.group.rounds");
        let before = rounds(&world.stage.wait_for_counters(|_| true).expect("counters"));
        let is_judged = |counters: &support::Counters| rounds(counters) >= before + 400;
        world.stage.wait_for_counters(is_judged).expect("the other one is judged");
        world.become_members(&["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
        let routers = world.routers(&["--members"]);
        assert!(routers.iter().all(|router| router["restarts"] == 0), "{routers:?}");
        world.ask(&["set", "duo_1", "west.link=up"]);
        world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
        all_resume(&flows, "it was plugged in again");
        drop(flows);
        world.finish();
    }

    #[test]
    fn a_flow_arrives_whose_frames_are_dealt_out_one_by_one() {
        support::needs!(Root, Tun, Program("ip"));
        let text = between_taps("process").replacen("kind =", "spread = 'round-robin'\nkind =", 1);
        let world = World::start(&text);
        world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
        let flow = Flow::start(&world.west, &world.east, (EAST, PORT).into(), RATE).expect("a flow");
        flow.reaches(400, PATIENCE).expect("it arrives by both");
        drop(flow);
        world.finish();
    }

    #[test]
    fn two_processes_are_one_router_between_taps() {
        support::needs!(Root, Tun, Program("ip"));
        try_two(&between_taps("process"));
    }

    #[test]
    fn virtual_machines_are_restarted_one_after_the_other_while_the_group_forwards() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_to_restart("kvm");
    }
}

mod long {
    use super::*;

    #[test]
    fn members_of_the_example_are_killed_again_and_again() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let text = include_str!("../../examples/parallel.toml");
        let text = text.replace("rr-left", "t43-west").replace("rr-right", "t43-east");
        let serving = ["serving, 4 of 8 queues"; 2];
        // In new runs, as the pause before a start grows with each death.
        for _ in 0..10 {
            let world = World::start(&text);
            world.become_members(&serving);
            let flows = world.flows();
            for _ in 0..2 {
                for member in ["core_0", "core_1"] {
                    signal(world.pid(member), "-9");
                    all_resume(&flows, "a member was killed");
                }
                world.become_members(&serving);
            }
            drop(flows);
            world.finish();
        }
    }
}
