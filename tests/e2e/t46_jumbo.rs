//! Objective: a router whose NICs have an MTU of 9216, the largest one, forwards packets of 9216 octets whole, in both families and
//! directions, and streams of them, with each engine and NIC model, and at each kind of attachment (here: those that no other test has
//! such frames at). Where the next link has an MTU of 1500, the sender is told so by ICMP and ICMPv6, and what it sends from then on
//! arrives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use support::{Namespace, PacketSocket, Signal, Stage, needs, ping, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for which an answer is awaited before the question is repeated.
const ANSWER: Duration = Duration::from_secs(1);
const JUMBO: usize = 9216;
const PLAIN: usize = 1500;
/// Octets of each TCP transfer.
const OCTETS: usize = 5_000_000;
/// Octets of a datagram that fits the first link and not the second.
const DATAGRAM: usize = 8000;
const PORT: u16 = 7046;
const LEFT: [&str; 2] = ["192.0.2.2", "2001:db8:1::2"];
const RIGHT: [&str; 2] = ["198.51.100.2", "2001:db8:2::2"];
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Offset in a frame of what follows the header of IPv4, and that of IPv6.
const BEHIND: [usize; 2] = [ETHERNET + 20, ETHERNET + 40];

/// Configuration of the router.
struct Way {
    engine: &'static str,
    model: &'static str,
    right_mtu: usize,
}

impl Way {
    fn file(&self) -> String {
        let nic = |name: &str, mtu: usize, address: &str| {
            format!(
                "[[router.nic]]\nname = \"{name}\"\nmodel = \"{}\"\nattach = \"tap:t46-{name}\"\n\
                 mtu = {mtu}\naddress = [{address}]\n",
                self.model
            )
        };
        format!("[[router]]\nname = \"t46\"\nengine = \"{}\"\n", self.engine)
            + &nic("left", JUMBO, "\"192.0.2.1/24\", \"2001:db8:1::1/64\"")
            + &nic("right", self.right_mtu, "\"198.51.100.1/24\", \"2001:db8:2::1/64\"")
    }
}

/// Waits until there is a result.
fn wait_for<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    support::until_some(PATIENCE, Duration::from_millis(10), what, found)
}

/// A host, and the link by which the router reaches it.
type Host<'h> = (&'h Namespace, &'h str);

/// A router between two hosts.
struct World {
    stage: Stage,
    left: Namespace,
    right: Namespace,
}

impl World {
    fn start(way: &Way) -> Self {
        Self::around(Stage::start(RINGROAD, &way.file()).expect("it starts"))
    }

    /// Puts a host behind each of the run's two TAPs, and waits until these reach each other.
    fn around(mut stage: Stage) -> Self {
        let left = stage.host("t46-left", "192.0.2.2/24", "192.0.2.1").expect("left");
        let right = stage.host("t46-right", "198.51.100.2/24", "198.51.100.1").expect("right");
        left.add_six("t46-left", "2001:db8:1::2/64", "2001:db8:1::1").expect("IPv6");
        right.add_six("t46-right", "2001:db8:2::2/64", "2001:db8:2::1").expect("IPv6");
        let world = Self { stage, left, right };
        // The router uses its IPv6 addresses only when it knows that nobody else does.
        for address in RIGHT {
            wait_for(address, || support::answers(world.left.command("busybox"), &[address]).then_some(()));
        }
        world
    }

    /// Packets of [`JUMBO`] octets pass whole in both directions.
    fn large_ones_pass(&self) {
        large_ones_pass(&self.left, (&self.right, "t46-right"), RIGHT);
        large_ones_pass(&self.right, (&self.left, "t46-left"), LEFT);
    }

    /// Streams pass in both directions.
    fn streams_pass(&self) {
        let (left, right) = (&self.left, &self.right);
        for (from, to, addresses) in [(left, right, RIGHT), (right, left, LEFT)] {
            for address in addresses {
                transfer(from, to, place(address), OCTETS, PATIENCE);
            }
        }
    }

    /// Ends the run, whose ledger must add up.
    fn finish(self) {
        let Self { stage, left, right } = self;
        for host in [&left, &right] {
            host.silence_six().expect("it is silent");
        }
        let counters = stage.finish(vec![left, right]).expect("nothing is left");
        assert_eq!(counters.faults("t46"), [""; 0]);
        assert_eq!(counters.sum(|name| name.ends_with("drop_rx_pieces")), 0, "{counters:?}");
    }
}

/// Returns true if a frame is an echo request of this family in one packet of [`JUMBO`] octets that nobody may fragment.
fn is_large_echo(frame: &[u8], family: usize) -> bool {
    if frame.len() != ETHERNET + JUMBO {
        return false;
    }
    match family {
        0 => frame[12..14] == [8, 0] && frame[20] & 0xe0 == 0x40 && frame[23] == 1 && frame[BEHIND[0]] == 8,
        _ => frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[BEHIND[1]] == 128,
    }
}

