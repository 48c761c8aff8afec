//! Objective: flows to a route with three gateways are spread over them by their weights. A gateway that does not answer, or whose
//! cable is pulled, loses its flows to the others, gets the same ones back when it answers again, and no other flow moves. A trace
//! names the gateway that a flow has. An IPv4 route has a gateway without an IPv4 address. With each engine.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Counters, Namespace, Running, Stage, needs, ping, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for which datagrams are awaited before the missing ones are sent again.
const LOOK: Duration = Duration::from_millis(20);
const FLOWS: usize = 240;
/// Port of the first flow; that of the next one is one more.
const FIRST_PORT: usize = 20_000;
/// Host behind all gateways.
const FAR: &str = "203.0.113.2:7048";
/// NICs towards the gateways; that with number n has 10.48.n.2.
const GATEWAYS: [&str; 3] = ["a", "b", "c"];
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

fn file(engine: &str) -> String {
    let nics = GATEWAYS.iter().enumerate().map(|(number, name)| {
        format!(
            "[[router.nic]]\nname = \"{name}\"\nattach = \"tap:t48-{name}\"\n\
             address = \"10.48.{number}.1/24\"\n"
        )
    });
    format!(
        "[[router]]\nname = \"t48\"\nengine = \"{engine}\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:t48-left\"\naddress = \"192.0.2.1/24\"\n{}\
         [[router.route]]\nto = \"203.0.113.0/24\"\nvia = [\"10.48.0.2\", \"10.48.1.2\", \"10.48.2.2\"]\n\
         weights = [4, 1, 1]\n",
        nics.collect::<String>()
    )
}

/// Number of flows of a gateway.
fn flows_of(ways: &[usize], gateway: usize) -> usize {
    ways.iter().filter(|way| **way == gateway).count()
}

/// A router, a host with a socket for each flow, and the gateways, each of which has the far host's address.
struct World {
    stage: Stage,
    left: Namespace,
    gateways: Vec<Namespace>,
    flows: Vec<UdpSocket>,
    ends: Vec<UdpSocket>,
    round: u32,
}

impl World {
    /// Starts it with a gateway C that does not answer: its host has another address.
    fn start(engine: &str) -> Self {
        let mut stage = Stage::start(RINGROAD, &file(engine)).expect("it starts");
        let left = stage.host("t48-left", "192.0.2.2/24", "192.0.2.1").expect("left");
        let gateway = |number: usize| {
            let host = if number == C { 9 } else { 2 };
            let (address, router) = (format!("10.48.{number}.{host}/24"), format!("10.48.{number}.1"));
            let host = stage.host(&format!("t48-{}", GATEWAYS[number]), &address, &router);
            let host = host.expect("a gateway");
            host.ip(&["address", "add", "203.0.113.2/32", "dev", "lo"]).expect("an address");
            host
        };
        let gateways: Vec<Namespace> = (0..GATEWAYS.len()).map(gateway).collect();
        let flows = (FIRST_PORT..FIRST_PORT + FLOWS).map(|port| socket(&left, &format!("192.0.2.2:{port}")));
        let flows = flows.collect();
        let ends = gateways.iter().map(|host| socket(host, FAR)).collect();
        Self { stage, left, gateways, flows, ends, round: 0 }
    }

    /// Sends a datagram in a flow.
    fn send(&self, flow: usize) {
        let octets = [self.round, flow as u32].map(u32::to_be_bytes).concat();
        let to: SocketAddr = FAR.parse().expect("an address");
        // A flow whose datagram does not arrive is tried again.
        let _ = self.flows[flow].send_to(&octets, to);
    }

    /// Sends a datagram in each flow, again if it does not arrive; returns the gateway of each flow, as a number in [`GATEWAYS`].
    fn ways(&mut self) -> Vec<usize> {
        self.round += 1;
        let mut found: Vec<Option<usize>> = vec![None; FLOWS];
        let start = Instant::now();
        while found.iter().any(Option::is_none) {
            assert!(start.elapsed() < PATIENCE, "flows without a way: {found:?}");
            (0..FLOWS).filter(|flow| found[*flow].is_none()).for_each(|flow| self.send(flow));
            for (gateway, end) in self.ends.iter().enumerate() {
                while let Some(flow) = received(end, self.round) {
                    found[flow] = found[flow].or(Some(gateway));
                }
            }
        }
        found.into_iter().flatten().collect()
    }

    /// Waits until the run tells that a gateway is lost, or back.
    fn wait_for_news(&mut self, gateway: usize, news: &str) {
        let line = format!("next hop 10.48.{gateway}.2 behind {} is {news}", GATEWAYS[gateway]);
        self.stage.run().wait_for_line(PATIENCE, |told| told.contains(&line)).expect("it is told");
    }

