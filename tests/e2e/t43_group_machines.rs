//! Objective: a multistage group whose balancers are virtual machines (`balancer = "vm"`) is one router to the hosts around it, with one
//! address and one answer to ARP: by our switch, a bridge and Open vSwitch as the interconnection. Balancers are cut, killed and come
//! again, paths behind them are cut, back ends come and go, here and on another host, and the data plane is killed: flows go on.

mod elsewhere;
mod followed;
mod open_vswitch;

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use config::Mac;
use support::{Counters, Flow, Namespace, Stage, ping, run, transfer};

use crate::verbs::said_at;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PORT: u16 = 7143;
const FLOWS: u16 = 24;
/// Datagrams a second of each.
const RATE: u32 = 100;
const BRIDGE: &str = "t43v-br";
/// A host behind a route that comes later, and the file that has it.
const LATER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const LATER_FILE: &str = "later.toml";

fn file(engine: &str, more: &str) -> String {
    format!(
        "[[group]]\nname = 'duo'\nkind = 'multistage'\nbalancer = 'vm'\nbalancers = 2\nbackends = 3\nengine = '{engine}'\n\
         {more}\n\
         [[group.nic]]\nname = 'west'\nattach = 'tap:t43v-west'\naddress = '192.0.2.1/24'\nqueue_len = 4096\noffload = false\n\
         [[group.nic]]\nname = 'east'\nattach = 'tap:t43v-east'\naddress = '198.51.100.1/24'\nqueue_len = 4096\noffload = false\n"
    )
}

struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start(text: &str) -> Self {
        Self::around(Stage::start(RINGROAD, text).expect("it starts"))
    }

    /// Starts it in a namespace with a bridge.
    fn start_at_bridge(text: &str) -> Self {
        let prepare = |home: &Namespace| {
            home.set("net.ipv6.conf.default.disable_ipv6", "1")?;
            home.ip(&["link", "add", BRIDGE, "type", "bridge"])?;
            home.ip(&["link", "set", BRIDGE, "up"])
        };
        Self::around(Stage::start_after(RINGROAD, text, &["--json"], prepare).expect("it starts").0)
    }

    /// Has hosts at its TAPs.
    fn around(mut stage: Stage) -> Self {
        let west = stage.host("t43v-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t43v-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        Self { stage, west, east }
    }

    fn flows(&self) -> Vec<Flow> {
        self.flows_to(EAST)
    }

    /// Starts flows to an address of the host in the east.
    fn flows_to(&self, address: Ipv4Addr) -> Vec<Flow> {
        let start = |n| Flow::start(&self.west, &self.east, (address, PORT + n).into(), RATE);
        (0..FLOWS).map(|n| start(n).expect("a flow")).collect()
    }

    fn transfers(&self, port: u16) {
        transfer(&self.west, &self.east, (EAST, PORT - port).into(), 2_000_000, PATIENCE);
    }

    fn ask(&self, words: &[&str]) -> String {
        said_at(&self.stage, words)
    }

    fn status(&self) -> serde_json::Value {
        let told = self.ask(&["ps", "--json", "--members"]);
        // Another run may be there as well.
        let own = told.lines().find(|line| line.contains("\"duo_")).expect("the run");
        serde_json::from_str(own).expect("JSON")
    }

    /// Waits until there are so many back ends and balancers, and all of them serve.
    fn all_serve(&self, backends: usize, balancers: usize) {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            let routers = status["routers"].as_array().expect("routers");
            let serving = |is_balancer: bool| {
                let is_it = |router: &&serde_json::Value| {
                    let name = router["name"].as_str().unwrap_or_default();
                    name.contains("_lb") == is_balancer
                        && router["member"].as_str().is_some_and(|told| told.starts_with("serving"))
                };
                routers.iter().filter(is_it).count()
            };
            let all = (serving(false), serving(true));
            if routers.len() == backends + balancers && all == (backends, balancers) {
                return;
            }
            assert!(Instant::now() < end, "{all:?} serve of {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a command says all of this: who is kept from its probes by a busy host is suspect for a moment.
    fn says(&self, words: &[&str], wanted: &[&str]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = self.ask(words);
            if wanted.iter().all(|part| said.contains(part)) {
                return;
            }
            assert!(Instant::now() < end, "{words:?}: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn waits_for(&self, what: &str, wanted: impl Fn(&Counters) -> bool) -> Counters {
        self.stage.wait_for_counters(wanted).unwrap_or_else(|error| panic!("{what}: {error:#}"))
    }

    /// How many links have moved so far, counted before this balancer was seen to carry one: taking that away adds to the count. One that
    /// is suspect for a moment carries none.
    fn links_moved(&self, carrier: &str) -> u64 {
        let moved = self.waits_for("counters", |_| true).get("duo.group.links_moved");
        self.says(&["show", carrier], &["serving, 1 of 2 links"]);
        moved
    }

    /// Kills the process of a router, which is named while the data plane answers.
    fn kill(&self, name: &str) {
        let pid_of = |status: &serde_json::Value| {
            let routers = status["routers"].as_array().expect("routers");
            let own = routers.iter().find(|router| router["name"] == name)?;
            own["pid"].is_u64().then(|| own["pid"].clone())
        };
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if let Some(pid) = pid_of(&status) {
                return kill(&pid);
            }
            assert!(Instant::now() < end, "{name} has no process: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn finish(self) -> String {
        let done = self.stage.finish_troubled(vec![self.west, self.east]).expect("nothing is left");
        done.stderr
    }
}

fn kill(pid: &serde_json::Value) {
    let done = run(Command::new("kill").args(["-9", &pid.to_string()]), PATIENCE);
    assert!(done.expect("kill runs").status.success());
}

fn all_resume(flows: &[Flow], what: &str) {
    for (n, flow) in flows.iter().enumerate() {
        let resumes = flow.resumes(PATIENCE);
        assert!(resumes.is_some(), "flow {n} does not go on after {what}: {:?}", flow.so_far());
    }
}

/// Whether each back end has forwarded frames, and each balancer has spread some.
fn all_have_forwarded(counters: &Counters) -> bool {
    let forwarded = |n| counters.get(&format!("duo_{n}.east.group.passed")) > 100;
    let spread = |n| counters.get(&format!("duo_lb{n}.vcpu0.balancer.spread")) > 0;
    (0..3).all(forwarded) && (0..2).all(spread)
}

/// Outside it is one router: one address, one answer.
fn is_one_router(world: &World) {
    ping(world.west.command("busybox"), 3, &["192.0.2.1"]).expect("the group answers");
    let said = ping(world.west.command("busybox"), 3, &["198.51.100.2"]).expect("what is behind it answers");
    assert_eq!(said.matches("ttl=63").count(), 3, "one hop: {said}");
    let known = world.west.ip(&["neigh", "show", "192.0.2.1"]).expect("neighbours");
    assert_eq!(known.lines().count(), 1, "{known}");
    assert!(known.contains(&Mac::derived("duo", "west").to_string()), "{known}");
}

fn try_balancers(engine: &str) {
    let world = World::start(&file(engine, ""));
    world.all_serve(3, 2);
    is_one_router(&world);
    let flows = world.flows();
    world.transfers(1);
    world.waits_for("all forward", all_have_forwarded);
    world.says(&["ps"], &["3 members: 3 serving; 2 balancers: 2 serving"]);
    world.says(&["show", "duo_lb0"], &["role = balancer", "1 of 2 links"]);
    // What comes from the east is the second one's, until that is cut.
    let before = world.links_moved("duo_lb1");
    let told = world.ask(&["set", "duo", "balancers=1"]);
    assert!(told.contains("group duo: balancers = 1"), "{told}");
    world.all_serve(3, 1);
    world.waits_for("its link is another one's", |counters| counters.get("duo.group.links_moved") > before);
    all_resume(&flows, "a balancer was cut");
    world.transfers(2);
    world.ask(&["set", "duo", "balancers=2"]);
    world.all_serve(3, 2);
    world.transfers(3);
    // A cable of one is out.
    let before = world.links_moved("duo_lb0");
    world.ask(&["set", "duo_lb0", "west.link=down"]);
    world.waits_for("it moves", |counters| counters.get("duo.group.links_moved") > before);
    all_resume(&flows, "a cable of a balancer was out");
    world.transfers(4);
    world.ask(&["set", "duo_lb0", "west.link=up"]);
    world.all_serve(3, 2);
    world.ask(&["set", "duo", "backends=5"]);
    world.all_serve(5, 2);
    all_resume(&flows, "back ends came");
    world.ask(&["set", "duo", "backends=2"]);
    world.all_serve(2, 2);
    all_resume(&flows, "back ends went");
    world.transfers(5);
    drop(flows);
    world.finish();
}

#[test]
fn two_virtual_machines_balance_before_three() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    try_balancers("kvm");
}

/// Kills these one after the other, then the data plane if that is wished; returns what the run of this file has said.
fn try_kills(text: &str, victims: &[&str], and_the_data_plane: bool) -> String {
    let world = World::start(text);
    world.all_serve(3, 2);
    let flows = world.flows();
    for victim in victims {
        let before = victim.contains("_lb").then(|| world.links_moved(victim));
        world.kill(victim);
        all_resume(&flows, victim);
        let has_moved =
            |counters: &Counters| before.is_none_or(|before| counters.get("duo.group.links_moved") > before);
        world.waits_for(victim, has_moved);
        world.all_serve(3, 2);
    }
    if and_the_data_plane {
        kill(&world.status()["data_plane"]);
        all_resume(&flows, "the data plane was killed");
        world.all_serve(3, 2);
    }
    all_resume(&flows, "all serve again");
    drop(flows);
    world.finish()
}

mod all {
    use super::*;

    #[test]
    fn one_that_is_killed_leaves_its_links_to_the_other_and_comes_again() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let said = try_kills(&file("kvm", ""), &["duo_lb0"], false);
        assert!(said.contains("/duo_lb0: failed: its process (pid "), "{said}");
    }

    #[test]
    fn a_bridge_joins_balancers_and_back_ends_and_a_path_through_it_is_cut() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("bridge"));
        let world = World::start_at_bridge(&file("process", &format!("interconnect = 'bridge:{BRIDGE}'")));
        world.all_serve(3, 2);
        is_one_router(&world);
        let flows = world.flows();
        world.transfers(1);
        world.waits_for("all forward", all_have_forwarded);
        let port = |port: &str, state: &str| {
            let mut command = world.stage.home().command("bridge");
            let done = run(command.args(["link", "set", "dev", port, "state", state]), PATIENCE);
            assert!(done.expect("bridge runs").status.success(), "{port} {state}");
        };
        let suspected = || world.waits_for("counters", |_| true).get("duo.group.suspected");
        // The port of a back end forwards nothing any more, then again.
        let before = suspected();
        // If it was suspect just now, it is trusted again before its port is closed.
        world.all_serve(3, 2);
        port("duo_1.west", "0");
        world.waits_for("it is found", |counters| counters.get("duo.group.suspected") > before);
        all_resume(&flows, "a path to a back end was cut");
        port("duo_1.west", "3");
        world.all_serve(3, 2);
        // So do those of a balancer, which itself passes what it gets: what comes from the east is the other one's.
        let before = world.links_moved("duo_lb1");
        let of_balancer = ["duo_lb1.west_in", "duo_lb1.east_in"];
        of_balancer.iter().for_each(|name| port(name, "0"));
        world.waits_for("its link moves", |counters| counters.get("duo.group.links_moved") > before);
        all_resume(&flows, "the path behind a balancer was cut");
        of_balancer.iter().for_each(|name| port(name, "3"));
        world.all_serve(3, 2);
        drop(flows);
        // Only what the run has made is to be gone when it ends.
        world.stage.home().ip(&["link", "delete", BRIDGE]).expect("deleted");
        let said = world.finish();
        assert!(said.contains("nothing comes back from members by east"), "{said}");
    }

    #[test]
    fn each_that_is_killed_and_the_data_plane_leave_flows_to_others_and_come_again() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let said = try_kills(&file("kvm", ""), &["duo_lb0", "duo_1", "duo_lb1"], true);
        assert!(
            said.contains("/duo_lb0: failed: its process (pid ") && said.contains("data plane died"),
            "{said}"
        );
    }

    #[test]
    fn two_processes_balance_before_three() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        try_balancers("process");
    }

    #[test]
    fn two_balancers_carry_nine_links() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        let nic = |n: u32| {
            format!("[[group.nic]]\nname = 'n{n}'\nattach = 'switch:field'\naddress = '10.43.{n}.1/24'\n")
        };
        let east = "[[group.nic]]\nname = 'east'";
        let between = (1..=7).map(nic).collect::<String>() + east;
        let text = file("process", "").replace("backends = 3", "backends = 2").replace(east, &between);
        let world = World::start(&format!("[switch.field]\n{text}"));
        world.all_serve(2, 2);
        is_one_router(&world);
        ping(world.west.command("busybox"), 1, &["10.43.7.1"])
            .expect("it answers by the address of each NIC");
        world.says(&["show", "duo_lb0"], &["serving, 5 of 9 links"]);
        world.says(&["show", "duo_lb1"], &["serving, 4 of 9 links"]);
        let flows = world.flows();
        world.transfers(1);
        world.ask(&["set", "duo", "balancers=1"]);
        world.all_serve(2, 1);
        world.says(&["show", "duo_lb0"], &["serving, 9 of 9 links"]);
        all_resume(&flows, "a balancer was cut");
        world.transfers(2);
        drop(flows);
        world.finish();
    }

    #[test]
    fn frames_are_dealt_out_one_by_one_where_the_file_says_so() {
        support::needs!(Root, Tun, Program("ip"));
        let world = World::start(&file("process", "spread = 'round-robin'"));
        world.all_serve(3, 2);
        let flow = Flow::start(&world.west, &world.east, (EAST, PORT).into(), RATE).expect("a flow");
        let counters = world.waits_for("one flow passes all of them", |counters| {
            (0..3).all(|n| counters.get(&format!("duo_{n}.east.group.passed")) > 50)
        });
        assert!(counters.get("duo_lb0.vcpu0.balancer.spread_in_turn") > 150);
        drop(flow);
        world.finish();
    }

    #[test]
    fn kernel_routers_are_back_ends() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"));
        // A kernel router has no key of a machine's NIC.
        let text = file("kernel", "").replace("queue_len = 4096\noffload = false\n", "");
        let (stage, ()) =
            Stage::start_with_names_after(RINGROAD, &text, &["--json"], |_| Ok(())).expect("it starts");
        let world = World::around(stage);
        world.all_serve(3, 2);
        is_one_router(&world);
        let flows = world.flows();
        world.transfers(1);
        world.waits_for("all get some", |counters| {
            (0..3).all(|n| counters.get(&format!("switch.duo_west.duo_{n}.west.out_frames")) > 100)
        });
        let before = world.links_moved("duo_lb1");
        world.ask(&["set", "duo", "balancers=1"]);
        world.all_serve(3, 1);
        world.waits_for("its link moves", |counters| counters.get("duo.group.links_moved") > before);
        all_resume(&flows, "a balancer was cut");
        world.ask(&["set", "duo", "backends=2"]);
        world.all_serve(2, 1);
        all_resume(&flows, "a back end went");
        world.transfers(2);
        drop(flows);
        world.finish();
    }

    #[test]
    fn kernel_routers_have_a_route_that_is_applied_to_their_group() {
        support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
        let text = file("kernel", "").replace("queue_len = 4096\noffload = false\n", "");
        let (stage, ()) =
            Stage::start_with_names_after(RINGROAD, &text, &["--json"], |_| Ok(())).expect("it starts");
        let world = World::around(stage);
        world.east.ip(&["address", "add", &format!("{LATER}/32"), "dev", "t43v-east"]).expect("an address");
        world.all_serve(3, 2);
        let flows = world.flows();
        let later = format!("{text}[[group.route]]\nto = '203.0.113.0/24'\nvia = '198.51.100.2'\n");
        std::fs::write(world.stage.path(LATER_FILE), later).expect("written");
        world.ask(&["apply", LATER_FILE, "--run", "file"]);
        // So many flows are spread over all of them: a back end without the route would keep those that it has.
        let by_later = world.flows_to(LATER);
        all_resume(&by_later, "the route was applied");
        all_resume(&flows, "a route was applied");
        world.all_serve(3, 2);
        drop((flows, by_later));
        world.finish();
    }
}

mod long {
    use super::*;

    #[test]
    fn balancers_and_back_ends_of_the_example_are_killed_again_and_again() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let text = include_str!("../../examples/multistage-vm.toml");
        let text = text.replace("\"core\"", "\"duo\"").replace("rr-left", "t43v-west");
        let text = text.replace("rr-right", "t43v-east");
        // In new runs, as the pause before a start grows with each death.
        for _ in 0..10 {
            try_kills(&text, &["duo_lb0", "duo_0", "duo_1", "duo_lb1", "duo_2"], true);
        }
    }
}
