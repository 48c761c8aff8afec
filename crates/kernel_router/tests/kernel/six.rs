//! IPv6 packets are forwarded, and routes forward nothing if they have a type.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use kernel_router::{Interface, MAIN, PeerNamespace, Route, Router, RouterConfig, TypedRoute};
use netlink::{Address, Prefix, Route as Entered, RouteKind, Settings};
use netns::Namespace;

use crate::host::{Host, interface, prefix, veth, wait_for};
use crate::stays::router_has_no_ipv6;

/// Number of the router's routing protocol.
const PROTOCOL: u8 = 114;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn six(text: &str, len: u8) -> Prefix {
    Prefix::new(ip(text), len).expect("a prefix")
}

/// A router between Alice and Bob.
fn edge() -> RouterConfig {
    let side = |name: &str, station: &str, four, own: &str| {
        let plain = interface(name, veth("eth0", PeerNamespace::Router(station.to_owned())), four);
        let addresses = plain.addresses.iter().copied().chain([six(own, 64)]).collect();
        Interface { addresses, ..plain }
    };
    let wan = side("wan", "alice", [10, 0, 1, 1], "2001:db8:1::1");
    let lan = side("lan", "bob", [10, 0, 2, 1], "2001:db8:2::1");
    RouterConfig::new("edge", vec![wan, lan])
}

/// Gives an end station an address of its interface `eth0`.
fn address(station: &Namespace, own: &str) {
    let kernel = station.netlink().expect("a socket");
    // Its own addresses can be used at once.
    for key in ["all", "default", "eth0"].map(|of| format!("net/ipv6/conf/{of}/accept_dad")) {
        station.set_sysctl(&key, "0").expect("set");
    }
    kernel.set_link("eth0", &Settings::default().up(true)).expect("up");
    let index = kernel.link("eth0").expect("a link").index;
    kernel.add_address(index, six(own, 64)).expect("an address");
}

/// Configures an end station behind the interface `eth0` of its namespace.
fn settle(station: &Namespace, own: &str, gateway: &str) {
    address(station, own);
    let kernel = station.netlink().expect("a socket");
    kernel.add_route(six("::", 0), ip(gateway)).expect("a route");
}

fn between(wanted: RouterConfig) -> (Host, Router) {
    let mut host = Host::new(&["alice", "bob"]);
    let router = host.start(wanted).expect("started");
    settle(&host.others["alice"], "2001:db8:1::2", "2001:db8:1::1");
    settle(&host.others["bob"], "2001:db8:2::2", "2001:db8:2::1");
    (host, router)
}

/// Returns true if a datagram from Alice reaches Bob within some attempts: the router uses its addresses a second after it has
/// found no other station that has them.
fn reaches(host: &Host) -> bool {
    let socket = |station: &str| {
        let bound = host.others[station].within(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)));
        let socket = bound.expect("inside").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
        socket
    };
    let (from, at) = (socket("alice"), socket("bob"));
    let to = (ip("2001:db8:2::2"), at.local_addr().expect("an address").port());
    (0..600).any(|_| {
        let _ = from.send_to(b"through", to);
        at.recv_from(&mut [0; 16]).is_ok_and(|(len, _)| len == 7)
    })
}

#[test]
fn a_router_forwards_ipv6_and_counts() {
    support::needs!(Root);
    if router_has_no_ipv6() {
        return println!("SKIPPED: this kernel has no IPv6");
    }
    let (mut host, mut router) = between(edge());
    assert!(router.plan(router.wanted()).expect("a plan").is_empty(), "nothing is left to do");
    assert!(reaches(&host), "nothing comes through");
    let counted = router.counters().expect("counters").packets_six.expect("it takes part");
    assert!(counted.forwarded.get() > 0, "{counted:?}");
    assert!(router.duplicates().expect("looks").is_empty());
    // An interface without an IPv6 address takes no part.
    let mut other = edge();
    other.interfaces[1].addresses.truncate(1);
    let other = RouterConfig::new("edge", other.interfaces);
    host.apply(&mut router, &other).expect("applied");
    let kernel = router.namespace().netlink().expect("a socket");
    let index = kernel.link("lan").expect("a link").index;
    let of_lan: Vec<Address> = kernel.all().expect("a dump");
    assert!(!of_lan.iter().any(|own| own.index == index && own.prefix.ip.is_ipv6()), "{of_lan:?}");
    host.apply(&mut router, &edge()).expect("applied");
    assert!(reaches(&host), "nothing comes through");
}

#[test]
fn an_address_that_another_station_has_is_found() {
    support::needs!(Root);
    if router_has_no_ipv6() {
        return println!("SKIPPED: this kernel has no IPv6");
    }
    let mut host = Host::new(&["alice", "bob"]);
    let mut wanted = edge();
    let mut router = host.start(RouterConfig::new("edge", Vec::new())).expect("started");
    wanted.interfaces[0].up = false;
    host.apply(&mut router, &wanted).expect("applied");
    address(&host.others["alice"], "2001:db8:1::1");
    host.apply(&mut router, &edge()).expect("applied");
    let found = [("wan".to_owned(), ip("2001:db8:1::1"))];
    wait_for("a duplicate", || router.duplicates().expect("looks") == found);
}

/// The router's routes with a type.
fn typed(router: &Router) -> Vec<(Prefix, RouteKind)> {
    let all: Vec<Entered> = router.namespace().netlink().expect("a socket").all().expect("a dump");
    let own = all.into_iter().filter(|route| route.protocol == PROTOCOL && route.kind != RouteKind::Unicast);
    let mut own: Vec<_> = own.map(|route| (route.id.to, route.kind)).collect();
    own.sort();
    own
}

#[test]
fn routes_that_forward_nothing_come_and_go() {
    support::needs!(Root);
    if router_has_no_ipv6() {
        return println!("SKIPPED: this kernel has no IPv6");
    }
    let mut host = Host::new(&["alice", "bob"]);
    let (four, near, far) =
        (prefix([203, 0, 113, 0], 24), prefix([10, 9, 0, 0], 16), six("2001:db8:9::", 48));
    let kinds = [(near, RouteKind::Unreachable), (four, RouteKind::Blackhole), (far, RouteKind::Prohibit)];
    let wanted = RouterConfig {
        typed: kinds.map(|(to, kind)| TypedRoute { to, kind, metric: 0, table: MAIN }).into(),
        ..edge()
    };
    let mut router = host.start(wanted.clone()).expect("started");
    assert_eq!(typed(&router), kinds);
    assert!(router.plan(&wanted).expect("a plan").is_empty());
    // Also where IPv6 is disabled, which removes those of IPv6 for a moment.
    let mut without = wanted.clone();
    without.interfaces.iter_mut().for_each(|own| own.addresses.truncate(1));
    without.sysctls = RouterConfig::new("edge", without.interfaces.clone()).sysctls;
    host.apply(&mut router, &without).expect("applied");
    assert_eq!(typed(&router), kinds);
    host.restart(&mut router);
    assert_eq!(typed(&router), kinds);
    // One of them becomes a route that forwards.
    without.typed.remove(1);
    let via = Some([10, 0, 1, 2].into());
    without.routes.push(Route { to: four, via, interface: "wan".to_owned(), metric: 0, table: MAIN });
    host.apply(&mut router, &without).expect("applied");
    assert_eq!(typed(&router), [kinds[0], kinds[2]]);
    without.typed.clear();
    host.apply(&mut router, &without).expect("applied");
    assert!(typed(&router).is_empty());
}
