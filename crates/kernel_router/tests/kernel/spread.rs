//! Routes with several gateways are groups of next hops of the kernel, which lose a gateway with its carrier and get it back.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel_router::{MAIN, PeerNamespace, Router, RouterConfig, SpreadRoute, Way};
use netlink::{NextHopKind, Route as Entered, Settings};

use crate::host::{Host, interface, prefix, veth, wait_for};

/// Number of the router's routing protocol.
const PROTOCOL: u8 = 114;

fn gateway(octet: u8) -> IpAddr {
    [10, 0, octet, 2].into()
}

fn edge() -> RouterConfig {
    let side = |name: &str, station: &str, octet: u8| {
        interface(name, veth("eth0", PeerNamespace::Router(station.to_owned())), [10, 0, octet, 1])
    };
    let way = |octet: u8, interface: &str, weight| Way {
        via: gateway(octet),
        interface: interface.to_owned(),
        weight,
    };
    let ways = BTreeSet::from([way(1, "wan", 3), way(2, "lan", 1)]);
    let spread = vec![SpreadRoute { to: prefix([203, 0, 113, 0], 24), ways, table: MAIN }];
    RouterConfig { spread, ..RouterConfig::new("edge", vec![side("wan", "alice", 1), side("lan", "bob", 2)]) }
}

/// Pulls the cable of an end station, or plugs it in.
fn cable(host: &Host, station: &str, up: bool) {
    let kernel = host.others[station].netlink().expect("a socket");
    kernel.set_link("eth0", &Settings::default().up(up)).expect("set");
}

/// The gateways that the kernel has for the route, with their weights; and how many objects are the router's.
fn gateways(router: &Router) -> (Vec<(IpAddr, u16)>, usize) {
    let kernel = router.namespace().netlink().expect("a socket");
    let objects = kernel.next_hops().expect("a dump");
    let objects: Vec<_> = objects.into_iter().filter(|object| object.protocol == PROTOCOL).collect();
    let routes: Vec<Entered> = kernel.all().expect("a dump");
    let group = routes.iter().find(|route| route.protocol == PROTOCOL).and_then(|route| route.group);
    let kind = |id: u32| objects.iter().find(|object| object.id == id).map(|object| object.kind.clone());
    let members = match group.and_then(kind) {
        Some(NextHopKind::Group(members)) => members,
        _ => Vec::new(),
    };
    let found = members.into_iter().filter_map(|(id, weight)| match kind(id) {
        Some(NextHopKind::Gateway { via, .. }) => Some((via, weight)),
        _ => None,
    });
    let mut found: Vec<_> = found.collect();
    found.sort();
    (found, objects.len())
}

#[test]
fn a_group_of_next_hops_follows_the_carriers() {
    support::needs!(Root);
    let mut host = Host::new(&["alice", "bob"]);
    let mut router = host.start(edge()).expect("started");
    ["alice", "bob"].iter().for_each(|station| cable(&host, station, true));
    let is_up = |router: &Router| router.health().expect("a dump").iter().all(|(_, health)| health.carrier);
    wait_for("carrier", || is_up(&router));
    if router.namespace().netlink().expect("a socket").next_hops().is_err() {
        let refused = host.apply(&mut router, &edge()).expect_err("this kernel has no groups").to_string();
        assert!(refused.contains("no groups of next hops") && refused.lines().count() == 1, "{refused}");
        return;
    }
    let both = vec![(gateway(1), 3), (gateway(2), 1)];
    host.apply(&mut router, &edge()).expect("applied");
    assert_eq!(gateways(&router), (both.clone(), 3));
    assert!(router.plan(&edge()).expect("a plan").is_empty(), "nothing is left to do");
    // The kernel removes the gateway behind a cable that is pulled; nothing can be done about it meanwhile.
    cable(&host, "bob", false);
    wait_for("one gateway", || gateways(&router).0 == both[..1]);
    wait_for("an empty plan", || router.plan(&edge()).expect("a plan").is_empty());
    cable(&host, "bob", true);
    wait_for("work", || !router.plan(&edge()).expect("a plan").is_empty());
    assert!(host.repair(&mut router) > 0);
    assert_eq!(gateways(&router), (both.clone(), 3));
    // Other weights make another group; a route that is gone leaves nothing.
    let mut heavier = edge();
    let ways = std::mem::take(&mut heavier.spread[0].ways);
    heavier.spread[0].ways = ways.into_iter().map(|way| Way { weight: 256, ..way }).collect();
    host.apply(&mut router, &heavier).expect("applied");
    assert_eq!(gateways(&router), (vec![(gateway(1), 256), (gateway(2), 256)], 3));
    host.apply(&mut router, &RouterConfig { spread: Vec::new(), ..edge() }).expect("applied");
    assert_eq!(gateways(&router), (Vec::new(), 0));
    host.apply(&mut router, &edge()).expect("applied");
    // What another program has deleted is laid again.
    let kernel = router.namespace().netlink().expect("a socket");
    let objects = kernel.next_hops().expect("a dump");
    let group = objects.iter().find(|object| matches!(object.kind, NextHopKind::Group(_))).expect("a group");
    kernel.delete_next_hop(group.id).expect("deleted");
    assert!(host.repair(&mut router) > 0);
    assert_eq!(gateways(&router), (both, 3));
}
