//! Objective: a group speaks IPv6 as one router. Flows and streams pass all members, a solicitation is answered once, one member
//! advertises the router, which hosts use by its link-local address; of two stations with one address the later one notices; members are
//! restarted while flows pass. With members side by side, and behind balancers of both kinds; kernel routers, and one on another host.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use support::{
    Counters, Flow, Namespace, PacketSocket, Running, Signal, Stage, checksum, needs, ping, run, transfer,
};

use crate::verbs::said_at;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(100);
/// Time in which a second answer would have come.
const QUIET: Duration = Duration::from_millis(500);
const WEST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
const EAST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);
/// The group's address and its Ethernet address on the west side, from which its link-local address is derived.
const OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const OWN_MAC: &str = "02:00:00:00:43:01";
const NEAR: &str = "fe80::ff:fe00:4301";
const PORT: u16 = 7143;
/// Flows that are spread over members: with so many no member is without any, but once in millions of runs.
const FLOWS: u16 = 24;
/// Datagrams a second of each.
const RATE: u32 = 100;
const OCTETS: usize = 2_000_000;
const PARALLEL: &str = "kind = 'parallel'\nmembers = 2\n";

fn file(kind: &str) -> String {
    let nic = |side: &str, four: &str, six: &str| {
        format!(
            "[[group.nic]]\nname = '{side}'\nattach = 'tap:t43s-{side}'\nqueue_len = 4096\n\
             address = ['{four}.1/24', '{six}::1/64']\n"
        )
    };
    format!("[[group]]\nname = 'duo'\nengine = 'process'\n{kind}")
        + &nic("west", "192.0.2", "2001:db8:1")
        + &format!("mac = '{OWN_MAC}'\n[group.nic.ra]\ninterval = 30\n")
        + &nic("east", "198.51.100", "2001:db8:2")
}

/// A group with a host at either end.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start(kind: &str) -> Self {
        Self::around(Stage::start(RINGROAD, &file(kind)).expect("it starts"))
    }

    /// Has hosts at its TAPs, and waits until the group forwards between them.
    fn around(mut stage: Stage) -> Self {
        let mut host = |side: &str, four: &str, six: &str| {
            let tap = format!("t43s-{side}");
            let host = stage.host(&tap, &format!("{four}.2/24"), &format!("{four}.1")).expect("a host");
            host.add_six(&tap, &format!("{six}::2/64"), &format!("{six}::1")).expect("IPv6");
            host
        };
        let west = host("west", "192.0.2", "2001:db8:1");
        let east = host("east", "198.51.100", "2001:db8:2");
        let world = Self { stage, west, east };
        let east = EAST.to_string();
        let words = ["busybox", "ping", "-c", "1", "-W", "1", east.as_str()];
        world.says(&words, |said| said.contains(" 0% packet loss"));
        world
    }

    /// Runs a program in the western host until its output is as wanted.
    fn says(&self, words: &[&str], wanted: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let done = run(self.west.command(words[0]).args(&words[1..]), PATIENCE).expect("it ends");
            if wanted(&done.stdout) {
                return;
            }
            assert!(Instant::now() < end, "{words:?}: {} {}", done.stdout, done.stderr);
            thread::sleep(LOOK);
        }
    }

    /// Waits until the group's address has been tried: until then the group gives it up if somebody else claims it (RFC 4862, 5.4.3),
    /// and its answers do not override what others know.
    fn has_tried_its_address(&self) {
        const OVERRIDE: u8 = 0x20;
        let socket = PacketSocket::open(&self.west, "t43s-west").expect("a socket");
        let overrides = |frame: &[u8]| frame.len() > 58 && frame[54] == 136 && frame[58] & OVERRIDE != 0;
        let end = Instant::now() + PATIENCE;
        loop {
            socket.send(&solicitation(9)).expect("sent");
            if socket.find(LOOK, overrides).is_some() {
                return;
            }
            assert!(Instant::now() < end, "the group's address is not its own");
        }
    }

    fn pings(&self, address: Ipv6Addr, ttl: u8) {
        let address = address.to_string();
        let said = ping(self.west.command("busybox"), 2, &[address.as_str()]).expect("answers");
        assert_eq!(said.matches(&format!("ttl={ttl} ")).count(), 2, "{said}");
    }

    fn flows(&self) -> Vec<Flow> {
        let to = |n| SocketAddr::new(IpAddr::V6(EAST), PORT + n);
        (0..FLOWS).map(|n| Flow::start(&self.west, &self.east, to(n), RATE).expect("a flow")).collect()
    }

    fn stream_both_ways(&self) {
        for (from, to, address) in [(&self.west, &self.east, EAST), (&self.east, &self.west, WEST)] {
            transfer(from, to, SocketAddr::new(IpAddr::V6(address), PORT - 1), OCTETS, PATIENCE);
        }
    }

    fn counters(&self) -> Counters {
        self.stage.wait_for_counters(|_| true).expect("counters")
    }

    fn finish(self) {
        let Self { stage, west, east } = self;
        [&west, &east].iter().for_each(|host| host.silence_six().expect("it is silent"));
        stage.finish_troubled(vec![west, east]).expect("nothing is left");
    }
}

