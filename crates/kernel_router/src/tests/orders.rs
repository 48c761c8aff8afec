//! Steps of single changes, in their order.

use std::collections::BTreeSet;

use netlink::RouteKind;

use super::model::{OWN_MAC, fresh, take_all};
use super::plans::{assert_is, empty, pfifo, reach, v4, v6};
use crate::six::NO_IPV6;
use crate::{
    Interface, MAIN, Mode, Object, ObservedState, Obstacle, Origin, PeerNamespace, Route, RouterConfig,
    Setting, SpreadRoute, Step, TypedRoute, Way, steps,
};

pub(super) fn one_interface(change: impl FnOnce(&mut Interface)) -> RouterConfig {
    let origin = Origin::Veth { peer: "x".to_owned(), at: PeerNamespace::Home, bridge: None };
    let mut wan = Interface { addresses: vec![v4([192, 0, 2, 1], 24)], ..Interface::new("wan", origin) };
    change(&mut wan);
    let via = Some([192, 0, 2, 254].into());
    let route = Route { to: v4([0; 4], 0), via, interface: "wan".to_owned(), metric: 0, table: MAIN };
    RouterConfig { routes: vec![route], ..RouterConfig::new("edge", vec![wan]) }
}

pub(super) fn running(wanted: &RouterConfig) -> ObservedState {
    let mut seen = empty(&[wanted]);
    reach(&mut seen, wanted);
    seen
}

pub(super) fn told(wanted: &RouterConfig, seen: &ObservedState) -> Vec<String> {
    steps(wanted, seen).expect("nothing in the way").iter().map(ToString::to_string).collect()
}

#[test]
fn a_router_is_set_up_in_an_order_that_the_kernel_takes() {
    let wanted = one_interface(|_| {});
    let expected = [
        "net/ipv4/ip_forward: 0 becomes 1",
        "net/ipv4/conf/all/promote_secondaries: 0 becomes 1",
        "net/ipv6/conf/all/disable_ipv6: 0 becomes 1",
        "net/ipv6/conf/default/disable_ipv6: 0 becomes 1",
        "wan: add a pair with `x` on the host",
        "wan: down becomes up",
        "wan: add the address 192.0.2.1/24",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan",
    ];
    assert_eq!(told(&wanted, &empty(&[&wanted])), expected);
}

#[test]
fn the_last_address_of_an_interface_takes_its_routes_along() {
    let (before, after) =
        (one_interface(|_| {}), one_interface(|wan| wan.addresses = vec![v4([192, 0, 2, 2], 24)]));
    let expected = [
        "wan: remove the route 0.0.0.0/0 via 192.0.2.254 dev wan",
        "wan: remove the address 192.0.2.1/24",
        "wan: add the address 192.0.2.2/24",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan",
    ];
    assert_eq!(told(&after, &running(&before)), expected);
    // If one address stays, the route stays.
    let more = one_interface(|wan| wan.addresses.push(v4([198, 51, 100, 1], 24)));
    assert_eq!(told(&more, &running(&before)), ["wan: add the address 198.51.100.1/24"]);
    assert_eq!(told(&before, &running(&more)), ["wan: remove the address 198.51.100.1/24"]);
}

#[test]
fn an_interface_that_is_pulled_keeps_what_it_can() {
    let (up, down) = (one_interface(|_| {}), one_interface(|wan| wan.up = false));
    let expected = ["wan: remove the route 0.0.0.0/0 via 192.0.2.254 dev wan", "wan: up becomes down"];
    assert_eq!(told(&down, &running(&up)), expected);
    let expected = ["wan: down becomes up", "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan"];
    assert_eq!(told(&up, &running(&down)), expected);
}

#[test]
fn another_origin_is_another_interface() {
    let before = one_interface(|_| {});
    let parent = "eth0".to_owned();
    let after = one_interface(|wan| wan.origin = Origin::Macvlan { parent, mode: Mode::Private });
    let all = told(&after, &running(&before));
    let at =
        |what: &str| all.iter().position(|step| step == what).unwrap_or_else(|| panic!("{what}: {all:?}"));
    assert!(at("wan: remove a pair with `x` on the host") < at("wan: add a macvlan on `eth0` (private)"));
}

#[test]
fn what_is_taken_away_is_made_again() {
    let wanted = one_interface(|_| {});
    let mut seen = running(&wanted);
    seen.interfaces.clear();
    seen.routes.clear();
    let expected = [
        "wan: add a pair with `x` on the host",
        "wan: down becomes up",
        "wan: add the address 192.0.2.1/24",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan",
    ];
    assert_eq!(told(&wanted, &seen), expected);
}

