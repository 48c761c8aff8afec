//! Objective: what people use on a network works through a router, in both families: traceroute, mtr and tracepath across a step of
//! the MTU, the ndisc6 tools, a radvd beside it, iperf3 with large packets. Floods of neighbour discovery and of router
//! advertisements disturb no traffic, and of two stations with one address the later one notices.

use std::net::Ipv6Addr;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use support::{Counters, Namespace, PacketSocket, Running, Stage, checksum, needs, ping, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(100);
/// The router's addresses on the left, and the host on the right.
const ROUTER: [&str; 2] = ["192.0.2.1", "2001:db8:1::1"];
const RIGHT: [&str; 2] = ["198.51.100.2", "2001:db8:2::2"];
/// Options of the tools for each family.
const FAMILY: [&str; 2] = ["-4", "-6"];
const ROUTER_MAC: &str = "02:00:00:00:51:01";
/// Frames of a flood.
const FLOOD: u64 = 10_000;

/// A router between two hosts.
struct World {
    stage: Stage,
    left: Namespace,
    right: Namespace,
}

impl World {
    fn start(engine: &str, right_mtu: usize) -> Self {
        let nic = |name: &str, mtu: usize, address: &str, more: &str| {
            format!(
                "[[router.nic]]\nname = \"{name}\"\nattach = \"tap:t53-{name}\"\nmtu = {mtu}\naddress = [{address}]\n{more}"
            )
        };
        let more = format!("mac = \"{ROUTER_MAC}\"\n[router.nic.ra]\ninterval = 30\n");
        let text = format!("[[router]]\nname = \"t53\"\nengine = \"{engine}\"\n")
            + &nic("left", 9000, "\"192.0.2.1/24\", \"2001:db8:1::1/64\"", &more)
            + &nic("right", right_mtu, "\"198.51.100.1/24\", \"2001:db8:2::1/64\"", "");
        let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
        let left = stage.host("t53-left", "192.0.2.2/24", "192.0.2.1").expect("left");
        let right = stage.host("t53-right", "198.51.100.2/24", "198.51.100.1").expect("right");
        left.add_six("t53-left", "2001:db8:1::2/64", "2001:db8:1::1").expect("IPv6");
        right.add_six("t53-right", "2001:db8:2::2/64", "2001:db8:2::1").expect("IPv6");
        let world = Self { stage, left, right };
        world.wait_for_the_router();
        world
    }

    /// Waits until a ping of each family is answered: the router uses IPv6 addresses only when it knows that nobody else does.
    fn wait_for_the_router(&self) {
        for address in RIGHT {
            let words = ["busybox", "ping", "-c", "1", "-W", "1", address];
            says(&self.left, &words, |said| said.contains(" 0% packet loss"));
        }
    }

    fn silence(&self) {
        [&self.left, &self.right].iter().for_each(|host| host.silence_six().expect("it is silent"));
    }

    /// Ends the run, whose ledger must add up.
    fn finish(self) {
        self.silence();
        let Self { stage, left, right } = self;
        let counters = stage.finish(vec![left, right]).expect("nothing is left");
        assert_eq!(counters.faults("t53"), [""; 0]);
    }

    /// Sends frames from the left until enough have arrived, while hosts reach each other, also after the last frame. A ping may be
    /// lost in the queue of the TAP, which the flood fills, and is repeated then.
    fn flood(&self, frame: impl Fn(u32) -> Vec<u8> + Sync) {
        let socket = PacketSocket::open(&self.left, "t53-left").expect("a socket");
        let (is_over, wanted) = (AtomicBool::new(false), self.arrived() + FLOOD);
        thread::scope(|scope| {
            let _end = Raised(&is_over);
            scope.spawn(|| {
                let numbers = (0..).take_while(|_| !is_over.load(Relaxed));
                numbers.for_each(|number| socket.send(&frame(number)).expect("sent"));
            });
            while self.arrived() < wanted {
                self.wait_for_the_router();
            }
        });
        self.wait_for_the_router();
    }

    /// Frames that have arrived from the left.
    fn arrived(&self) -> u64 {
        self.stage.wait_for_counters(|_| true).expect("counters").get("t53.left.rx.frames")
    }
}

/// Raises a flag when it is dropped, also by a test that fails.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs a program in a host until its output is as wanted; returns the output.
fn says(host: &Namespace, words: &[&str], wanted: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let done = run(host.command(words[0]).args(&words[1..]), PATIENCE).expect("it ends");
        if wanted(&done.stdout) {
            return done.stdout;
        }
        assert!(Instant::now() < end, "{words:?}: {} {}", done.stdout, done.stderr);
        thread::sleep(LOOK);
    }
}

/// Returns true if a line of a tool names this hop and this address.
fn has_hop(said: &str, hop: u32, address: &str) -> bool {
    said.lines().any(|line| {
        let number = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        let is_it = line.trim_start().strip_suffix(number) == Some(hop.to_string().as_str());
        is_it && line.split_whitespace().any(|word| word == address)
    })
}

