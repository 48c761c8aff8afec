//! Objective: two VRFs of a router have the same addresses of both families, and each reaches only its own hosts. A network that one
//! of them has is unknown in the other; an address that is the router's own in one is forwarded in the other. With each engine and
//! with two vCPUs.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use support::{Counters, Namespace, Stage, datagrams, echo, needs, ping, run, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 7049;
/// Octets of each TCP transfer.
const OCTETS: usize = 1_000_000;
/// Host on the right side of each VRF.
const RIGHT: [&str; 2] = ["198.51.100.2", "2001:db8:2::2"];
/// Host that only the red VRF has, behind its right one.
const RED_ONLY: &str = "203.0.113.2";
/// Address of the router in the red VRF, and of a host in the blue one.
const OWN_IN_RED: &str = "10.49.0.1";
/// Octets of a datagram in each VRF.
const LENGTHS: [usize; 2] = [100, 200];

fn file(router: &str) -> String {
    let nic = |vrf: &str, number: u32, address: &str| {
        format!(
            "[[router.nic]]\nname = \"{vrf}{number}\"\nattach = \"tap:t49-{vrf}{number}\"\nvrf = \"{vrf}\"\n\
             address = [{address}]\n"
        )
    };
    let (left, right) =
        ("\"192.0.2.1/24\", \"2001:db8:1::1/64\"", "\"198.51.100.1/24\", \"2001:db8:2::1/64\"");
    format!("[[router]]\nname = \"t49\"\n{router}")
        + &nic("red", 1, left)
        + &nic("red", 2, &format!("{right}, \"{OWN_IN_RED}/24\""))
        + &nic("blue", 1, left)
        + &nic("blue", 2, right)
        + "[[router.route]]\nto = \"203.0.113.0/24\"\nvia = \"198.51.100.2\"\nvrf = \"red\"\n\
           [[router.route]]\nto = \"10.49.0.0/24\"\nvia = \"198.51.100.2\"\nvrf = \"blue\"\n"
}

/// A VRF with a host on each side.
struct Vrf {
    left: Namespace,
    right: Namespace,
    sender: UdpSocket,
    receiver: UdpSocket,
    /// Octets of its datagrams.
    length: usize,
}

impl Vrf {
    fn new(stage: &mut Stage, name: &str, length: usize) -> Self {
        let mut host = |number: u32, net: &str| {
            let tap = format!("t49-{name}{number}");
            let host = stage.host(&tap, &format!("{net}.2/24"), &format!("{net}.1")).expect("a host");
            let net = format!("2001:db8:{number}:");
            host.add_six(&tap, &format!("{net}:2/64"), &format!("{net}:1")).expect("IPv6");
            host
        };
        let (left, right) = (host(1, "192.0.2"), host(2, "198.51.100"));
        let (sender, receiver) = (datagrams(&left, 0, PATIENCE), datagrams(&right, PORT, PATIENCE));
        Self { left, right, sender, receiver, length }
    }

    /// Sends a datagram to an address, which its right host must receive, and nothing else before it; and the same one back.
    fn echo(&self, address: &str) {
        let to: SocketAddr = format!("{address}:{PORT}").parse().expect("an address");
        echo(&self.sender, &self.receiver, to, self.length);
    }

    /// Waits until a host answers: the router uses its IPv6 addresses only when it knows that nobody else does.
    fn wait_for(&self, address: &str) {
        let end = Instant::now() + PATIENCE;
        let mut ping = self.left.command("busybox");
        ping.args(["ping", "-c", "1", "-W", "1", address]);
        while !run(&mut ping, PATIENCE).expect("it ends").status.success() {
            assert!(Instant::now() < end, "{address} does not answer");
        }
    }

    /// Pings an address, from which answers must come with this time to live.
    fn pings(&self, address: &str, ttl: u8) {
        let said = ping(self.left.command("busybox"), 2, &[address]).expect("answers");
        assert_eq!(said.matches(&format!("ttl={ttl} ")).count(), 2, "{said}");
    }
}

fn none_reaches_the_other(router: &str) {
    let mut stage = Stage::start(RINGROAD, &file(router)).expect("it starts");
    let red = Vrf::new(&mut stage, "red", LENGTHS[0]);
    let blue = Vrf::new(&mut stage, "blue", LENGTHS[1]);
    for (host, address) in [(&red.right, RED_ONLY), (&blue.right, OWN_IN_RED)] {
        host.ip(&["address", "add", &format!("{address}/32"), "dev", "lo"]).expect("an address");
    }
    let both = [&red, &blue];
    for vrf in both {
        RIGHT.iter().for_each(|address| vrf.wait_for(address));
        RIGHT.iter().for_each(|address| vrf.pings(address, 63));
        ["192.0.2.1", "198.51.100.1", "2001:db8:1::1"].iter().for_each(|own| vrf.pings(own, 64));
    }
    // In turn: what leaks from one VRF would be there before what the other one expects.
    for _ in 0..3 {
        both.iter().for_each(|vrf| vrf.echo(RIGHT[0]));
    }
    for vrf in both {
        for address in RIGHT {
            let to = SocketAddr::new(address.parse().expect("an address"), PORT);
            transfer(&vrf.left, &vrf.right, to, OCTETS, PATIENCE);
        }
    }
    red.pings(OWN_IN_RED, 64);
    blue.pings(OWN_IN_RED, 63);

    red.echo(RED_ONLY);
    let refused = |all: &Counters| all.sum(|name| name.ends_with(".drop_no_route"));
    let before = refused(&stage.run().counters());
    blue.sender.send_to(&[0; 300], (RED_ONLY, PORT)).expect("sent");
    let counters = stage.wait_for_counters(|all| refused(all) > before);
    counters.expect("the blue VRF has no route there");
    // Neither right host has received it.
    both.iter().for_each(|vrf| vrf.echo(RIGHT[0]));

    let hosts = both.iter().flat_map(|vrf| [&vrf.left, &vrf.right]);
    hosts.for_each(|host| host.silence_six().expect("it is silent"));
    let counters = stage.finish(vec![red.left, red.right, blue.left, blue.right]).expect("nothing is left");
    assert_eq!(counters.faults("t49"), [""; 0]);
}

#[test]
fn of_a_virtual_machine() {
    needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    none_reaches_the_other("engine = \"kvm\"\n");
}

mod all {
    use super::*;

    #[test]
    fn of_a_process() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        none_reaches_the_other("engine = \"process\"\n");
    }

    #[test]
    fn of_two_vcpus() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        none_reaches_the_other("engine = \"kvm\"\nvcpus = 2\n");
    }
}
