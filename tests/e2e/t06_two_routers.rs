//! Objective: two routers on a switch carry ping, TCP and UDP between two kernel stacks, with each way of delivery, with
//! one vCPU or two, and with each division of the I/O threads; their ledgers add up.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use support::{Counters, Namespace, Stage};

/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const OCTETS: usize = 2_000_000;

/// Configuration of the two routers.
struct Way {
    deliver: &'static str,
    vhost: &'static str,
    west_vcpus: u32,
}

fn file(way: &Way) -> String {
    let Way { deliver, vhost, west_vcpus } = way;
    format!(
        "[switch.backbone]\n\
         [[router]]\nname = \"west\"\nvhost = \"{vhost}\"\nvcpus = {west_vcpus}\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"tap:t06-west\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"core\"\nattach = \"switch:backbone\"\naddress = \"203.0.113.1/30\"\ndeliver = \"{deliver}\"\n\
         [[router.route]]\nto = \"0.0.0.0/0\"\nvia = \"203.0.113.2\"\n\
         [[router]]\nname = \"east\"\nvhost = \"{vhost}\"\n\
         [[router.nic]]\nname = \"core\"\nattach = \"switch:backbone\"\naddress = \"203.0.113.2/30\"\ndeliver = \"{deliver}\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"tap:t06-east\"\naddress = \"198.51.100.1/24\"\n\
         [[router.route]]\nto = \"192.0.2.0/24\"\nvia = \"203.0.113.1\"\n"
    )
}

/// Waits until both routers are up: a host may be ready earlier, and frames delivered directly to a router that does not
/// run yet are dropped under that name.
fn wait_for_an_answer(from: &Namespace) {
    let mut ping = from.command("busybox");
    ping.args(["ping", "-c", "1", "-W", "5", "198.51.100.2"]);
    let start = Instant::now();
    while !support::run(&mut ping, PATIENCE).expect("it ends").status.success() {
        assert!(start.elapsed() < PATIENCE, "no answer");
    }
}

/// Transfers data on several connections at the same time, so that more than one queue has work; every octet is checked.
fn transfer(from: &Namespace, to: &Namespace, address: Ipv4Addr, connections: usize) {
    let listener = to.inside(|| TcpListener::bind((address, 7006))).expect("inside").expect("bind");
    let target = (address, 7006).into();
    thread::scope(|scope| {
        for number in 0..connections {
            let stream = from.inside(|| TcpStream::connect_timeout(&target, PATIENCE)).expect("inside");
            let stream = stream.expect("it connects");
            let received = listener.accept().expect("a connection").0;
            scope.spawn(move || send(stream, number));
            scope.spawn(move || receive(received, number));
        }
    });
}

fn octets(number: usize) -> Vec<u8> {
    (0..OCTETS).map(|at| ((at + number) % 251) as u8).collect()
}

fn send(mut stream: TcpStream, number: usize) {
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&octets(number)).expect("the stream goes on");
}

fn receive(mut stream: TcpStream, number: usize) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("the stream goes on");
    assert!(all == octets(number), "what came is not what was sent");
}

fn try_out(way: &Way) -> Counters {
    let mut stage = Stage::start(env!("CARGO_BIN_EXE_ringroad"), &file(way)).expect("it starts");
    let west = stage.host("t06-west", "192.0.2.2/24", "192.0.2.1").expect("west");
    let east = stage.host("t06-east", "198.51.100.2/24", "198.51.100.1").expect("east");
    wait_for_an_answer(&west);
    let said = support::ping(west.command("busybox"), 5, &["198.51.100.2"]).expect("answers");
    assert_eq!(said.matches("ttl=62").count(), 5, "{said}");
    support::ping(east.command("busybox"), 3, &["-s", "4000", "192.0.2.2"]).expect("answers");
    transfer(&west, &east, EAST, 4);
    transfer(&east, &west, Ipv4Addr::new(192, 0, 2, 2), 4);
    let counters = stage.finish(vec![west, east]).expect("nothing is left");
    for router in ["west", "east"] {
        assert_eq!(counters.faults(router), [""; 0]);
    }
    let port = |port: &str, name: &str| counters.get(&format!("switch.backbone.{port}.{name}"));
    for (one, other) in [("west.core", "east.core"), ("east.core", "west.core")] {
        let entered = port(one, "in_frames");
        let classified =
            ["forwarded", "flood_unknown", "flood_broadcast", "drop_same_port", "drop_malformed"];
        assert!(entered > 100, "{one}: {entered}");
        assert_eq!(classified.map(|name| port(one, name)).iter().sum::<u64>(), entered, "{one}");
        let copies = port(one, "forwarded") + port(one, "flood_copies");
        assert_eq!(port(other, "out_frames") + port(other, "drop_full"), copies, "{one} to {other}");
    }
    counters
}

#[test]
fn queued_and_split() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    try_out(&Way { deliver: "queued", vhost: "split", west_vcpus: 1 });
}

#[test]
fn direct_split_and_two_vcpus() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let counters = try_out(&Way { deliver: "direct", vhost: "split", west_vcpus: 2 });
    for vcpu in 0..2 {
        let forwarded = counters.get(&format!("west.vcpu{vcpu}.forwarded"));
        assert!(forwarded > 0, "vCPU {vcpu} had nothing to do");
    }
}

mod all {
    use super::*;

    #[test]
    fn queued_and_shared() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        try_out(&Way { deliver: "queued", vhost: "shared", west_vcpus: 1 });
    }

    #[test]
    fn direct_and_a_thread_for_each_nic() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        try_out(&Way { deliver: "direct", vhost: "per-nic", west_vcpus: 1 });
    }

    #[test]
    fn queued_per_nic_and_two_vcpus() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        try_out(&Way { deliver: "queued", vhost: "per-nic", west_vcpus: 2 });
    }
}