/// Pings with the largest packets that fit; they must leave the router whole.
fn large_ones_pass(from: &Namespace, (to, link): Host<'_>, addresses: [&str; 2]) {
    for (family, address) in addresses.into_iter().enumerate() {
        let watch = PacketSocket::open(to, link).expect("a socket");
        let octets = (ETHERNET + JUMBO - BEHIND[family] - 8).to_string();
        ping(from.command("busybox"), 3, &["-s", &octets, address]).expect("answers");
        let seen = watch.find(PATIENCE, |frame| is_large_echo(frame, family));
        assert!(seen.is_some(), "no packet of {JUMBO} octets arrives at {address}");
    }
}

fn jumbo_frames_pass(engine: &'static str, model: &'static str) {
    let world = World::start(&Way { engine, model, right_mtu: JUMBO });
    world.large_ones_pass();
    world.streams_pass();
    world.finish();
}

/// Two routers, each with a host, whose inner NICs have these attachments, by which they reach each other.
fn joined(attach: [&str; 2]) -> String {
    let router = |at: usize| {
        let (side, near, far) = (["left", "right"][at], at + 1, 2 - at);
        let nets = ["192.0.2", "198.51.100"];
        format!(
            "[[router]]\nname = \"t46{near}\"\nengine = \"process\"\n\
             [[router.nic]]\nname = \"lan\"\nattach = \"tap:t46-{side}\"\nmtu = {JUMBO}\n\
             address = [\"{}.1/24\", \"2001:db8:{near}::1/64\"]\n\
             [[router.nic]]\nname = \"inner\"\nattach = \"{}\"\nmtu = {JUMBO}\n\
             address = [\"203.0.113.{near}/24\", \"2001:db8:3::{near}/64\"]\n\
             [[router.route]]\nto = \"{}.0/24\"\nvia = \"203.0.113.{far}\"\n\
             [[router.route]]\nto = \"2001:db8:{far}::/64\"\nvia = \"2001:db8:3::{far}\"\n",
            nets[at],
            attach[at],
            nets[1 - at]
        )
    };
    router(0) + &router(1)
}

/// Large packets and streams pass between two routers with these attachments. `commands` of `ip` make what those need.
fn jumbo_frames_pass_between(attach: [&str; 2], commands: &[&[&str]]) {
    let prepare = |home: &Namespace| {
        home.set("net.ipv6.conf.default.disable_ipv6", "1")?;
        commands.iter().try_for_each(|words| home.ip(words).map(drop))
    };
    let started = Stage::start_after(RINGROAD, &joined(attach), &["--json"], prepare);
    let world = World::around(started.expect("it starts").0);
    world.large_ones_pass();
    world.streams_pass();
    let World { stage, left, right } = world;
    for host in [&left, &right] {
        host.silence_six().expect("it is silent");
    }
    // What the test has made goes before the run, which is to leave nothing.
    for words in commands.iter().filter(|words| words[1] == "add") {
        stage.home().ip(&["link", "delete", words[2]]).expect("deleted");
    }
    stage.finish_troubled(vec![left, right]).expect("it ends well, and leaves nothing");
}

/// Large packets pass between two routers at a bridge of Open vSwitch. No streams: its packet sockets see frames whose checksums the
/// sender has left to the link as they are.
fn jumbo_frames_pass_open_vswitch() {
    let started = Stage::start_beside_ovs(RINGROAD, &joined(["ovs:t46-br"; 2]), &["--json"], "t46-br");
    let (stage, ovs) = started.expect("it starts");
    let mut world = World::around(stage);
    world.large_ones_pass();
    world.stage.run().signal(Signal::TERM).expect("it is told");
    let done = world.stage.run().wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    assert_eq!(ovs.ask(&["list-ports", "t46-br"]).expect("ports"), "", "none of the run's is left");
}

fn place(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), PORT)
}

/// Returns the MTU of the next link that a frame tells: "fragmentation needed" (RFC 1191), "packet too big" (RFC 4443, 3.2).
fn told_mtu(frame: &[u8]) -> Option<usize> {
    let is = |range: Range<usize>, octets: &[u8]| frame.get(range) == Some(octets);
    let at = if is(12..14, &[8, 0]) && is(23..24, &[1]) && is(34..36, &[3, 4]) {
        BEHIND[0]
    } else if is(12..14, &[0x86, 0xdd]) && is(20..21, &[58]) && is(54..56, &[2, 0]) {
        BEHIND[1]
    } else {
        return None;
    };
    let mtu = frame.get(at + 4..at + 8)?.try_into().map(u32::from_be_bytes).ok()?;
    usize::try_from(mtu).ok()
}

