//! Packets are forwarded.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use kernel_router::{
    Interface, Neighbour, Origin, PeerNamespace, Queue, QueueKind, Router, RouterConfig, Surroundings,
    interface_sysctl,
};
use netlink::{Generic, Settings};
use netns::Namespace;

use crate::host::{Host, default_route, has, interface, prefix, veth, wait_for};

/// Configures an end station behind the interface `eth0` of its namespace.
fn settle(station: &Namespace, own: [u8; 4], gateway: [u8; 4]) {
    let kernel = station.netlink().expect("a socket");
    kernel.set_link("eth0", &Settings::default().up(true)).expect("up");
    let index = kernel.link("eth0").expect("a link").index;
    kernel.add_address(index, prefix(own, 24)).expect("an address");
    kernel.add_route(prefix([0; 4], 0), gateway.into()).expect("a route");
}

fn socket(station: &Namespace, own: [u8; 4]) -> UdpSocket {
    let socket =
        station.within(|| UdpSocket::bind((IpAddr::from(own), 0))).expect("inside").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    socket
}

const ALICE: [u8; 4] = [10, 0, 1, 2];
const BOB: [u8; 4] = [10, 0, 2, 2];

/// Returns true if the end of a pair in a station leaves the division of long TCP segments to the receiver (TSO).
fn has_tso(station: &Namespace) -> bool {
    let index = station.netlink().expect("a socket").link("eth0").expect("a link").index;
    let active = station.within(|| Generic::open().and_then(|kernel| kernel.features(index)));
    active.expect("inside").expect("features").iter().any(|name| name == "tx-tcp-segmentation")
}

/// Returns true if a datagram from Alice reaches Bob within some attempts: the first ones may be lost during neighbour
/// resolution.
fn reaches(host: &Host) -> bool {
    let (from, to) = (socket(&host.others["alice"], ALICE), socket(&host.others["bob"], BOB));
    let address: SocketAddr = to.local_addr().expect("an address");
    (0..600).any(|_| {
        let _ = from.send_to(b"through", address);
        to.recv_from(&mut [0; 16]).is_ok_and(|(len, sender)| len == 7 && sender.ip() == IpAddr::from(ALICE))
    })
}

fn edge(change: impl FnOnce(&mut Interface)) -> RouterConfig {
    let at = |name: &str| PeerNamespace::Router(name.to_owned());
    let mut wan = interface("wan", veth("eth0", at("alice")), [10, 0, 1, 1]);
    change(&mut wan);
    let lan = interface("lan", veth("eth0", at("bob")), [10, 0, 2, 1]);
    RouterConfig::new("edge", vec![wan, lan])
}

fn between(wanted: RouterConfig) -> (Host, Router) {
    let mut host = Host::new(&["alice", "bob"]);
    let router = host.start(wanted).expect("started");
    settle(&host.others["alice"], ALICE, [10, 0, 1, 1]);
    settle(&host.others["bob"], BOB, [10, 0, 2, 1]);
    (host, router)
}

#[test]
fn a_router_forwards_and_counts() {
    support::needs!(Root);
    let (host, router) = between(edge(|_| {}));
    assert!(reaches(&host), "nothing comes through");
    let counters = router.counters().expect("counters");
    let packets = &counters.packets;
    assert!(
        packets.forwarded.get() > 0 && packets.in_packets.get() >= packets.forwarded.get(),
        "{packets:?}"
    );
    let (wan, lan) = (&counters.interfaces["wan"], &counters.interfaces["lan"]);
    assert!(wan.rx_frames.get() > 0 && lan.tx_frames.get() > 0, "{counters:?}");
    wait_for("carriers", || {
        router.health().expect("looks").iter().all(|(_, health)| health.is_there && health.carrier)
    });
    assert!(router.plan(router.wanted()).expect("a plan").is_empty(), "nothing is left to do");
    let alice = host.others["alice"].netlink().expect("a socket");
    assert!(has(&alice, "eth0"));
    router.end().expect("ended");
    assert!(!has(&alice, "eth0"), "the other end goes at once");
}

#[test]
fn what_it_is_told_not_to_forward_it_counts_as_lost() {
    support::needs!(Root);
    let (mut host, mut router) = between(edge(|_| {}));
    assert!(reaches(&host), "nothing comes through");
    // Alice's network is no longer where the router expects it.
    let mut other = edge(|wan| wan.addresses = vec![prefix([10, 0, 9, 1], 24), prefix([10, 0, 1, 1], 32)]);
    other.sysctls.insert(interface_sysctl("wan", "rp_filter"), "1".to_owned());
    host.apply(&mut router, &other).expect("applied");
    let lost = |router: &Router| router.counters().expect("counters").packets.drop_reverse_path.get();
    let before = lost(&router);
    let from = socket(&host.others["alice"], ALICE);
    wait_for("a packet that is lost", || {
        let _ = from.send_to(b"lost", (IpAddr::from(BOB), 9));
        lost(&router) > before
    });
    host.apply(&mut router, &edge(|_| {})).expect("applied");
}

#[test]
fn an_interface_that_is_pulled_carries_nothing_until_it_is_back() {
    support::needs!(Root);
    let (mut host, mut router) = between(edge(|_| {}));
    assert!(reaches(&host), "nothing comes through");
    let told = host.apply(&mut router, &edge(|wan| wan.up = false)).expect("applied");
    assert_eq!(told, ["wan: up becomes down"]);
    let wan = router.health().expect("looks")[0].1;
    assert!(wan.is_there && !wan.carrier, "{wan:?}");
    host.apply(&mut router, &edge(|_| {})).expect("applied");
    assert!(reaches(&host), "nothing comes through");
}

