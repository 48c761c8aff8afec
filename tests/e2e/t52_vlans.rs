//! Objective: two routers share a link on which all frames have tags: VLAN 100 is in one VRF, VLAN 100 behind service tag 200
//! (QinQ) in another, with the same addresses. Packets of both families, single ones and streams in large frames, cross each of
//! them, and none the other. With each engine and NIC model, jumbo frames, and two vCPUs.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use support::{
    Counters, Namespace, Running, Stage, datagrams, echo, needs, pcap_frames, ping, run, transfer,
};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Models of all NICs.
const VIRTIO: [&str; 2] = ["virtio-net"; 2];
const E1000: [&str; 2] = ["e1000"; 2];
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 7050;
/// Octets of each TCP transfer.
const OCTETS: usize = 3_000_000;
/// Host behind the second router, in each VRF.
const RIGHT: [&str; 2] = ["198.51.100.2", "2001:db8:2::2"];
/// Host behind the first router.
const LEFT: [&str; 2] = ["192.0.2.2", "2001:db8:1::2"];
/// VRFs, and octets of a datagram in each.
const VRFS: [(&str, usize); 2] = [("red", 100), ("blue", 200)];
/// Tags of the VLAN of each VRF, as octets of a frame.
const TAGS: [&[u8]; 2] = [&[0x81, 0, 0, 100], &[0x88, 0xa8, 0, 200, 0x81, 0, 0, 100]];
/// Frames that are captured on the link.
const CAPTURED: &str = "40";

/// Configuration of both routers.
struct Way {
    router: &'static str,
    /// Model of the NICs that lead to hosts, and of those at the link.
    models: [&'static str; 2],
    mtu: usize,
}

/// A router: its name, its number, and that of its peer, on the link and as networks.
fn router((name, own, peer): (&str, usize, usize), way: &Way) -> String {
    let network = |number: usize| ["192.0.2", "198.51.100"][number - 1];
    let (near, far, mtu) = (network(own), network(peer), way.mtu);
    let [model, trunk] = way.models;
    let nics = VRFS.map(|(vrf, _)| {
        format!(
            "[[router.nic]]\nname = \"{vrf}\"\nmodel = \"{model}\"\nattach = \"tap:t52-{name}{vrf}\"\nmtu = {mtu}\nvrf = \"{vrf}\"\n\
             address = [\"{near}.1/24\", \"2001:db8:{own}::1/64\"]\n"
        )
    });
    let outer = ["", "outer = 200\n"];
    let vlans = [0, 1].map(|at| {
        let (vrf, outer) = (VRFS[at].0, outer[at]);
        format!(
            "[[router.interface]]\nname = \"{vrf}-vlan\"\nnic = \"trunk\"\nvlan = 100\n{outer}vrf = \"{vrf}\"\n\
             address = [\"10.50.0.{own}/30\", \"2001:db8:50::{own}/64\"]\n\
             [[router.route]]\nto = \"{far}.0/24\"\nvia = \"10.50.0.{peer}\"\nvrf = \"{vrf}\"\n\
             [[router.route]]\nto = \"2001:db8:{peer}::/64\"\nvia = \"2001:db8:50::{peer}\"\nvrf = \"{vrf}\"\n"
        )
    });
    format!("[[router]]\nname = \"{name}\"\n{}", way.router)
        + &nics.concat()
        + &format!(
            "[[router.nic]]\nname = \"trunk\"\nmodel = \"{trunk}\"\nattach = \"switch:trunk\"\nmtu = {mtu}\n"
        )
        + &vlans.concat()
}

/// The hosts of a VRF.
struct Vrf {
    left: Namespace,
    right: Namespace,
    sender: UdpSocket,
    receiver: UdpSocket,
    /// Octets of its datagrams.
    length: usize,
}

impl Vrf {
    fn new(stage: &mut Stage, (name, length): (&str, usize)) -> Self {
        let mut host = |router: &str, net: &str, number: u32| {
            let tap = format!("t52-{router}{name}");
            let host = stage.host(&tap, &format!("{net}.2/24"), &format!("{net}.1")).expect("a host");
            let net = format!("2001:db8:{number}:");
            host.add_six(&tap, &format!("{net}:2/64"), &format!("{net}:1")).expect("IPv6");
            host
        };
        let (left, right) = (host("a", "192.0.2", 1), host("b", "198.51.100", 2));
        let (sender, receiver) = (datagrams(&left, 0, PATIENCE), datagrams(&right, PORT, PATIENCE));
        Self { left, right, sender, receiver, length }
    }

    /// Waits until a host answers: the routers use their IPv6 addresses only when they know that nobody else does.
    fn wait_for(&self, address: &str) {
        let end = Instant::now() + PATIENCE;
        let mut ping = self.left.command("busybox");
        ping.args(["ping", "-c", "1", "-W", "1", address]);
        while !run(&mut ping, PATIENCE).expect("it ends").status.success() {
            assert!(Instant::now() < end, "{address} does not answer");
        }
    }

    fn pings(&self, address: &str, size: usize) {
        let size = size.to_string();
        let said = ping(self.left.command("busybox"), 2, &["-s", &size, address]).expect("answers");
        assert_eq!(said.matches("ttl=62 ").count(), 2, "{said}");
    }

