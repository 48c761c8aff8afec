//! Objective: the members of a group have one route table and one neighbour table, in memory that they cannot write. Three members
//! forward by 16,000 routes that exist once; a neighbour that all of them need is asked for in their place; routes change under way for
//! all; a member that is killed comes back to the same tables, and those outlive the data plane, with what a control plane has found. All
//! avoid a gateway that does not answer, and a table that is full is replaced by a larger one.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use support::{Flow, Namespace, Stage, run};

use crate::verbs::said_at;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const MEMBERS: [&str; 3] = ["trio_0", "trio_1", "trio_2"];
/// As many as a file that is handed over by `apply` has room for.
const ROUTES: u32 = 8000;
/// A host that says nothing before it is asked.
const SILENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 77);
/// A host behind the last route.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 31, 63, 9);
/// A host behind a route that comes later.
const LATER: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 9);
const PORT: u16 = 7242;
/// Flows that are spread over members: with so many no member is without any, but once in millions of runs.
const FLOWS: u16 = 40;
/// Datagrams a second of each.
const RATE: u32 = 50;

/// The file, with further routes to these networks.
fn file(engine: &str, more: &[&str]) -> String {
    let network = |number: u32| format!("10.{}.{}.0/24", number >> 8, number & 255);
    text(engine, "", (0..ROUTES).map(network).chain(more.iter().map(|more| (*more).to_owned())))
}

/// The file, with these keys of the group, and routes to these networks.
fn text(engine: &str, keys: &str, networks: impl Iterator<Item = String>) -> String {
    let routes: String = networks.map(|to| format!("{{to='{to}',via='198.51.100.2'}},")).collect();
    format!(
        "[[group]]\nname = 'trio'\nkind = 'parallel'\nmembers = 3\nengine = '{engine}'\n{keys}route = [{routes}]\n\
         [[group.nic]]\nname = 'west'\nattach = 'tap:t51-west'\naddress = '192.0.2.1/24'\nqueue_len = 4096\n\
         [[group.nic]]\nname = 'east'\nattach = 'tap:t51-east'\naddress = '198.51.100.1/24'\nqueue_len = 4096\n"
    )
}

/// A running group with a host at either end.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start(text: &str) -> Self {
        let mut stage = Stage::start(RINGROAD, text).expect("it starts");
        let west = stage.host("t51-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t51-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        for address in [SILENT, FAR, LATER] {
            east.ip(&["address", "add", &format!("{address}/32"), "dev", "t51-east"]).expect("an address");
        }
        Self { stage, west, east }
    }

    fn ask(&self, words: &[&str]) -> String {
        said_at(&self.stage, words)
    }

    fn told(&self, words: &[&str]) -> serde_json::Value {
        serde_json::from_str(self.ask(words).trim()).expect("JSON")
    }

    /// Waits until all members serve.
    fn all_serve(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.told(&["ps", "--json", "--members"]);
            let routers = status["routers"].as_array().expect("routers");
            let serves = |router: &&serde_json::Value| {
                router["member"].as_str().is_some_and(|state| state.starts_with("serving"))
            };
            if routers.iter().filter(serves).count() == MEMBERS.len() {
                return;
            }
            assert!(Instant::now() < end, "{status} {}", self.ask(&["events", "--json"]));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process of a member, which is named while the data plane answers.
    fn pid(&self, member: &str) -> u64 {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.told(&["ps", "--json", "--members"]);
            let routers = status["routers"].as_array().expect("routers");
            let own = routers.iter().find(|router| router["name"] == member).expect("it is there");
            if let Some(pid) = own["pid"].as_u64() {
                return pid;
            }
            assert!(Instant::now() < end, "{member} has no process: {own}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The rights and the inode of each mapping of shared memory of this name in the process of each member.
    fn mapped(&self, name: &str) -> Vec<(String, String)> {
        let of = |member: &&str| {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid(member))).expect("its maps");
            let own = maps.lines().filter(|line| line.contains(&format!("/memfd:{name}")));
            let parts = own.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
            parts.map(|parts| (parts[1].clone(), parts[4].clone())).collect::<Vec<_>>()
        };
        MEMBERS.iter().flat_map(of).collect()
    }

    /// Waits until the run has told this.
    fn hears(&mut self, line: &str) {
        self.stage.run().wait_for_line(PATIENCE, |told| told.contains(line)).expect("it is told");
    }

    fn flows(&self, to: Ipv4Addr) -> Vec<Flow> {
        let start = |n| Flow::start(&self.west, &self.east, SocketAddr::new(to.into(), PORT + n), RATE);
        (0..FLOWS).map(|n| start(n).expect("a flow")).collect()
    }

    fn count(&self, counter: &str) -> u64 {
        self.stage.wait_for_counters(|_| true).expect("counters").get(counter)
    }

    /// Waits until each member has forwarded some frames more.
    fn all_forward(&self) {
        let passed = |counters: &support::Counters| {
            MEMBERS.map(|member| counters.get(&format!("{member}.east.group.passed")))
        };
        let before = passed(&self.stage.wait_for_counters(|_| true).expect("counters"));
        let more = |counters: &support::Counters| {
            passed(counters).iter().zip(before).all(|(now, before)| *now > before + 50)
        };
        self.stage.wait_for_counters(more).expect("all members forward");
    }

    fn finish(self) -> String {
        self.stage.finish_troubled(vec![self.west, self.east]).expect("nothing is left").stderr
    }
}