#[test]
fn what_is_somebody_elses_is_in_the_way() {
    let wanted = one_interface(|_| {});
    let mut seen = empty(&[]);
    seen.interfaces.insert("wan".to_owned(), fresh(None));
    assert_eq!(steps(&wanted, &seen), Err(Obstacle::Taken { interface: "wan".to_owned() }));
    seen.interfaces.insert("wan".to_owned(), fresh(Some(Origin::External)));
    assert_eq!(steps(&wanted, &seen), Err(Obstacle::Taken { interface: "wan".to_owned() }));
    let given = one_interface(|wan| wan.origin = Origin::External);
    assert_eq!(
        steps(&given, &ObservedState::default()),
        Err(Obstacle::Missing { interface: "wan".to_owned() })
    );
    assert_eq!(steps(&given, &running(&wanted)), Err(Obstacle::Missing { interface: "wan".to_owned() }));
    assert!(steps(&given, &seen).is_ok());
}

#[test]
fn an_interface_that_is_given_is_neither_made_nor_taken_away() {
    let given = one_interface(|wan| wan.origin = Origin::External);
    let seen = running(&given);
    let nothing = RouterConfig::new("edge", Vec::new());
    let all = steps(&nothing, &seen).expect("nothing in the way");
    let is_whole =
        |step: &Step| matches!(step, Step::Add(Object::Interface(_)) | Step::Remove(Object::Interface(_)));
    assert!(!all.iter().any(is_whole), "{all:?}");
    let mut seen = seen;
    take_all(&mut seen, &all);
    assert_is(&seen, &nothing);
}

#[test]
fn a_kernel_without_ipv6_has_nothing_to_switch_off() {
    let wanted = one_interface(|_| {});
    let mut seen = empty(&[&wanted]);
    seen.sysctls.retain(|key, _| !NO_IPV6.contains(&key.as_str()));
    assert!(!told(&wanted, &seen).iter().any(|step| step.contains("ipv6")));
}

/// A router with an IPv6 address at one of two interfaces.
fn with_ipv6() -> RouterConfig {
    let mut wanted = one_interface(|wan| wan.addresses.push(v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 64)));
    let origin = Origin::Veth { peer: "y".to_owned(), at: PeerNamespace::Home, bridge: None };
    wanted.interfaces.push(Interface::new("lan", origin));
    RouterConfig::new("edge", wanted.interfaces)
}

#[test]
fn ipv6_is_enabled_where_there_is_an_address_before_the_interface_is_up() {
    let wanted = with_ipv6();
    let expected = [
        "net/ipv4/ip_forward: 0 becomes 1",
        "net/ipv4/conf/all/promote_secondaries: 0 becomes 1",
        "net/ipv6/conf/all/forwarding: 0 becomes 1",
        "wan: add a pair with `x` on the host",
        "net/ipv6/conf/wan/accept_dad: 1",
        "net/ipv6/conf/wan/accept_ra: 0",
        "net/ipv6/conf/wan/addr_gen_mode: 0",
        "net/ipv6/conf/wan/disable_ipv6: 0",
        "wan: down becomes up",
        "lan: add a pair with `y` on the host",
        "net/ipv6/conf/lan/disable_ipv6: 1",
        "lan: down becomes up",
        "wan: add the address 192.0.2.1/24",
        "wan: add the address 2001:db8::1/64",
    ];
    assert_eq!(told(&wanted, &empty(&[&wanted])), expected);
    let mut given = wanted;
    given.interfaces[0].addresses.push(v6([0xfe80, 0, 0, 0, 0, 0, 0, 1], 64));
    let sysctls = RouterConfig::new("edge", given.interfaces).sysctls;
    assert_eq!(sysctls["net/ipv6/conf/wan/addr_gen_mode"], "1", "its link-local address is given");
}

#[test]
fn addresses_that_somebody_else_tries_are_used_at_once() {
    let of = |tries_addresses| {
        let mut wanted = with_ipv6();
        wanted.interfaces[0].tries_addresses = tries_addresses;
        let sysctls = RouterConfig::new("edge", wanted.interfaces).sysctls;
        ["accept_dad", "dad_transmits"].map(|key| sysctls.get(&format!("net/ipv6/conf/wan/{key}")).cloned())
    };
    let values = |all: [Option<&str>; 2]| all.map(|value| value.map(str::to_owned));
    assert_eq!(of(true), values([Some("1"), None]));
    assert_eq!(of(false), values([Some("0"), Some("0")]));
}

#[test]
fn an_interface_without_parameters_of_ipv6_needs_none() {
    let wanted = with_ipv6();
    let mut seen = running(&wanted);
    assert!(seen.sysctls.remove("net/ipv6/conf/lan/disable_ipv6").is_some());
    assert_eq!(told(&wanted, &seen), [""; 0], "its MTU may be too small, for example");
    assert!(seen.sysctls.remove("net/ipv6/conf/wan/disable_ipv6").is_some());
    assert_eq!(told(&wanted, &seen), ["net/ipv6/conf/wan/disable_ipv6: 0"]);
}