    fn streams(&self) {
        for (from, to, addresses) in [(&self.left, &self.right, RIGHT), (&self.right, &self.left, LEFT)] {
            for address in addresses {
                let place = SocketAddr::new(address.parse().expect("an address"), PORT);
                transfer(from, to, place, OCTETS, PATIENCE);
            }
        }
    }
}

/// Captures frames on the link; each has the tags of one of the VLANs, and both VLANs are among them.
fn all_have_tags(stage: &Stage, both: [&Vrf; 2]) {
    let file = stage.path("trunk.pcap");
    let mut command = stage.home().command(RINGROAD);
    command.args(["capture", "a.trunk"]).arg(&file).args(["--count", CAPTURED, "--seconds", "50"]);
    let mut capture = Running::start(&mut command).expect("it starts");
    let end = Instant::now() + PATIENCE;
    while !capture.ended().expect("it can be looked at") {
        assert!(Instant::now() < end, "too few frames");
        both.iter().for_each(|vrf| vrf.pings(RIGHT[0], 56));
    }
    let done = capture.wait(PATIENCE).expect("it has ended");
    assert!(done.status.success(), "{}", done.stderr);
    let octets = std::fs::read(&file).expect("a capture");
    let (frames, _) = pcap_frames(&octets);
    let of = |frame: &&[u8]| TAGS.iter().position(|tags| frame[12..].starts_with(tags));
    let found: Vec<Option<usize>> = frames.iter().map(of).collect();
    assert!([Some(0), Some(1)].iter().all(|vlan| found.contains(vlan)), "{found:?}");
    assert!(!found.contains(&None), "{found:?}");
}

/// Each interface has counted frames in both directions.
fn each_counts(counters: &Counters) {
    for (vrf, _) in VRFS {
        for (router, way) in [("a", "in"), ("a", "out"), ("b", "in"), ("b", "out")] {
            let (first, last) = (format!("{router}."), format!(".{vrf}-vlan.vlan.{way}_frames"));
            let moved = counters.sum(|name| name.starts_with(&first) && name.ends_with(&last));
            assert!(moved > 0, "{router} {last}: {counters:?}");
        }
    }
}

fn each_vlan_has_its_own(way: &Way) {
    let text = format!("[switch.trunk]\n{}{}", router(("a", 1, 2), way), router(("b", 2, 1), way));
    let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
    let [red, blue] = VRFS.map(|vrf| Vrf::new(&mut stage, vrf));
    let both = [&red, &blue];
    for vrf in both {
        RIGHT.iter().for_each(|address| vrf.wait_for(address));
        // The largest packet, which an e1000 has less room for behind two tags, and one in fragments.
        let largest = if way.models[1] == "e1000" { way.mtu - 4 } else { way.mtu };
        for size in [largest - 28, way.mtu + 500] {
            vrf.pings(RIGHT[0], size);
        }
        vrf.pings(RIGHT[1], 1000);
    }
    // In turn: what leaks from one VRF would be there before what the other one expects.
    for vrf in [both, both, both].concat() {
        let to: SocketAddr = format!("{}:{PORT}", RIGHT[0]).parse().expect("an address");
        echo(&vrf.sender, &vrf.receiver, to, vrf.length);
    }
    all_have_tags(&stage, both);
    both.iter().for_each(|vrf| vrf.streams());
    let hosts = both.iter().flat_map(|vrf| [&vrf.left, &vrf.right]);
    hosts.for_each(|host| host.silence_six().expect("it is silent"));
    let counters = stage.finish(vec![red.left, red.right, blue.left, blue.right]).expect("nothing is left");
    for name in ["a", "b"] {
        assert_eq!(counters.faults(name), [""; 0]);
    }
    let lost =
        |name: &str| ["drop_tag", "drop_protocol", "drop_too_long", "drop_bad_offload"].contains(&name);
    let lost = counters.named(|name| name.rsplit('.').next().is_some_and(lost));
    assert!(lost.is_empty(), "{lost:?}");
    each_counts(&counters);
    // Large frames come from hosts as they are, and pass the link with their tags if that has NICs which take them.
    match way.models {
        [_, "virtio-net"] => assert!(counters.get("a.trunk.tx.left_segments") > 0, "{counters:?}"),
        ["virtio-net", _] => assert!(counters.get("a.red.rx.left_segments") > 0, "{counters:?}"),
        _ => {}
    }
}

#[test]
fn of_virtual_machines() {
    needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    each_vlan_has_its_own(&Way { router: "engine = \"kvm\"\n", models: VIRTIO, mtu: 1500 });
}

mod all {
    use super::*;

    #[test]
    fn of_processes() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        each_vlan_has_its_own(&Way { router: "engine = \"process\"\n", models: VIRTIO, mtu: 1500 });
    }

    /// A VLAN with two tags has packets of 1496 octets there: what is larger is refused, and the hosts learn it.
    #[test]
    fn of_e1000s() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        each_vlan_has_its_own(&Way { router: "engine = \"process\"\n", models: E1000, mtu: 1500 });
    }

    /// What hosts leave to be done, checksums and cutting, is done by the NICs at the link, behind the tags.
    #[test]
    fn of_e1000s_at_the_link() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let models = ["virtio-net", "e1000"];
        each_vlan_has_its_own(&Way { router: "engine = \"process\"\n", models, mtu: 1500 });
    }

    #[test]
    fn with_jumbo_frames() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        each_vlan_has_its_own(&Way { router: "engine = \"process\"\n", models: VIRTIO, mtu: 9000 });
    }

    /// As long as plain buffers are, so that tags need the longer ones.
    #[test]
    fn with_frames_of_a_buffer() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        each_vlan_has_its_own(&Way { router: "engine = \"process\"\n", models: VIRTIO, mtu: 2022 });
    }

    #[test]
    fn of_two_vcpus() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let router = "engine = \"kvm\"\nvcpus = 2\n";
        each_vlan_has_its_own(&Way { router, models: VIRTIO, mtu: 1500 });
    }
}