fn all_resume(flows: &[Flow]) {
    for (n, flow) in flows.iter().enumerate() {
        assert!(flow.resumes(PATIENCE).is_some(), "flow {n} does not go on: {:?}", flow.so_far());
    }
}

fn members_are_one_router(kind: &str) {
    let world = World::start(kind);
    world.pings(OWN, 64);
    world.pings(EAST, 63);
    let flows = world.flows();
    // Without probes, which do not leave the host.
    let both = |all: &Counters| (0..2).all(|n| all.get(&format!("duo_{n}.east.group.passed")) > 300);
    world.stage.wait_for_counters(both).expect("both forward");
    world.stream_both_ways();
    let counters = world.counters();
    assert!(counters.get("duo.west.group.nd_answered") > 0, "somebody has asked for the group");
    // By both members together, what it takes to know the addresses of a host, and to try two own ones.
    let asked = counters.get("duo.east.group.nd_asked");
    assert!((1..=50).contains(&asked), "{asked} questions");
    let told = said_at(&world.stage, &["restart", "duo"]);
    assert!(told.contains("were started anew"), "{told}");
    all_resume(&flows);
    world.pings(OWN, 64);
    assert_eq!(world.counters().sum(|name| name.ends_with(".nd_conflicts")), 0);
    drop(flows);
    world.finish();
}

#[test]
fn two_members_side_by_side_are_one_router() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    members_are_one_router(PARALLEL);
}

/// A solicitation for the group's address by a station of this number.
fn solicitation(station: u8) -> Vec<u8> {
    let mac = [2, 0, 0, 0, 0x44, station];
    let source = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0x44, station.into());
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    let mut message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &OWN.octets(), &[1, 1], &mac].concat();
    let length = (message.len() as u16).to_be_bytes();
    let ends = [source.octets(), group.octets()].concat();
    let sum = checksum(&[&ends, &[0, 0], &length, &[0, 0, 0, 58], &message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ethernet = [&[0x33, 0x33, 0xff, 0, 0, 1][..], &mac, &[0x86, 0xdd]].concat();
    [&ethernet[..], &[0x60, 0, 0, 0], &length, &[58, 255], &ends, &message].concat()
}

#[test]
fn each_solicitation_is_answered_once() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    let world = World::start(PARALLEL);
    solicitations_are_answered_once(&world);
    world.finish();
}

fn solicitations_are_answered_once(world: &World) {
    let socket = PacketSocket::open(&world.west, "t43s-west").expect("a socket");
    // In different queues of the link, some of each member.
    for station in 1..=8 {
        let to = [2, 0, 0, 0, 0x44, station];
        let answers = |frame: &[u8]| frame.len() > 54 && frame[..6] == to && frame[54] == 136;
        socket.send(&solicitation(station)).expect("sent");
        assert!(socket.find(PATIENCE, answers).is_some(), "station {station} is not answered");
        assert!(socket.find(QUIET, answers).is_none(), "station {station} is answered twice");
    }
}