#[test]
fn a_pair_whose_receive_work_is_threads_forwards() {
    support::needs!(Root);
    let (mut host, mut router) = between(edge(|wan| wan.threaded = true));
    assert!(reaches(&host), "nothing comes through");
    assert!(router.plan(router.wanted()).expect("a plan").is_empty(), "it is so");
    let sysfs = router.namespace().sysfs().expect("a sysfs");
    assert_eq!(sysfs.read("class/net/wan/threaded").expect("read"), "1");
    assert!(!has_tso(&host.others["alice"]), "such frames would bypass the threads");
    assert!(has_tso(&host.others["bob"]));
    // Kernel threads may be hidden by the PID namespace.
    for thread in router.threads().expect("threads") {
        assert_eq!(thread.interface, "wan");
        assert!(thread.name.starts_with("napi/"), "{thread:?}");
    }
    let site = Surroundings { home: &host.home, others: &host.others };
    let lost = router.lost_before(&site).expect("the other end tells");
    assert_eq!(lost.keys().collect::<Vec<_>>(), ["wan"], "the other pair has no queue");
    host.apply(&mut router, &edge(|_| {})).expect("applied");
    assert_eq!(sysfs.read("class/net/wan/threaded").expect("read"), "0");
    assert!(has_tso(&host.others["alice"]));
    assert!(router.threads().expect("threads").is_empty());
    assert!(reaches(&host), "nothing comes through");
}

#[test]
fn frames_wait_at_the_other_end_and_those_that_are_lost_there_are_counted() {
    support::needs!(Root);
    let with = |kind, limit| edge(|wan| wan.queue = Some(Queue { kind, limit }));
    let (mut host, mut router) = between(with(QueueKind::Pfifo, 300));
    assert!(reaches(&host), "nothing comes through");
    let alice = host.others["alice"].netlink().expect("a socket");
    let index = alice.link("eth0").expect("a link").index;
    let is = || alice.queue(index).expect("a state").queue;
    assert_eq!(is(), Some(Queue { kind: QueueKind::Pfifo, limit: 300 }));
    let dropped = |host: &Host, router: &Router| {
        let site = Surroundings { home: &host.home, others: &host.others };
        router.dropped_by_queues(&site).expect("the other end tells")
    };
    assert_eq!(dropped(&host, &router).into_iter().collect::<Vec<_>>(), [("wan".to_owned(), 0)]);
    // No frame is as short as this.
    let told = host.apply(&mut router, &with(QueueKind::Bfifo, 1)).expect("applied");
    let expected = "wan: a pfifo of 300 frames at the other end becomes a bfifo of 1 octets at the other end";
    assert_eq!(told, [expected]);
    let from = socket(&host.others["alice"], ALICE);
    wait_for("a frame that is lost", || {
        let _ = from.send_to(b"lost", (IpAddr::from(BOB), 9));
        dropped(&host, &router)["wan"] > 0
    });
    // Somebody else takes it away.
    alice.remove_queue(index).expect("removed");
    assert_eq!(host.repair(&mut router), 1);
    assert_eq!(is(), Some(Queue { kind: QueueKind::Bfifo, limit: 1 }));
    host.apply(&mut router, &edge(|_| {})).expect("applied");
    assert_eq!(is(), None);
    assert!(dropped(&host, &router).is_empty() && reaches(&host), "nothing comes through");
    // An end that its user has moved has lost its queue, and is left alone.
    host.apply(&mut router, &with(QueueKind::Pfifo, 300)).expect("applied");
    let elsewhere = Namespace::new().expect("a namespace");
    alice.move_link(index, elsewhere.as_fd(), &Settings::default()).expect("moved");
    assert_eq!(host.repair(&mut router), 0);
    assert!(dropped(&host, &router).is_empty());
}

#[test]
fn two_routers_are_joined_by_a_pair() {
    support::needs!(Root);
    let mut host = Host::new(&["alice", "bob"]);
    let at = |name: &str| PeerNamespace::Router(name.to_owned());
    let core = Namespace::new().expect("a namespace");
    host.others.insert("core".to_owned(), core.clone());
    let uplink = interface("uplink", veth("down", at("core")), [10, 0, 3, 1]);
    let wan = interface("wan", veth("eth0", at("alice")), [10, 0, 1, 1]);
    let mut wanted = RouterConfig::new("edge", vec![wan, uplink]);
    wanted.routes = vec![default_route([10, 0, 3, 2], "uplink")];
    let _edge = host.start(wanted).expect("started");
    let lan = interface("lan", veth("eth0", at("bob")), [10, 0, 2, 1]);
    let down = interface("down", Origin::External, [10, 0, 3, 2]);
    let mut wanted = RouterConfig::new("core", vec![lan, down]);
    wanted.routes = vec![default_route([10, 0, 3, 1], "down")];
    let ip = BOB.into();
    let bob = host.others["bob"].clone();
    let site = kernel_router::Surroundings { home: &host.home, others: &host.others };
    let mut router = Router::start_in(core, wanted.clone(), &site, &mut |_| {}).expect("started");
    settle(&host.others["alice"], ALICE, [10, 0, 1, 1]);
    settle(&bob, BOB, [10, 0, 2, 1]);
    assert!(reaches(&host), "nothing comes through");
    // A permanent neighbour is not resolved.
    let mac = bob.netlink().expect("a socket").link("eth0").expect("a link").mac.expect("an address");
    wanted.neighbours = vec![Neighbour { interface: "lan".to_owned(), ip, mac }];
    let told = host.apply(&mut router, &wanted).expect("applied");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("lan: add the neighbour 10.0.2.2 "), "{told:?}");
    assert!(reaches(&host), "nothing comes through");
}