    /// Pulls the cable to a gateway, or plugs it in.
    fn cable(&self, gateway: usize, link: &str) {
        let mut command: Command = self.stage.home().command(RINGROAD);
        command.args(["set", &format!("t48.{}", GATEWAYS[gateway]), &format!("link={link}")]);
        let done = run(&mut command, PATIENCE).expect("an answer");
        assert!(done.status.success(), "{}", done.stderr);
    }

    /// Fate of the first packet of a flow that a trace reports.
    fn traced(&self, flow: usize) -> Value {
        traced(&self.stage, FIRST_PORT + flow, || self.send(flow))
    }
}

/// Fate of the first packet with this port that a trace of the left NIC reports while it is sent again and again.
fn traced(stage: &Stage, port: usize, send: impl Fn()) -> Value {
    let mut command: Command = stage.home().command(RINGROAD);
    let port = port.to_string();
    command.args(["trace", "t48.left", "--count", "1", "--seconds", "50", "--json", "--port", &port]);
    let mut trace = Running::start(&mut command).expect("it starts");
    let end = Instant::now() + PATIENCE;
    while !trace.ended().expect("it can be looked at") {
        assert!(Instant::now() < end, "no packet is traced");
        send();
        thread::sleep(LOOK);
    }
    let done = trace.wait(PATIENCE).expect("it has ended");
    assert!(done.status.success(), "{}", done.stderr);
    let first = done.stdout.lines().next().expect("a packet");
    serde_json::from_str::<Value>(first).expect("JSON")["fate"]["left"].clone()
}

/// Opens a socket that returns from each read after a moment.
fn socket(host: &Namespace, at: &str) -> UdpSocket {
    let socket = host.inside(|| UdpSocket::bind(at)).expect("inside").expect("bind");
    socket.set_read_timeout(Some(LOOK)).expect("a timeout");
    socket
}

/// Receives a datagram of this round; returns the number of its flow. `None`: there are no more.
fn received(end: &UdpSocket, round: u32) -> Option<usize> {
    let mut octets = [0; 8];
    loop {
        end.recv(&mut octets).ok()?;
        let [a, b, c, d, e, f, g, h] = octets;
        // Others waited in the router for a gateway's address.
        if u32::from_be_bytes([a, b, c, d]) == round {
            return usize::try_from(u32::from_be_bytes([e, f, g, h])).ok().filter(|flow| *flow < FLOWS);
        }
    }
}

/// Checks that the flows of a gateway have others now, and that no other flow has moved.
fn only_those_move(before: &[usize], after: &[usize], gateway: usize) {
    let pairs = || before.iter().zip(after);
    let stayed = pairs().filter(|(before, _)| **before != gateway).all(|(before, after)| before == after);
    let moved = pairs().filter(|(before, _)| **before == gateway).all(|(_, after)| *after != gateway);
    assert!(stayed && moved, "without {}:\n{before:?}\n{after:?}", GATEWAYS[gateway]);
}

/// Checks that each change of a gateway is told once: it is lost, then it is back. Returns how often it was both: one that answers
/// may be, if its answers to three requests, one a second, are late; at the end it may be lost and not back yet.
fn changes_of(stderr: &str, gateway: usize) -> usize {
    let mark = format!("next hop 10.48.{gateway}.2 behind {} is ", GATEWAYS[gateway]);
    let told: Vec<&str> = stderr.lines().filter_map(|line| Some(line.split_once(&mark)?.1)).collect();
    let (pairs, rest) = told.as_chunks::<2>();
    let is_pair =
        |[lost, back]: &[&str; 2]| lost.starts_with("not reached") && back.starts_with("reached again");
    let is_lost_at_last = rest.iter().all(|last| last.starts_with("not reached"));
    assert!(pairs.iter().all(is_pair) && is_lost_at_last, "{told:?}");
    pairs.len()
}