/// Returns true for a router advertisement by which hosts have no default router any more (RFC 4861, 4.2 and 6.2.5).
fn is_farewell(frame: &[u8]) -> bool {
    let advertises = frame.len() > 62 && frame[12..14] == [0x86, 0xdd] && frame[54] == 134;
    advertises && frame[60..62] == [0, 0]
}

fn hosts_use_what_is_advertised(kind: &str) {
    let world = World::start(kind);
    let by_itself = ["ip", "-6", "route", "show", "default", "proto", "ra"];
    world.says(&by_itself, |said| said.contains(&format!("via {NEAR} dev t43s-west")));
    let own = OWN.to_string();
    let words = ["-6", "route", "del", "default", "via", own.as_str()];
    world.west.ip(&words).expect("the other one is left");
    world.stream_both_ways();
    assert!(world.counters().get("duo.west.group.nd_advertised") > 0);
    let watch = PacketSocket::open(&world.west, "t43s-west").expect("a socket");
    let told = said_at(&world.stage, &["restart", "duo"]);
    assert!(told.contains("were started anew"), "{told}");
    said_at(&world.stage, &["stop", "duo_0"]);
    assert!(watch.find(QUIET, is_farewell).is_none(), "the group is still their router");
    world.finish();
}

mod all {
    use super::*;