/// Opens a socket that returns from each read after a moment.
fn socket(host: &Namespace, at: SocketAddr) -> UdpSocket {
    let socket = host.inside(|| UdpSocket::bind(at)).expect("inside").expect("bind");
    socket.set_read_timeout(Some(ANSWER)).expect("a timeout");
    socket
}

fn the_sender_learns_the_next_mtu(engine: &'static str, model: &'static str) {
    let world = World::start(&Way { engine, model, right_mtu: PLAIN });
    let sent: Vec<u8> = (0..DATAGRAM).map(|at| (at % 251) as u8).collect();
    for (address, family) in RIGHT.into_iter().zip(["-4", "-6"]) {
        let to = place(address);
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let (from, at) = (socket(&world.left, SocketAddr::new(any, 0)), socket(&world.right, to));
        let watch = PacketSocket::open(&world.left, "t46-left").expect("a socket");
        // The sender's kernel does not know the next link yet, and forbids fragments. An error of one datagram may be reported
        // when the next one is sent.
        let told = wait_for("an error", || {
            let _ = from.send_to(&sent, to);
            watch.find(ANSWER, |frame| told_mtu(frame).is_some())
        });
        assert_eq!(told_mtu(&told), Some(PLAIN), "{address}");
        let mut buffer = vec![0; 1 << 16];
        let received = wait_for("a datagram", || {
            let _ = from.send_to(&sent, to);
            at.recv(&mut buffer).ok()
        });
        assert!(buffer[..received] == sent, "what came is not what was sent");
        let known = world.left.ip(&[family, "route", "get", address]).expect("a route");
        assert!(known.contains("mtu 1500"), "{known}");
        transfer(&world.left, &world.right, to, OCTETS, PATIENCE);
    }
    // The MTU of the first link is as it was.
    for address in ["192.0.2.1", "2001:db8:1::1"] {
        ping(world.left.command("busybox"), 1, &["-s", "8900", address]).expect("the router answers");
    }
    let counters = world.stage.wait_for_counters(|all| all.sum(|name| name.ends_with(".drop_mtu")) >= 2);
    counters.expect("each refused packet is counted");
    world.finish();
}

#[test]
fn jumbo_frames_pass_virtio_nics_under_kvm() {
    needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    jumbo_frames_pass("kvm", "virtio-net");
}

#[test]
fn jumbo_frames_pass_e1000s_of_a_process() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    jumbo_frames_pass("process", "e1000");
}

#[test]
fn a_process_tells_the_next_mtu() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    the_sender_learns_the_next_mtu("process", "virtio-net");
}

mod all {
    use super::*;

    #[test]
    fn jumbo_frames_pass_virtio_nics_of_a_process() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        jumbo_frames_pass("process", "virtio-net");
    }

    #[test]
    fn jumbo_frames_pass_e1000s_under_kvm() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        jumbo_frames_pass("kvm", "e1000");
    }

    #[test]
    fn jumbo_frames_pass_a_bridge() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let bridge = [&["link", "add", "t46-br", "type", "bridge"][..], &["link", "set", "t46-br", "up"]];
        jumbo_frames_pass_between(["bridge:t46-br"; 2], &bridge);
    }

    #[test]
    fn jumbo_frames_pass_macvtaps() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        // By default macvtaps of one interface reach each other.
        let below = [
            &["link", "add", "t46-low", "mtu", "9216", "type", "veth", "peer", "name", "t46-far"][..],
            &["link", "set", "t46-far", "mtu", "9216"],
            &["link", "set", "t46-low", "up"],
            &["link", "set", "t46-far", "up"],
        ];
        jumbo_frames_pass_between(["macvtap:t46-low"; 2], &below);
    }

    #[test]
    fn jumbo_frames_pass_a_tunnel() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let ends = ["udp:127.0.0.1:4746-127.0.0.1:4747", "udp:127.0.0.1:4747-127.0.0.1:4746"];
        jumbo_frames_pass_between(ends, &[]);
    }

    #[test]
    fn jumbo_frames_pass_rings_that_another_router_serves() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let ends = ["vhost-user-frontend:t46.sock", "vhost-user-backend:t46.sock"];
        jumbo_frames_pass_between(ends, &[]);
    }

    #[test]
    fn jumbo_frames_pass_open_vswitch() {
        needs!(
            Root,
            Tun,
            Program("ip"),
            Program("busybox"),
            Program("ovs-vswitchd"),
            Program("ovsdb-server")
        );
        super::jumbo_frames_pass_open_vswitch();
    }

    #[test]
    fn a_virtual_machine_tells_the_next_mtu() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        the_sender_learns_the_next_mtu("kvm", "e1000");
    }
}