fn kill(pid: u64) {
    let done = run(std::process::Command::new("kill").args(["-9", &pid.to_string()]), PATIENCE);
    assert!(done.expect("kill runs").status.success());
}

fn all_resume(flows: &[Flow], what: &str) {
    for (n, flow) in flows.iter().enumerate() {
        assert!(flow.resumes(PATIENCE).is_some(), "flow {n} after {what}: {:?}", flow.so_far());
    }
}

/// There is one table of each kind, which no member can write.
fn one_of_each(world: &World) {
    for name in ["ringroad-fib", "ringroad-neighbours"] {
        let mapped = world.mapped(name);
        let inodes: BTreeSet<&String> = mapped.iter().map(|(_, inode)| inode).collect();
        assert_eq!((inodes.len(), mapped.len() >= MEMBERS.len()), (1, true), "{name}: {mapped:?}");
        assert!(mapped.iter().all(|(rights, _)| rights == "r--s"), "{name}: {mapped:?}");
    }
    let desks: BTreeSet<String> = world.mapped("ringroad-desk").into_iter().map(|(_, inode)| inode).collect();
    assert_eq!(desks.len(), MEMBERS.len(), "each has a desk of its own");
}

fn try_three(engine: &str) {
    let world = World::start(&file(engine, &[]));
    world.all_serve();
    one_of_each(&world);
    let shown = world.told(&["show", "trio", "--json"]);
    let value = |key: &str| shown["settings"][key].as_u64().unwrap_or_else(|| panic!("{key}"));
    // With two networks, two own addresses, and three routes for probes.
    assert_eq!(value("tables.routes"), u64::from(ROUTES) + 7);
    assert_eq!(value("tables.octets_saved"), 2 * value("tables.octets"));
    assert!(value("tables.octets") >= 4 * u64::from(ROUTES), "an entry has four octets");
    let (since, asked) = (Instant::now(), world.count("trio.east.group.arp_asked"));
    let silent = world.flows(SILENT);
    world.all_forward();
    let (asked, questions) =
        (world.count("trio.east.group.arp_asked") - asked, world.count("trio.group.questions"));
    assert!(questions > 0, "members ask the host");
    // Once for all members; again only where the answer takes more than 100 ms. Two neighbours that age are asked at most three times
    // each in 30 s.
    let most = 10 + since.elapsed().as_secs();
    assert!((1..=most).contains(&asked), "{asked} questions on the wire, at most {most}");
    let far = world.flows(FAR);
    world.all_forward();
    kill(world.pid("trio_1"));
    all_resume(&silent, "a member was killed");
    all_resume(&far, "a member was killed");
    world.all_serve();
    one_of_each(&world);
    drop((silent, far));
    world.finish();
}