#[test]
fn a_route_that_forwards_nothing_is_of_no_interface() {
    let typed = |kind, to| TypedRoute { kind, to, metric: 0, table: MAIN };
    let (four, six) = (v4([203, 0, 113, 0], 24), v6([0x2001, 0xdb8, 1, 0, 0, 0, 0, 0], 48));
    let mut wanted = with_ipv6();
    wanted.typed = vec![typed(RouteKind::Blackhole, four), typed(RouteKind::Prohibit, six)];
    let all = told(&wanted, &running(&with_ipv6()));
    assert_eq!(all, ["add the route blackhole 203.0.113.0/24", "add the route prohibit 2001:db8:1::/48"]);
    let mut other = wanted.clone();
    other.typed[0].kind = RouteKind::Unreachable;
    let expected = ["remove the route blackhole 203.0.113.0/24", "add the route unreachable 203.0.113.0/24"];
    assert_eq!(told(&other, &running(&wanted)), expected);
    // Without IPv6 the kernel removes those of IPv6 from `lo`, and takes them again.
    let without = RouterConfig { typed: wanted.typed.clone(), ..one_interface(|_| {}) };
    let all = told(&without, &running(&wanted));
    let place =
        |step: &str| all.iter().position(|one| one == step).unwrap_or_else(|| panic!("{step}: {all:?}"));
    let switched = place("net/ipv6/conf/all/disable_ipv6: 0 becomes 1");
    assert!(place("remove the route prohibit 2001:db8:1::/48") < switched);
    assert!(switched < place("add the route prohibit 2001:db8:1::/48"));
    assert!(!all.iter().any(|step| step.contains("203.0.113.0")), "{all:?}");
}

#[test]
fn a_macvlan_that_takes_an_interface_over_has_its_address() {
    let (parent, mode) = ("eth0".to_owned(), Mode::Passthru);
    let wanted = one_interface(|wan| {
        wan.origin = Origin::Macvlan { parent, mode };
        wan.mac = Some([2, 0, 0, 0, 0, 1]);
    });
    let seen = running(&wanted);
    assert_eq!(seen.interfaces["wan"].mac, Some(OWN_MAC));
    assert_eq!(steps(&wanted, &seen), Ok(Vec::new()));
}

#[test]
fn threads_come_last_and_go_first() {
    let (with, without) = (one_interface(|wan| wan.threaded = true), one_interface(|_| {}));
    let threads = |on: bool| Step::Set {
        interface: "wan".to_owned(),
        from: Setting::Threaded(!on),
        to: Setting::Threaded(on),
    };
    assert_eq!(steps(&with, &running(&without)), Ok(vec![threads(true)]));
    assert_eq!(steps(&without, &running(&with)), Ok(vec![threads(false)]));
    assert_eq!(steps(&with, &empty(&[&with])).expect("nothing in the way").last(), Some(&threads(true)));
}

#[test]
fn a_queue_is_set_before_its_pair_is_up_and_goes_before_it() {
    let with = |limit| one_interface(|wan| wan.queue = Some(pfifo(limit)));
    let without = one_interface(|_| {});
    let queue = |from: Option<u32>, to: Option<u32>| Step::Set {
        interface: "wan".to_owned(),
        from: Setting::Queue(from.map(pfifo)),
        to: Setting::Queue(to.map(pfifo)),
    };
    assert_eq!(steps(&with(9), &running(&without)), Ok(vec![queue(None, Some(9))]));
    assert_eq!(steps(&with(9), &running(&with(5))), Ok(vec![queue(Some(5), Some(9))]));
    assert_eq!(steps(&without, &running(&with(5))), Ok(vec![queue(Some(5), None)]));
    let place = |steps: &[Step], step: &Step| steps.iter().position(|other| other == step).expect("a step");
    let up =
        |from, to| Step::Set { interface: "wan".to_owned(), from: Setting::Up(from), to: Setting::Up(to) };
    let first = steps(&with(5), &empty(&[&without])).expect("nothing in the way");
    assert!(place(&first, &queue(None, Some(5))) < place(&first, &up(false, true)));
    let none = RouterConfig::new("edge", Vec::new());
    let last = steps(&none, &running(&with(5))).expect("nothing in the way");
    assert!(place(&last, &up(true, false)) < place(&last, &queue(Some(5), None)));
    assert!(matches!(last.last(), Some(Step::Remove(Object::Interface(_)))), "{last:?}");
}

#[test]
fn gateways_are_added_once_their_interfaces_have_carrier() {
    let via = [192, 0, 2, 3].into();
    let ways = BTreeSet::from([Way { via, interface: "wan".to_owned(), weight: 3 }]);
    let spread = vec![SpreadRoute { to: v4([203, 0, 113, 0], 24), ways, table: MAIN }];
    let wanted = RouterConfig { spread, ..one_interface(|_| {}) };
    let mut seen = empty(&[&wanted]);
    let all = steps(&wanted, &seen).expect("nothing in the way");
    take_all(&mut seen, &all);
    assert!(seen.spread.is_empty(), "the interface was just created");
    assert_eq!(told(&wanted, &seen), ["add the route 203.0.113.0/24 via 192.0.2.3 dev wan weight 3"]);
    reach(&mut seen, &wanted);
    // Without carrier the kernel has removed the next hop, and takes none.
    seen.interfaces.get_mut("wan").expect("an interface").carrier = false;
    seen.spread.clear();
    assert_eq!(told(&wanted, &seen), [""; 0]);
}
