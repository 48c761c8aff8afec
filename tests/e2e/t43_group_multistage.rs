//! Objective: a multistage group (`[[group]]`, `kind = "multistage"`) is one router to the hosts around it: real stacks talk through
//! balancers and three back ends; one that is killed leaves its flows to the others; back ends come and go while it forwards; frames are
//! dealt out one by one where the file says so; the data plane, which has the balancers, is killed and all goes on.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use support::{Flow, Namespace, Stage, ping, run, transfer};

use crate::verbs::said_at;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PORT: u16 = 7142;
const FLOWS: u16 = 24;
/// Datagrams a second of each.
const RATE: u32 = 100;

fn file(engine: &str, more: &str) -> String {
    format!(
        "[[group]]\nname = 'trio'\nkind = 'multistage'\nbackends = 3\nengine = '{engine}'\n{more}\n\
         [[group.nic]]\nname = 'west'\nattach = 'tap:t43m-west'\naddress = '192.0.2.1/24'\nqueue_len = 4096\n\
         [[group.nic]]\nname = 'east'\nattach = 'tap:t43m-east'\naddress = '198.51.100.1/24'\nqueue_len = 4096\n"
    )
}

struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start(text: &str) -> Self {
        let mut stage = Stage::start(RINGROAD, text).expect("it starts");
        let west = stage.host("t43m-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t43m-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        Self { stage, west, east }
    }

    fn flows(&self) -> Vec<Flow> {
        let start = |n| Flow::start(&self.west, &self.east, (EAST, PORT + n).into(), RATE).expect("a flow");
        (0..FLOWS).map(start).collect()
    }

    fn ask(&self, words: &[&str]) -> String {
        said_at(&self.stage, words)
    }

    fn status(&self) -> serde_json::Value {
        let told = self.ask(&["ps", "--json", "--members"]);
        serde_json::from_str(told.trim()).expect("JSON")
    }

    /// Waits until there are so many members, and all of them serve.
    fn all_serve(&self, members: usize) {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            let routers = status["routers"].as_array().expect("routers");
            let serves = |router: &&serde_json::Value| {
                router["member"].as_str().is_some_and(|told| told.starts_with("serving"))
            };
            if routers.len() == members && routers.iter().filter(serves).count() == members {
                return;
            }
            assert!(Instant::now() < end, "{status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the process of a member, which is named while the data plane answers.
    fn kill(&self, member: usize) {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            let pid = &status["routers"][member]["pid"];
            if pid.is_u64() {
                return kill(pid);
            }
            assert!(Instant::now() < end, "member {member} has no process: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn finish(self) -> String {
        let done = self.stage.finish_troubled(vec![self.west, self.east]).expect("nothing is left");
        done.stderr
    }
}

fn kill(pid: &serde_json::Value) {
    let done = run(std::process::Command::new("kill").args(["-9", &pid.to_string()]), PATIENCE);
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

fn try_three(engine: &str) {
    let world = World::start(&file(engine, "balancers = 2"));
    world.all_serve(3);
    let flows = world.flows();
    let all = |counters: &support::Counters| {
        (0..3).all(|n| counters.get(&format!("trio_{n}.west.balancer.out_frames")) > 200)
    };
    let counters = world.stage.wait_for_counters(all).expect("all forward");
    assert_eq!(counters.get("trio.west.balancer.out_in_turn"), 0);
    transfer(&world.west, &world.east, (EAST, PORT - 1).into(), 2_000_000, PATIENCE);
    for number in 0..2 {
        assert!(counters.get(&format!("trio/lb{number}.frames")) > 0, "balancer {number} has done nothing");
    }
    // Their threads are known to whoever places threads and tells where CPU time went.
    let is_watched = |counters: &support::Counters| {
        ["lb0", "lb1", "group"].iter().all(|name| counters.get(&format!("trio/{name}.sched.switches")) > 0)
    };
    world.stage.wait_for_counters(is_watched).expect("they are watched");
    // What comes from the east is the second one's, until that is cut.
    let told = world.ask(&["set", "trio", "balancers=1"]);
    assert!(told.contains("group trio: balancers = 1"), "{told}");
    let has_moved = |counters: &support::Counters| counters.get("trio.group.links_moved") > 0;
    world.stage.wait_for_counters(has_moved).expect("its link is another one's");
    all_resume(&flows, "a balancer was cut");
    transfer(&world.west, &world.east, (EAST, PORT - 2).into(), 2_000_000, PATIENCE);
    world.ask(&["set", "trio", "balancers=2"]);
    transfer(&world.west, &world.east, (EAST, PORT - 3).into(), 2_000_000, PATIENCE);
    world.ask(&["set", "trio", "backends=5"]);
    world.all_serve(5);
    all_resume(&flows, "back ends came");
    world.ask(&["set", "trio", "backends=2"]);
    world.all_serve(2);
    all_resume(&flows, "back ends went");
    let shown = world.ask(&["show", "trio"]);
    assert!(shown.contains("kind = multistage") && shown.contains("tap:t43m-west"), "{shown}");
    drop(flows);
    world.finish();
}

#[test]
fn three_processes_behind_balancers_are_one_router() {
    support::needs!(Root, Tun, Program("ip"));
    try_three("process");
}

#[test]
fn one_that_is_killed_leaves_its_flows_to_the_others_and_so_does_the_data_plane() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    let world = World::start(&file("kvm", ""));
    world.all_serve(3);
    let flows = world.flows();
    world.kill(1);
    all_resume(&flows, "a back end was killed");
    world.all_serve(3);
    kill(&world.status()["data_plane"]);
    all_resume(&flows, "the data plane was killed");
    world.all_serve(3);
    all_resume(&flows, "all serve again");
    drop(flows);
    let said = world.finish();
    assert!(
        said.contains("/trio_1: failed: its process (pid ") && said.contains("data plane died"),
        "{said}"
    );
}

mod all {
    use super::*;

    #[test]
    fn frames_are_dealt_out_one_by_one_where_the_file_says_so() {
        support::needs!(Root, Tun, Program("ip"));
        let world = World::start(&file("process", "spread = 'round-robin'"));
        world.all_serve(3);
        let flow = Flow::start(&world.west, &world.east, (EAST, PORT).into(), RATE).expect("a flow");
        let all = |counters: &support::Counters| {
            (0..3).all(|n| counters.get(&format!("trio_{n}.west.balancer.out_frames")) > 50)
        };
        let counters = world.stage.wait_for_counters(all).expect("one flow passes all of them");
        assert!(counters.get("trio.west.balancer.out_in_turn") > 150);
        drop(flow);
        world.finish();
    }

    #[test]
    fn three_virtual_machines_behind_balancers_are_one_router() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_three("kvm");
    }

    #[test]
    fn three_balancers_share_twenty_nics() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        let nic = |n: u32| {
            format!("[[group.nic]]\nname = 'n{n}'\nattach = 'switch:field'\naddress = '10.43.{n}.1/24'\n")
        };
        let east = "[[group.nic]]\nname = 'east'";
        let between = (1..=18).map(nic).collect::<String>() + east;
        let text = file("process", "balancers = 3").replace(east, &between);
        let world = World::start(&format!("[switch.field]\n{text}"));
        world.all_serve(3);
        for n in 1..=18 {
            let address = format!("10.43.{n}.1");
            ping(world.west.command("busybox"), 1, &[&address]).expect("each address answers");
        }
        let flows = world.flows();
        let all = |counters: &support::Counters| {
            (0..3).all(|n| counters.get(&format!("trio_{n}.west.balancer.out_frames")) > 100)
        };
        world.stage.wait_for_counters(all).expect("all forward");
        transfer(&world.west, &world.east, (EAST, PORT - 1).into(), 2_000_000, PATIENCE);
        // What comes from the east, by the twentieth NIC, is the second balancer's.
        let move_frames = |counters: &support::Counters| {
            ["lb0", "lb1"].iter().all(|name| counters.get(&format!("trio/{name}.frames")) > 0)
        };
        world.stage.wait_for_counters(move_frames).expect("both move frames");
        world.ask(&["set", "trio", "balancers=1"]);
        let have_moved = |counters: &support::Counters| counters.get("trio.group.links_moved") >= 13;
        world.stage.wait_for_counters(have_moved).expect("thirteen links are another one's");
        all_resume(&flows, "two balancers were cut");
        transfer(&world.west, &world.east, (EAST, PORT - 2).into(), 2_000_000, PATIENCE);
        drop(flows);
        world.finish();
    }
}

mod long {
    use super::*;

    #[test]
    fn back_ends_of_the_example_and_its_balancers_are_killed_again_and_again() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let text = include_str!("../../examples/multistage.toml");
        let text = text.replace("rr-left", "t43m-west").replace("rr-right", "t43m-east");
        // In new runs, as the pause before a start grows with each death.
        for _ in 0..10 {
            let world = World::start(&text);
            world.all_serve(3);
            let flows = world.flows();
            for member in 0..3_usize {
                world.kill(member);
                all_resume(&flows, "a back end was killed");
            }
            world.all_serve(3);
            kill(&world.status()["data_plane"]);
            all_resume(&flows, "the data plane was killed");
            world.all_serve(3);
            drop(flows);
            world.finish();
        }
    }
}