fn flows_are_spread(engine: &str) {
    let mut world = World::start(engine);
    // Flows of a gateway that does not answer arrive by the others.
    world.ways();
    world.wait_for_news(C, "not reached");
    let without_c = world.ways();
    assert_eq!(flows_of(&without_c, C), 0, "{without_c:?}");
    world.gateways[C].ip(&["address", "add", "10.48.2.2/24", "dev", "t48-c"]).expect("an address");
    world.wait_for_news(C, "reached again");
    let all = world.ways();
    only_those_move(&all, &without_c, C);
    let [a, b, c] = [A, B, C].map(|gateway| flows_of(&all, gateway));
    assert!(a > b && a > c && b > 0 && c > 0, "{a}, {b} and {c} flows");

    world.cable(B, "down");
    world.wait_for_news(B, "not reached");
    let without_b = world.ways();
    only_those_move(&all, &without_b, B);
    world.cable(B, "up");
    world.wait_for_news(B, "reached again");
    assert_eq!(world.ways(), all);

    for (number, name) in GATEWAYS.iter().enumerate() {
        let flow = all.iter().position(|way| *way == number).expect("each has a flow");
        let left = world.traced(flow);
        let (nic, via) = (format!("t48.{name}"), format!("10.48.{number}.2"));
        assert!(left["nic"] == nic && left["via"] == via, "{flow}: {left}");
        assert_eq!(left["route"], "203.0.113.0/24", "{flow}: {left}");
    }
    let World { stage, left, gateways, .. } = world;
    let hosts = [left].into_iter().chain(gateways).collect();
    let done = stage.finish_troubled(hosts).expect("nothing is left");
    let changes = [A, B, C].map(|gateway| changes_of(&done.stderr, gateway));
    assert!(changes[B] > 0 && changes[C] > 0, "{}", done.stderr);
    let counters = Counters::of(done.stdout.lines()).expect("counters");
    assert_eq!(counters.faults("t48"), [""; 0]);
}

/// Takes the IPv4 address away from a gateway, which then is reached by its link-local address alone, and gives it a host's behind it.
fn has_ipv6_alone(gateway: &Namespace, link: &str) {
    gateway.ip(&["-4", "address", "flush", "dev", link]).expect("no address");
    // It would answer ARP requests for the address of `lo`.
    gateway.set("net.ipv4.conf.all.arp_ignore", "8").expect("set");
    gateway.set("net.ipv6.conf.all.disable_ipv6", "0").expect("set");
    gateway.ip(&["address", "add", "fe80::9/64", "dev", link, "nodad"]).expect("an address");
    // It keeps asking until the router uses its address.
    gateway.set(&format!("net.ipv6.neigh.{link}.mcast_solicit"), "60").expect("set");
    gateway.ip(&["address", "add", "203.0.113.2/32", "dev", "lo"]).expect("an address");
    gateway
        .ip(&["-4", "route", "replace", "default", "via", "inet6", "fe80::1", "dev", link])
        .expect("a route");
}

/// IPv4 packets go to a gateway that has a link-local address and no IPv4 address (RFC 8950), and come back.
fn an_ipv4_route_has_an_ipv6_gateway(engine: &str) {
    let text = format!(
        "[[router]]\nname = \"t48\"\nengine = \"{engine}\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:t48-left\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"core\"\nattach = \"tap:t48-core\"\naddress = \"fe80::1/64\"\n\
         [[router.route]]\nto = \"203.0.113.0/24\"\nvia = \"fe80::9\"\nnic = \"core\"\n"
    );
    let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
    let left = stage.host("t48-left", "192.0.2.2/24", "192.0.2.1").expect("left");
    let gateway = stage.host("t48-core", "198.51.100.2/24", "198.51.100.1").expect("a gateway");
    has_ipv6_alone(&gateway, "t48-core");
    // The router uses its own address after it has looked for others that have it.
    let end = Instant::now() + PATIENCE;
    while !support::answers(left.command("busybox"), &["203.0.113.2"]) {
        assert!(Instant::now() < end, "no ping is answered");
    }
    let said = ping(left.command("busybox"), 3, &["203.0.113.2"]).expect("answers");
    assert_eq!(said.matches("ttl=63").count(), 3, "{said}");
    let (flow, to) = (socket(&left, &format!("192.0.2.2:{FIRST_PORT}")), FAR);
    let told = traced(&stage, FIRST_PORT, || {
        let _ = flow.send_to(b"through", to);
    });
    assert!(told["nic"] == "t48.core" && told["via"] == "fe80::9", "{told}");
    gateway.silence_six().expect("it is silent");
    let done = stage.finish_troubled(vec![left, gateway]).expect("nothing is left");
    let counters = Counters::of(done.stdout.lines()).expect("counters");
    assert_eq!(counters.faults("t48"), [""; 0]);
}

#[test]
fn a_process_has_an_ipv6_gateway_for_ipv4() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    an_ipv4_route_has_an_ipv6_gateway("process");
}

mod all {
    use super::*;

    #[test]
    fn a_virtual_machine_spreads_flows() {
        needs!(Root, Kvm, Tun, Program("ip"));
        flows_are_spread("kvm");
    }

    #[test]
    fn a_process_spreads_flows() {
        needs!(Root, Tun, Program("ip"));
        flows_are_spread("process");
    }

    #[test]
    fn a_virtual_machine_has_an_ipv6_gateway_for_ipv4() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        an_ipv4_route_has_an_ipv6_gateway("kvm");
    }
}
