//! Objective: a group has VRFs as a router has: two of them have the same addresses, each reaches only its own hosts, and members are
//! found alive by probes through each. With both kinds of groups.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use support::{Counters, Namespace, Stage, datagrams, echo, needs, ping, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 7143;
/// Octets of each TCP transfer.
const OCTETS: usize = 1_000_000;
/// Host on the right side of each VRF.
const RIGHT: &str = "198.51.100.2";
/// VRFs, and octets of a datagram in each.
const VRFS: [(&str, usize); 2] = [("red", 100), ("blue", 200)];

fn file(kind: &str) -> String {
    let nic = |vrf: &str, number: usize, network: &str| {
        format!(
            "[[group.nic]]\nname = \"{vrf}{number}\"\nattach = \"tap:t43v-{vrf}{number}\"\nvrf = \"{vrf}\"\n\
             address = \"{network}.1/24\"\n"
        )
    };
    let nics = VRFS.map(|(vrf, _)| nic(vrf, 1, "192.0.2") + &nic(vrf, 2, "198.51.100"));
    format!("[[group]]\nname = \"duo\"\nengine = \"process\"\n{kind}") + &nics.concat()
}

/// A VRF with a host on each side.
struct Vrf {
    left: Namespace,
    right: Namespace,
    sender: UdpSocket,
    receiver: UdpSocket,
    length: usize,
}

impl Vrf {
    fn new(stage: &mut Stage, (name, length): (&str, usize)) -> Self {
        let mut host = |number: usize, net: &str| {
            let tap = format!("t43v-{name}{number}");
            stage.host(&tap, &format!("{net}.2/24"), &format!("{net}.1")).expect("a host")
        };
        let (left, right) = (host(1, "192.0.2"), host(2, "198.51.100"));
        let (sender, receiver) = (datagrams(&left, 0, PATIENCE), datagrams(&right, PORT, PATIENCE));
        Self { left, right, sender, receiver, length }
    }
}

fn none_reaches_the_other(kind: &str) {
    let mut stage = Stage::start(RINGROAD, &file(kind)).expect("it starts");
    let [red, blue] = VRFS.map(|vrf| Vrf::new(&mut stage, vrf));
    let both = [&red, &blue];
    for vrf in both {
        let said = ping(vrf.left.command("busybox"), 2, &[RIGHT]).expect("answers");
        assert_eq!(said.matches("ttl=63 ").count(), 2, "{said}");
    }
    let place: SocketAddr = format!("{RIGHT}:{PORT}").parse().expect("an address");
    // In turn: what leaks from one VRF would be there before what the other one expects.
    for vrf in [both, both, both].concat() {
        echo(&vrf.sender, &vrf.receiver, place, vrf.length);
    }
    both.iter().for_each(|vrf| transfer(&vrf.left, &vrf.right, place, OCTETS, PATIENCE));
    // Probes come back by a NIC of each VRF, and no member is suspected for want of them.
    let come_back =
        |all: &Counters| VRFS.iter().all(|(vrf, _)| all.sum(|name| is_count(name, vrf, "probes_back")) > 0);
    let counters = stage.wait_for_counters(come_back).expect("probes come back");
    assert_eq!(counters.sum(|name| name.ends_with(".probes_foreign")), 0);
    stage.finish_troubled(vec![red.left, red.right, blue.left, blue.right]).expect("nothing is left");
}

/// Returns true if a counter is one of the group's at a NIC of this VRF.
fn is_count(name: &str, vrf: &str, counter: &str) -> bool {
    name.starts_with(&format!("duo.{vrf}")) && name.ends_with(&format!(".group.{counter}"))
}

#[test]
fn of_a_parallel_group() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    none_reaches_the_other("kind = \"parallel\"\nmembers = 2\n");
}

mod all {
    use super::*;

    #[test]
    fn of_a_group_in_stages() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        none_reaches_the_other("kind = \"multistage\"\nbackends = 2\nbalancers = 1\n");
    }
}