/// What is found in the namespace of the group's control plane is in the one table.
fn try_learned(engine: &str) {
    let world = World::start(&text(engine, "control = {}\n", std::iter::empty()));
    world.all_serve();
    one_of_each(&world);
    let inode = || world.mapped("ringroad-fib").first().map(|(_, inode)| inode.clone());
    let before = inode();
    let routes = || {
        let shown = world.told(&["show", "trio", "--json"]);
        shown["settings"]["tables.routes"].as_u64().expect("a number")
    };
    let wait_for = |count: u64| {
        let end = Instant::now() + PATIENCE;
        while routes() != count {
            assert!(Instant::now() < end, "{} routes, not {count}", routes());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // Two networks, two own addresses, and three routes for probes.
    wait_for(7);
    let change = |what: &str| {
        world.ask(&["exec", "trio", "--", "ip", "route", what, "10.31.63.0/24", "via", "198.51.100.2"]);
    };
    change("add");
    wait_for(8);
    let flows = world.flows(FAR);
    world.all_forward();
    kill(world.told(&["ps", "--json"])["data_plane"].as_u64().expect("a data plane"));
    all_resume(&flows, "the data plane was killed");
    world.all_serve();
    kill(world.pid("trio_1"));
    all_resume(&flows, "a member was killed");
    world.all_serve();
    one_of_each(&world);
    assert_eq!((inode(), routes()), (before, 8), "nothing was written anew");
    drop(flows);
    change("delete");
    wait_for(7);
    world.finish();
}

mod all {
    use super::*;

    #[test]
    fn three_virtual_machines_have_one_table_of_each_kind() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_three("kvm");
    }

    #[test]
    fn three_processes_have_one_table_of_each_kind() {
        support::needs!(Root, Tun, Program("ip"));
        try_three("process");
    }

    #[test]
    fn virtual_machines_have_what_a_control_plane_finds_in_the_one_table() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_learned("kvm");
    }

    #[test]
    fn processes_have_what_a_control_plane_finds_in_the_one_table() {
        support::needs!(Root, Tun, Program("ip"));
        try_learned("process");
    }

    /// Members have no list of the routes that they read.
    #[test]
    fn a_trace_of_a_group_names_the_route_that_its_members_took() {
        support::needs!(Root, Tun, Program("ip"));
        let world = World::start(&text("process", "", std::iter::once("10.31.63.0/24".to_owned())));
        world.all_serve();
        let flows = world.flows(FAR);
        world.all_forward();
        let port = PORT.to_string();
        let told =
            world.ask(&["trace", "trio.west", "--count", "1", "--seconds", "50", "--json", "--port", &port]);
        let first = told.lines().next().expect("a packet");
        let left = serde_json::from_str::<serde_json::Value>(first).expect("JSON")["fate"]["left"].clone();
        assert!(left["route"] == "10.31.63.0/24" && left["via"] == "198.51.100.2", "{told}");
        drop(flows);
        world.finish();
    }

    #[test]
    fn the_tables_outlive_the_data_plane_and_routes_change_for_all_members() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let world = World::start(&file("kvm", &[]));
        world.all_serve();
        let before = world.mapped("ringroad-fib");
        let flows = world.flows(FAR);
        kill(world.told(&["ps", "--json"])["data_plane"].as_u64().expect("a data plane"));
        all_resume(&flows, "the data plane was killed");
        world.all_serve();
        assert_eq!(world.mapped("ringroad-fib"), before, "members read what they read before");
        std::fs::write(world.stage.path("later.toml"), file("kvm", &["11.0.0.0/24"])).expect("written");
        let told = world.ask(&["apply", "later.toml", "--run", "file"]);
        assert!(told.contains("group trio: 1 routes added or turned, 0 removed"), "{told}");
        let by_later = world.flows(LATER);
        world.all_forward();
        assert_eq!(world.mapped("ringroad-fib"), before);
        all_resume(&flows, "routes have changed");
        drop((flows, by_later));
        world.finish();
    }

    #[test]
    fn members_avoid_a_gateway_that_does_not_answer_until_it_does() {
        support::needs!(Root, Tun, Program("ip"));
        let by_one = text("process", "", std::iter::once("10.31.63.0/24".to_owned()));
        let by_two = by_one.replace("via='198.51.100.2'", "via=['198.51.100.2','198.51.100.3']");
        let mut world = World::start(&by_two);
        world.all_serve();
        one_of_each(&world);
        // The second gateway is not there yet.
        world.hears("group trio: next hop 198.51.100.3 behind east is not reached");
        let flows = world.flows(FAR);
        world.all_forward();
        // The next data plane does not know of it at first, which changes nothing.
        kill(world.told(&["ps", "--json"])["data_plane"].as_u64().expect("a data plane"));
        all_resume(&flows, "the data plane was killed");
        world.all_serve();
        world.all_forward();
        let told = world.stage.run().stderr_lines(0);
        assert!(
            told.iter().all(|line| !line.contains("198.51.100.3 behind east is reached again")),
            "{told:?}"
        );
        world.east.ip(&["address", "add", "198.51.100.3/32", "dev", "t51-east"]).expect("an address");
        world.hears("group trio: next hop 198.51.100.3 behind east is reached again");
        all_resume(&flows, "the second gateway has come");
        world.all_forward();
        drop(flows);
        world.finish();
    }

    #[test]
    fn a_table_without_room_refuses_routes_and_a_larger_one_takes_its_place() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let to_far = || std::iter::once("10.31.63.0/24".to_owned());
        // More networks of /24 with longer prefixes than a table has room for that ends with a page of 2 MiB.
        let long = || (0..600).map(|number| format!("12.{}.{}.0/25", number >> 8, number & 255));
        let networks = || to_far().chain(long()).chain(["11.0.0.0/25".to_owned()]);
        let world = World::start(&text("kvm", "long_routes = 0\n", to_far()));
        world.all_serve();
        let (flows, before) = (world.flows(FAR), world.mapped("ringroad-fib"));
        let write = |text: String| std::fs::write(world.stage.path("later.toml"), text).expect("written");
        write(text("kvm", "long_routes = 0\n", networks()));
        let mut command = world.stage.home().command(RINGROAD);
        command.current_dir(world.stage.path("")).args(["apply", "later.toml", "--run", "file"]);
        let done = run(&mut command, PATIENCE).expect("it ends");
        let why = &done.stderr;
        assert!(!done.status.success() && why.contains("write a larger number for long_routes"), "{done:?}");
        assert_eq!(world.mapped("ringroad-fib"), before, "nothing has changed");
        write(text("kvm", "long_routes = 2000\n", networks()));
        world.ask(&["apply", "later.toml", "--run", "file"]);
        world.all_serve();
        let end = Instant::now() + PATIENCE;
        while world.mapped("ringroad-fib").iter().any(|mapping| before.contains(mapping)) {
            assert!(Instant::now() < end, "a member reads the table that had no room");
            std::thread::sleep(Duration::from_millis(20));
        }
        let by_later = world.flows(LATER);
        world.all_forward();
        all_resume(&flows, "members have a larger table");
        drop((flows, by_later));
        world.finish();
    }
}