/// Checks that a tool finds the router and the host behind it, in both families.
fn finds_the_way(world: &World, words: &[&str]) {
    for (at, family) in FAMILY.into_iter().enumerate() {
        let all: Vec<&str> = words.iter().copied().chain([family, RIGHT[at]]).collect();
        says(&world.left, &all, |said| has_hop(said, 1, ROUTER[at]) && has_hop(said, 2, RIGHT[at]));
    }
}

fn paths_are_traced(engine: &str) {
    let world = World::start(engine, 1500);
    finds_the_way(&world, &["traceroute", "-n", "-q", "1", "-N", "1"]);
    finds_the_way(&world, &["mtr", "-n", "-r", "-c", "2", "-G", "1"]);
    for (family, address) in FAMILY.into_iter().zip(RIGHT) {
        let words = ["tracepath", "-n", family, address];
        says(&world.left, &words, |said| {
            let steps = ["pmtu 9000", "pmtu 1500", "reached", "Resume: pmtu 1500 hops 2"];
            steps.iter().all(|step| said.contains(step))
        });
    }
    world.finish();
}

#[test]
fn paths_are_traced_through_a_process() {
    needs!(Root, Tun, Program("ip"), Program("busybox"), Program("traceroute"));
    needs!(Program("mtr"), Program("tracepath"));
    paths_are_traced("process");
}

#[test]
fn hosts_are_told_of_a_router_that_is_stopped() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    let World { stage, left, right } = World::start("process", 1500);
    let watch = PacketSocket::open(&left, "t53-left").expect("a socket");
    let done = run(Command::new(RINGROAD).args(["stop", "t53"]), PATIENCE).expect("it ends");
    assert!(done.stdout.contains("router t53 is stopped"), "{} {}", done.stdout, done.stderr);
    let mac = [2, 0, 0, 0, 0x51, 1];
    let is_last = |frame: &[u8]| {
        // A router advertisement, in which the router is no default router (RFC 4861, 4.2).
        let advertises = frame.len() > 62 && frame[12..14] == [0x86, 0xdd] && frame[54] == 134;
        advertises && frame[6..12] == mac && frame[60..62] == [0, 0]
    };
    assert!(watch.find(PATIENCE, is_last).is_some(), "it says that it goes");
    stage.finish_troubled(vec![left, right]).expect("nothing is left");
}

/// An ICMPv6 message in a frame, with a right checksum.
fn icmp6(macs: [[u8; 6]; 2], source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let length = message.len() as u16;
    let ends = [source.octets(), destination.octets()].concat();
    let pseudo = [&ends[..], &u32::from(length).to_be_bytes(), &[0, 0, 0, 58]].concat();
    let mut message = message.to_vec();
    let sum = checksum(&[&pseudo, &message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let [to, from] = macs;
    let ethernet = [&to[..], &from, &[0x86, 0xdd]].concat();
    let header = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[58, 255], &ends].concat();
    [ethernet, header, message].concat()
}

fn station(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    [2, 0x51, a, b, c, d]
}

/// A solicitation for the router's address, each from another station.
fn solicitation(number: u32) -> Vec<u8> {
    let source = Ipv6Addr::from_bits(0x2001_0db8_0001_0000 << 64 | 0x5100_0000 | u128::from(number));
    let router: Ipv6Addr = ROUTER[1].parse().expect("an address");
    let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &router.octets(), &[1, 1], &station(number)].concat();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    icmp6([[0x33, 0x33, 0xff, 0, 0, 1], station(number)], source, group, &message)
}

/// An advertisement of a router that does not exist, each with a prefix of its own.
fn advertisement(number: u32) -> Vec<u8> {
    let source = Ipv6Addr::from_bits(0xfe80 << 112 | 0x5100_0000 | u128::from(number));
    let prefix = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64);
    let head = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    let option = [3, 4, 64, 0xc0, 0, 0, 7, 8, 0, 0, 7, 8, 0, 0, 0, 0];
    let message = [&head[..], &option, &prefix.octets()].concat();
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    icmp6([[0x33, 0x33, 0, 0, 0, 1], station(number)], source, all, &message)
}

fn floods_disturb_nobody(engine: &str) {
    let world = World::start(engine, 1500);
    world.flood(solicitation);
    world.flood(advertisement);
    world.silence();
    let World { stage, left, right } = world;
    let done = stage.finish_troubled(vec![left, right]).expect("nothing is left");
    let is_full = |line: &str| line.contains("notice: the neighbour table has no room");
    assert!(done.stderr.lines().all(is_full), "{}", done.stderr);
    let counters = Counters::of(done.stdout.lines()).expect("counters");
    assert_eq!(counters.faults("t53"), [""; 0]);
}

#[test]
fn floods_disturb_nobody_behind_a_process() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    floods_disturb_nobody("process");
}

