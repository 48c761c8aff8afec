//! Objective: the kernel's own stacks reach each other through `ringroad run`: ping up to and beyond the MTU, TCP, UDP,
//! path MTU discovery, fragments, expired TTLs, three networks and a route through a gateway.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Namespace, Stage, datagrams, echo, transfer};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

fn file(right_mtu: u32) -> String {
    format!(
        "[[router]]\nname = \"t04\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:t04-left\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:t04-right\"\naddress = \"198.51.100.1/24\"\nmtu = {right_mtu}\n"
    )
}

fn two_hosts(right_mtu: u32) -> (Stage, Namespace, Namespace) {
    let mut stage = Stage::start(BINARY, &file(right_mtu)).expect("it starts");
    let left = stage.host("t04-left", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("t04-right", "198.51.100.2/24", "198.51.100.1").expect("right");
    (stage, left, right)
}

/// Sends pings, each of which must be answered.
fn ping(from: &Namespace, to: &str, octets: u32, count: usize) {
    support::ping(from.command("busybox"), count, &["-s", &octets.to_string(), to]).expect("answers");
}

/// Sends a ping that must not be answered.
fn in_vain(from: &Namespace, to: &str, octets: u32) {
    let mut command = from.command("busybox");
    command.args(["ping", "-c", "1", "-W", "5", "-s", &octets.to_string(), to]);
    let said = support::run(&mut command, PATIENCE).expect("ping ends").stdout;
    assert!(said.contains("100% packet loss"), "{said}");
}

const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

#[test]
fn ping_tcp_and_udp_both_ways() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let (stage, left, right) = two_hosts(1500);
    // A ping of 1472 octets gives a frame of MTU size, which the kernel sends with DF; 4000 octets give three
    // fragments.
    for octets in [0, 56, 1472, 4000] {
        for (from, to) in [(&left, RIGHT), (&right, LEFT)] {
            ping(from, &to.to_string(), octets, 3);
        }
    }
    for router in ["192.0.2.1", "198.51.100.1"] {
        ping(&left, router, 56, 2);
    }
    transfer(&left, &right, (RIGHT, 7001).into(), 3_000_000, PATIENCE);
    transfer(&right, &left, (LEFT, 7001).into(), 3_000_000, PATIENCE);
    let (near, far) = (datagrams(&left, 0, PATIENCE), datagrams(&right, 7002, PATIENCE));
    for octets in [0, 1, 18, 1472, 1473, 9000] {
        echo(&near, &far, (RIGHT, 7002).into(), octets);
    }
    let counters = stage.finish(vec![left, right]).expect("it ends well");
    assert_eq!(counters.faults("t04"), [""; 0]);
}

#[test]
fn three_networks_and_one_behind_a_gateway() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let text = "[[router]]\nname = \"t04\"\n\
         [[router.nic]]\nname = \"a\"\nattach = \"tap:t04-a\"\naddress = \"10.1.0.1/24\"\n\
         [[router.nic]]\nname = \"b\"\nattach = \"tap:t04-b\"\naddress = \"10.2.0.1/24\"\n\
         [[router.nic]]\nname = \"c\"\nattach = \"tap:t04-c\"\naddress = \"10.3.0.1/28\"\n\
         [[router.route]]\nto = \"10.9.0.0/16\"\nvia = \"10.3.0.2\"\n\
         [[router.route]]\nto = \"10.9.8.0/24\"\nvia = \"10.2.0.2\"\n";
    let mut stage = Stage::start(BINARY, text).expect("it starts");
    let a = stage.host("t04-a", "10.1.0.2/24", "10.1.0.1").expect("a");
    let b = stage.host("t04-b", "10.2.0.2/24", "10.2.0.1").expect("b");
    let c = stage.host("t04-c", "10.3.0.2/28", "10.3.0.1").expect("c");
    // Networks behind two of the hosts, one nested in the other's.
    b.ip(&["address", "add", "10.9.8.1/24", "dev", "lo"]).expect("added");
    c.ip(&["address", "add", "10.9.7.1/24", "dev", "lo"]).expect("added");
    for (from, to) in [
        (&a, "10.2.0.2"),
        (&a, "10.3.0.2"),
        (&b, "10.1.0.2"),
        (&b, "10.3.0.2"),
        (&c, "10.1.0.2"),
        (&c, "10.2.0.2"),
        (&a, "10.9.7.1"),
        (&a, "10.9.8.1"),
        (&c, "10.9.8.1"),
        (&b, "10.9.7.1"),
    ] {
        ping(from, to, 56, 2);
    }
    let (near, far) = (datagrams(&a, 0, PATIENCE), datagrams(&c, 7002, PATIENCE));
    echo(&near, &far, (Ipv4Addr::new(10, 9, 7, 1), 7002).into(), 1000);
    let counters = stage.finish(vec![a, b, c]).expect("it ends well");
    assert_eq!(counters.faults("t04"), [""; 0]);
}

mod all {
    use super::*;

    #[test]
    fn a_hop_that_is_one_too_many() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let (stage, left, right) = two_hosts(1500);
        let mut command = left.command("busybox");
        command.args(["traceroute", "-n", "-w", "60", "-q", "1", "-m", "4", "198.51.100.2"]);
        let said = support::run(&mut command, PATIENCE).expect("it ends").stdout;
        let hops: Vec<&str> =
            said.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, ["192.0.2.1", "198.51.100.2"], "{said}");
        // The network does not exist, and the router reports that.
        in_vain(&left, "203.0.113.77", 56);
        let counters = stage.finish(vec![left, right]).expect("it ends well");
        assert_eq!(counters.get("t04.vcpu0.drop_ttl"), 1, "{counters:?}");
        assert_eq!(counters.get("t04.vcpu0.drop_no_route"), 1, "{counters:?}");
        assert_eq!(counters.faults("t04"), [""; 0]);
    }

    #[test]
    fn a_narrow_link_behind_the_router() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let (stage, left, right) = two_hosts(1000);
        // Make sure first that the router is up: below, its messages are awaited only as long as ping waits.
        ping(&left, "192.0.2.1", 56, 1);
        // The first ping has DF and is refused; the kernel learns the path MTU from the refusal.
        in_vain(&left, "198.51.100.2", 1400);
        let route = left.ip(&["route", "get", "198.51.100.2"]).expect("a route");
        assert!(route.contains("mtu 1000"), "{route}");
        ping(&left, "198.51.100.2", 1400, 3);
        transfer(&left, &right, (RIGHT, 7001).into(), 1_000_000, PATIENCE);
        // Without DF the router fragments.
        left.ip(&["route", "flush", "cache"]).expect("flushed");
        left.set("net.ipv4.ip_no_pmtu_disc", "1").expect("set");
        let (near, far) = (datagrams(&left, 0, PATIENCE), datagrams(&right, 7002, PATIENCE));
        for octets in [972, 973, 1400, 1472, 4000] {
            echo(&near, &far, (RIGHT, 7002).into(), octets);
        }
        let counters = stage.finish(vec![left, right]).expect("it ends well");
        assert!(counters.get("t04.vcpu0.drop_mtu") >= 1, "{counters:?}");
        // One extra fragment for each of 973, 1400 and 1472, and for both full fragments of 4000.
        assert!(counters.get("t04.vcpu0.originated") >= 5, "{counters:?}");
        assert_eq!(counters.faults("t04"), [""; 0]);
    }
}
