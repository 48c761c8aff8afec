//! Objective: a group has interfaces for VLANs as a router has. It shares a link with a router on which all frames have tags, one or two of
//! them; each answers the other's ARP and solicitations there, and hosts behind them reach each other in both families, through all members,
//! which have one route table and one neighbour table.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use support::{Counters, Flow, Namespace, Stage, needs, ping, run, transfer};

use crate::verbs::said_at;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(100);
/// The host behind the router, and that behind the group.
const LEFT: [&str; 2] = ["192.0.2.2", "2001:db8:1::2"];
const RIGHT: [&str; 2] = ["198.51.100.2", "2001:db8:2::2"];
const PORT: u16 = 7243;
/// Flows of each family that are spread over members.
const FLOWS: u16 = 16;
/// Datagrams a second of each.
const RATE: u32 = 100;
const OCTETS: usize = 1_000_000;
/// A bridge between balancers and back ends.
const BRIDGE: &str = "t43l-br";

/// A router and a group of this kind with this service tag, or none, on their link.
fn file(kind: &str, outer: &str) -> String {
    let interface = |table: &str, own: u8| {
        format!(
            "[[{table}.interface]]\nname = 'core'\nnic = 'trunk'\nvlan = 100\n{outer}\
             address = ['10.50.0.{own}/30', '2001:db8:50::{own}/64']\n"
        )
    };
    let nics = |table: &str, side: &str, four: &str, six: &str| {
        format!(
            "[[{table}.nic]]\nname = 'trunk'\nattach = 'switch:trunk'\n\
             [[{table}.nic]]\nname = '{side}'\nattach = 'tap:t43l-{side}'\n\
             address = ['{four}.1/24', '{six}::1/64']\n"
        )
    };
    let routes = |table: &str, peer: u8, four: &str, six: &str| {
        format!(
            "[[{table}.route]]\nto = '{four}.0/24'\nvia = '10.50.0.{peer}'\n\
             [[{table}.route]]\nto = '{six}::/64'\nvia = '2001:db8:50::{peer}'\n"
        )
    };
    let (left, right) = (("192.0.2", "2001:db8:1"), ("198.51.100", "2001:db8:2"));
    [
        "[switch.trunk]\n[[router]]\nname = 'one'\nengine = 'process'\n".to_owned(),
        nics("router", "left", left.0, left.1) + &interface("router", 1),
        routes("router", 2, right.0, right.1),
        format!("[[group]]\nname = 'duo'\nengine = 'process'\n{kind}"),
        nics("group", "right", right.0, right.1) + &interface("group", 2),
        routes("group", 1, left.0, left.1),
    ]
    .concat()
}

/// Waits until a host is reached: the router uses its IPv6 addresses only when it knows that no other station has them.
fn wait_for(host: &Namespace, address: &str) {
    let end = Instant::now() + PATIENCE;
    let mut ping = host.command("busybox");
    ping.args(["ping", "-c", "1", "-W", "1", address]);
    while !run(&mut ping, PATIENCE).expect("it ends").status.success() {
        assert!(Instant::now() < end, "{address} does not answer");
        thread::sleep(LOOK);
    }
}