fn large_packets_in_streams(engine: &str) {
    let world = World::start(engine, 9000);
    let mut server =
        Running::start(world.right.command("iperf3").args(["-s", "--forceflush"])).expect("it starts");
    server.wait_for_line(PATIENCE, |line| line.contains("Server listening")).expect("it listens");
    for address in RIGHT {
        for direction in [&[][..], &["-R"]] {
            let words = [&["iperf3", "-c", address, "-n", "30M", "--forceflush"][..], direction].concat();
            says(&world.left, &words, |said| said.contains("iperf Done"));
        }
    }
    drop(server);
    let large = |all: &support::Counters| {
        ["left", "right"]
            .iter()
            .all(|nic| ["rx", "tx"].iter().all(|way| all.get(&format!("t53.{nic}.{way}.left_segments")) > 0))
    };
    world.stage.wait_for_counters(large).expect("large packets pass as they are");
    world.finish();
}

#[test]
fn large_packets_in_streams_through_a_process() {
    needs!(Root, Tun, Program("ip"), Program("busybox"), Program("iperf3"));
    large_packets_in_streams("process");
}

mod all {
    use super::*;

    #[test]
    fn of_two_stations_with_one_address_the_later_one_notices() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let world = World::start("process", 1500);
        let own = format!("{}/64", ROUTER[1]);
        let own = own.as_str();
        let address = |words: &[&str]| {
            let words = [&["address"][..], words, &[own, "dev", "t53-left"]].concat();
            world.left.ip(&words).expect("it is done");
        };
        // The router was first. The host asks until a router on a busy host objects, instead of only once.
        world.left.set("net.ipv6.conf.t53-left.dad_transmits", "60").expect("a parameter");
        address(&["add"]);
        says(&world.left, &["ip", "-6", "-o", "address", "show", "dev", "t53-left"], |said| {
            said.contains("dadfailed")
        });
        address(&["del"]);
        // The host was first: the router does not use the address, but forwards IPv4 and answers at others.
        let words = ["address", "add", own, "dev", "t53-left", "nodad"];
        world.left.ip(&words).expect("it is done");
        let restart = || {
            let done = run(world.stage.home().command(RINGROAD).args(["restart", "t53"]), PATIENCE);
            let done = done.expect("an answer");
            assert!(done.status.success(), "{}", done.stderr);
        };
        restart();
        let has_noticed = |all: &support::Counters| all.sum(|name| name.ends_with(".nd_conflicts")) > 0;
        world.stage.wait_for_counters(has_noticed).expect("a conflict");
        ping(world.left.command("busybox"), 1, &[RIGHT[0]]).expect("it answers");
        address(&["del"]);
        restart();
        world.wait_for_the_router();
        world.silence();
        let World { stage, left, right } = world;
        stage.finish_troubled(vec![left, right]).expect("nothing is left");
    }

    #[test]
    fn neighbours_and_routers_are_found_and_another_router_is_no_trouble() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("ndisc6"), Program("rdisc6"));
        needs!(Program("radvd"));
        let world = World::start("process", 1500);
        says(&world.left, &["ndisc6", "-1", ROUTER[1], "t53-left"], |said| {
            said.to_ascii_lowercase().contains(ROUTER_MAC)
        });
        says(&world.left, &["rdisc6", "-1", "t53-left"], |said| said.contains("2001:db8:1::/64"));
        // A host on the right claims to be a router, too.
        let file = world.stage.path("radvd.conf");
        let text = "interface t53-right {\n AdvSendAdvert on;\n MinRtrAdvInterval 3;\n MaxRtrAdvInterval 4;\n\
                    prefix 2001:db8:51::/64 { };\n};\n";
        std::fs::write(&file, text).expect("written");
        world.right.set("net.ipv6.conf.all.forwarding", "1").expect("a router");
        let watch = PacketSocket::open(&world.right, "t53-right").expect("a socket");
        let mut command = world.right.command("radvd");
        command.args(["-n", "-m", "stderr", "-C"]).arg(&file).arg("-p").arg(world.stage.path("radvd.pid"));
        let radvd = Running::start(&mut command).expect("it starts");
        let is_advertisement =
            |frame: &[u8]| frame.len() > 54 && frame[12..14] == [0x86, 0xdd] && frame[54] == 134;
        for _ in 0..2 {
            assert!(watch.find(PATIENCE, is_advertisement).is_some(), "radvd advertises");
            for address in RIGHT {
                ping(world.left.command("busybox"), 1, &[address]).expect("it answers");
            }
        }
        drop(radvd);
        world.finish();
    }

    #[test]
    fn paths_are_traced_through_a_virtual_machine() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("traceroute"));
        needs!(Program("mtr"), Program("tracepath"));
        paths_are_traced("kvm");
    }

    #[test]
    fn floods_disturb_nobody_behind_a_virtual_machine() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        floods_disturb_nobody("kvm");
    }

    #[test]
    fn large_packets_in_streams_through_a_virtual_machine() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("iperf3"));
        large_packets_in_streams("kvm");
    }
}