    #[test]
    fn of_two_stations_with_one_address_the_later_one_notices() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let world = World::start(PARALLEL);
        let own = format!("{OWN}/64");
        let own = own.as_str();
        let address = |words: &[&str]| {
            let words = [&["address"][..], words, &[own, "dev", "t43s-west"]].concat();
            world.west.ip(&words).expect("it is done");
        };
        world.has_tried_its_address();
        // The host asks until members on a busy host object, instead of only once.
        world.west.set("net.ipv6.conf.t43s-west.dad_transmits", "60").expect("a parameter");
        address(&["add"]);
        let show = ["ip", "-6", "-o", "address", "show", "dev", "t43s-west"];
        world.says(&show, |said| said.contains("dadfailed"));
        address(&["del"]);
        world.pings(OWN, 64);
        world.finish();
    }

    #[test]
    fn hosts_use_the_router_that_one_member_advertises() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        hosts_use_what_is_advertised(PARALLEL);
    }

    /// Both ends of the cable between two hosts.
    const CABLE: &str = "t43s-u";
    const STAGES: &str = "kind = 'multistage'\nbackends = 2\nbalancers = 2\n";

    /// A cable to another host, which is returned.
    fn cable(home: &Namespace) -> anyhow::Result<Namespace> {
        let far = Namespace::add("t43s-far")?;
        let here = ["link", "add", CABLE, "mtu", "1600", "type", "veth"];
        home.ip(&[&here[..], &["peer", "name", CABLE, "netns", far.name()]].concat())?;
        for (host, own) in [(home, "10.43.0.1/24"), (&far, "10.43.0.2/24")] {
            host.set("net.ipv6.conf.default.disable_ipv6", "1")?;
            host.ip(&["address", "add", own, "dev", CABLE])?;
            host.ip(&["link", "set", CABLE, "mtu", "1600", "up"])?;
        }
        Ok(far)
    }

    #[test]
    fn a_back_end_behind_tunnels_and_one_here_are_one_router() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let tunnels = "tunnels = 'udp:10.43.0.1:4843-10.43.0.2:4843'\n";
        let text =
            file(&format!("{STAGES}balancer = 'vm'\n{tunnels}")).replace("backends = 2", "backends = 1");
        let text = text.replace("queue_len = 4096\n", "queue_len = 4096\noffload = false\n");
        let (stage, far) = Stage::start_after(RINGROAD, &text, &["--json"], cable).expect("it starts");
        let world = World::around(stage);
        let printed = said_at(&world.stage, &["check", "file.toml", "--remote", "duo_63"]);
        assert!(printed.contains(&format!("\"{NEAR}/64\"")), "{printed}");
        let far_file = printed.replacen("[[router]]", "[[router]]\nengine = 'process'", 1);
        std::fs::write(world.stage.path("far.toml"), far_file).expect("written");
        let mut command = far.command(RINGROAD);
        let state = world.stage.path("far-state");
        command.current_dir(world.stage.path("")).env("STATE_DIRECTORY", state).args(["run", "far.toml"]);
        let mut other = Running::start(&mut command).expect("it starts");
        let flows = world.flows();
        let here = |all: &Counters| all.get("duo_0.east.group.passed");
        let both = |all: &Counters| here(all) > 300 && all.get("duo_63.east.udp.read.frames") > 300;
        world.stage.wait_for_counters(both).expect("both forward");
        world.stream_both_ways();
        solicitations_are_answered_once(&world);
        // With the only one here stopped, all flows go by the other host.
        let watch = PacketSocket::open(&world.west, "t43s-west").expect("a socket");
        said_at(&world.stage, &["stop", "duo_0"]);
        all_resume(&flows);
        assert!(watch.find(QUIET, is_farewell).is_none(), "the group is still the router of hosts");
        world.pings(OWN, 64);
        world.pings(EAST, 63);
        let before = here(&world.counters());
        said_at(&world.stage, &["start", "duo_0"]);
        let again = |all: &Counters| here(all) > before + 300;
        let counters = world.stage.wait_for_counters(again).expect("it forwards again");
        assert_eq!(counters.sum(|name| name.ends_with(".nd_conflicts")), 0);
        assert!(counters.get("duo.east.group.nd_ignored") > 0, "the one here hears nothing of the other");
        other.signal(Signal::KILL).expect("killed");
        other.wait(PATIENCE).expect("it ends");
        all_resume(&flows);
        drop(flows);
        world.stage.home().ip(&["link", "delete", CABLE]).expect("deleted");
        drop(far);
        world.finish();
    }

    #[test]
    fn two_kernel_routers_behind_virtual_machines_are_one_router() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"));
        let text = file(&format!("{STAGES}balancer = 'vm'\n")).replace("'process'", "'kernel'");
        // A kernel router has no key of a machine's NIC, and in a group it advertises nothing.
        let text = text.replace("queue_len = 4096\n", "").replace("[group.nic.ra]\ninterval = 30\n", "");
        let started = Stage::start_with_names_after(RINGROAD, &text, &["--json"], |_| Ok(()));
        let world = World::around(started.expect("it starts").0);
        world.pings(OWN, 64);
        world.pings(EAST, 63);
        let flows = world.flows();
        let both = |all: &Counters| {
            (0..2).all(|n| all.get(&format!("switch.duo_west.duo_{n}.west.out_frames")) > 300)
        };
        world.stage.wait_for_counters(both).expect("both forward");
        world.stream_both_ways();
        solicitations_are_answered_once(&world);
        let counters = world.counters();
        // By both together, what it takes to know the addresses of a host, and to try two own ones.
        let asked = counters.get("duo.east.group.nd_asked");
        assert!((3..=50).contains(&asked), "{asked} questions");
        assert!(counters.get("duo.east.group.nd_kept") > 0, "the other one was answered by the group");
        said_at(&world.stage, &["set", "duo", "backends=1"]);
        all_resume(&flows);
        world.pings(OWN, 64);
        drop(flows);
        world.finish();
    }

    #[test]
    fn two_members_behind_balancers_are_one_router() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        members_are_one_router(STAGES);
    }

    #[test]
    fn two_members_behind_virtual_machines_are_one_router() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        members_are_one_router(&format!("{STAGES}balancer = 'vm'\n"));
    }

    #[test]
    fn hosts_use_the_router_that_a_member_behind_virtual_machines_advertises() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        hosts_use_what_is_advertised(&format!("{STAGES}balancer = 'vm'\n"));
    }
}