fn place(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

fn hosts_reach_each_other(kind: &str, outer: &str) {
    reach_each_other(Stage::start(RINGROAD, &file(kind, outer)).expect("it starts"), None);
}

/// Two hosts talk through the router and the group of a run, beside which there may be a bridge.
fn reach_each_other(mut stage: Stage, bridge: Option<&str>) {
    let mut host = |side: &str, four: &str, six: &str| {
        let tap = format!("t43l-{side}");
        let host = stage.host(&tap, &format!("{four}.2/24"), &format!("{four}.1")).expect("a host");
        host.add_six(&tap, &format!("{six}::2/64"), &format!("{six}::1")).expect("IPv6");
        host
    };
    let left = host("left", "192.0.2", "2001:db8:1");
    let right = host("right", "198.51.100", "2001:db8:2");
    for address in RIGHT {
        wait_for(&left, address);
        let said = ping(left.command("busybox"), 2, &[address]).expect("answers");
        assert_eq!(said.matches("ttl=62 ").count(), 2, "{said}");
    }
    let mut flows = Vec::new();
    for (address, n) in RIGHT.iter().flat_map(|address| (0..FLOWS).map(move |n| (address, n))) {
        flows.push(Flow::start(&left, &right, place(address, PORT + n), RATE).expect("a flow"));
    }
    let both = |all: &Counters| (0..2).all(|n| all.get(&format!("duo_{n}.right.group.passed")) > 300);
    stage.wait_for_counters(both).expect("both forward");
    for (from, to, addresses) in [(&left, &right, RIGHT), (&right, &left, LEFT)] {
        for address in addresses {
            transfer(from, to, place(address, PORT - 1), OCTETS, PATIENCE);
        }
    }
    let counters = stage.wait_for_counters(|_| true).expect("counters");
    for name in ["arp_answered", "nd_answered"] {
        assert!(counters.get(&format!("duo.trunk.group.{name}")) > 0, "the router has asked: {name}");
    }
    for n in 0..2 {
        let name = format!("duo_{n}.vcpu0.core.vlan.in_frames");
        assert!(counters.get(&name) > 0, "{name} of {:?}", counters.named(|name| name.contains(".vlan.")));
    }
    assert!(counters.get("duo.group.questions") > 0, "members ask the host");
    let shown: serde_json::Value =
        serde_json::from_str(said_at(&stage, &["show", "duo", "--json"]).trim()).expect("JSON");
    let saved = shown["settings"]["tables.octets_saved"].as_u64();
    assert!(saved.is_some_and(|saved| saved > 0), "they have tables in common: {shown}");
    drop(flows);
    [&left, &right].iter().for_each(|host| host.silence_six().expect("it is silent"));
    // Only what the run has made is to be gone when it ends.
    if let Some(bridge) = bridge {
        stage.home().ip(&["link", "delete", bridge]).expect("deleted");
    }
    stage.finish_troubled(vec![left, right]).expect("nothing is left");
}

mod all {
    use super::*;

    #[test]
    fn through_members_side_by_side() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        hosts_reach_each_other("kind = 'parallel'\nmembers = 2\n", "");
    }

    #[test]
    fn through_virtual_machines_side_by_side() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let text = file("kind = 'parallel'\nmembers = 2\n", "");
        let text = text.replace("name = 'duo'\nengine = 'process'", "name = 'duo'\nengine = 'kvm'");
        reach_each_other(Stage::start(RINGROAD, &text).expect("it starts"), None);
    }

    #[test]
    fn through_members_behind_balancers() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        hosts_reach_each_other("kind = 'multistage'\nbackends = 2\n", "");
    }

    #[test]
    fn through_members_behind_virtual_machines() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        hosts_reach_each_other("kind = 'multistage'\nbackends = 2\nbalancer = 'vm'\n", "");
    }

    #[test]
    fn through_members_behind_virtual_machines_and_a_bridge() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        let kind =
            format!("kind = 'multistage'\nbackends = 2\nbalancer = 'vm'\ninterconnect = 'bridge:{BRIDGE}'\n");
        let prepare = |home: &Namespace| {
            home.set("net.ipv6.conf.default.disable_ipv6", "1")?;
            home.ip(&["link", "add", BRIDGE, "type", "bridge"])?;
            home.ip(&["link", "set", BRIDGE, "up"])
        };
        let (stage, _) =
            Stage::start_after(RINGROAD, &file(&kind, ""), &["--json"], prepare).expect("it starts");
        reach_each_other(stage, Some(BRIDGE));
    }

    #[test]
    fn with_two_tags_behind_virtual_machines() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        hosts_reach_each_other("kind = 'multistage'\nbackends = 2\nbalancer = 'vm'\n", "outer = 200\n");
    }

    #[test]
    fn with_two_tags() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        hosts_reach_each_other("kind = 'parallel'\nmembers = 2\n", "outer = 200\n");
    }
}
