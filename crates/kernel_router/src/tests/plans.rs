//! Steps lead from any observed state to any desired one, and back if they are interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink::Prefix;
use proptest::prelude::*;

use super::model::{OWN_MAC, OWN_MTU, fresh, take, take_all};
use crate::six::NO_IPV6;
use crate::{
    Interface, Mode, Neighbour, Object, ObservedState, Obstacle, Origin, PeerNamespace, Queue, QueueKind,
    Route, RouteType, RouterConfig, Setting, SpreadRoute, Step, TypedRoute, Way, check, interface_sysctl,
    steps,
};

const NAMES: [&str; 3] = ["wan", "lan", "dmz"];

/// Numbers from which decisions are derived.
struct Picks<'a>(std::slice::Iter<'a, u8>);

impl Picks<'_> {
    fn of(&mut self, most: usize) -> usize {
        self.0.next().map_or(0, |number| usize::from(*number) % most)
    }

    fn yes(&mut self) -> bool {
        self.of(2) == 1
    }

    /// Picks some of these.
    fn some<T>(&mut self, all: impl IntoIterator<Item = T>) -> Vec<T> {
        all.into_iter().filter(|_| self.yes()).collect()
    }
}

fn v4(octets: [u8; 4], len: u8) -> Prefix {
    Prefix::new(octets, len).expect("a prefix")
}

fn v6(segments: [u16; 8], len: u8) -> Prefix {
    Prefix::new(Ipv6Addr::from(segments), len).expect("a prefix")
}

fn pfifo(limit: u32) -> Queue {
    Queue { kind: QueueKind::Pfifo, limit }
}

/// A possible configuration of interface `n`.
fn interface(n: usize, picks: &mut Picks<'_>) -> Interface {
    let name = NAMES[n];
    let veth =
        |peer: &str| Origin::Veth { peer: format!("{peer}{n}"), at: PeerNamespace::Home, bridge: None };
    let origin = match picks.of(6) {
        0 | 1 => veth("x"),
        2 => veth("y"),
        3 => Origin::Macvlan { parent: "eth0".to_owned(), mode: Mode::Bridge },
        4 => Origin::Moved { link: format!("eth{}", n + 1) },
        _ => Origin::External,
    };
    let octet = n as u8;
    let v4_own = (0..3).map(|m| v4([10, octet, m, 1], 24));
    let v6_own = v6([0x2001, 0xdb8, n as u16, 0, 0, 0, 0, 1], 64);
    let may_be_threaded = !matches!(origin, Origin::Macvlan { .. });
    let has_other_end = matches!(origin, Origin::Veth { .. });
    Interface {
        mac: [None, Some([2, 0, 0, 0, 0, octet]), Some([2, 0, 0, 0, 1, octet])][picks.of(3)],
        mtu: [None, Some(OWN_MTU), Some(9000)][picks.of(3)],
        up: picks.of(4) != 0,
        addresses: picks.some(v4_own.chain([v6_own])),
        threaded: may_be_threaded && picks.yes(),
        queue: [None, Some(100), Some(200)][picks.of(3)].filter(|_| has_other_end).map(pfifo),
        ..Interface::new(name, origin)
    }
}

/// Routes over an interface: through gateways in its networks, on the link, and through gateways in networks on the
/// link.
fn routes(interface: &Interface, picks: &mut Picks<'_>) -> Vec<Route> {
    let n = NAMES.iter().position(|name| *name == interface.name).expect("a name") as u8;
    let route =
        |to, via: Option<IpAddr>, metric| Route { to, via, interface: interface.name.clone(), metric };
    let mut all = Vec::new();
    for own in &interface.addresses {
        let metric = [0, 5][picks.of(2)];
        let (to, via): (Prefix, IpAddr) = match own.ip {
            IpAddr::V4(ip) => {
                let [.., net, _] = ip.octets();
                (v4([192, 168, picks.of(4) as u8, 0], 24), Ipv4Addr::new(10, n, net, 254).into())
            }
            IpAddr::V6(_) => {
                let gateway = Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, 0xfe);
                (v6([0x2001, 0xdb8, 0xff00, picks.of(3) as u16, 0, 0, 0, 0], 64), gateway.into())
            }
        };
        if picks.yes() {
            all.push(route(to, Some(via), metric));
        }
    }
    if picks.yes() {
        all.push(route(v4([172, 16, n, 0], 24), None, 0));
        if picks.yes() {
            all.push(route(v4([198, 51, 100, 0], 24), Some([172, 16, n, 9].into()), 7));
        }
    }
    all
}

/// A route with a gateway behind each of some interfaces that have an address.
fn spread(interfaces: &[Interface], picks: &mut Picks<'_>) -> SpreadRoute {
    let mut ways = BTreeSet::new();
    for interface in interfaces {
        let networks = interface.addresses.iter().filter_map(|own| match own.ip {
            IpAddr::V4(ip) => Some(IpAddr::from(Ipv4Addr::from((ip.to_bits() & !0xff) | 0xfc))),
            IpAddr::V6(_) => None,
        });
        for via in picks.some(networks) {
            ways.insert(Way { via, interface: interface.name.clone(), weight: 1 + picks.of(3) as u16 });
        }
    }
    SpreadRoute { to: v4([203, 0, 113, 0], 24), ways }
}

fn wanted(numbers: &[u8]) -> RouterConfig {
    let picks = &mut Picks(numbers.iter());
    let places = picks.some(0..NAMES.len());
    let interfaces: Vec<Interface> = places.into_iter().map(|n| interface(n, picks)).collect();
    let mut wanted =
        RouterConfig { published: Some("edge".to_owned()), ..RouterConfig::new("edge", interfaces) };
    let mut ids = BTreeSet::new();
    for interface in wanted.interfaces.clone() {
        let new = routes(&interface, picks);
        wanted.routes.extend(new.into_iter().filter(|route| ids.insert((route.to, route.metric))));
        let last = |own: &Prefix| match own.ip {
            IpAddr::V4(ip) => IpAddr::from(Ipv4Addr::from((ip.to_bits() & !0xff) | 0xfd)),
            IpAddr::V6(ip) => Ipv6Addr::from((ip.to_bits() & !0xff) | 0xfd).into(),
        };
        let mac = [2, 0, 0, 0, 2, picks.of(2) as u8];
        let near = picks.some(interface.addresses.iter().map(last)).into_iter();
        let name = interface.name.clone();
        wanted.neighbours.extend(near.map(|ip| Neighbour { interface: name.clone(), ip, mac }));
        let filter = picks.of(3).to_string();
        wanted.sysctls.insert(interface_sysctl(&interface.name, "rp_filter"), filter);
    }
    let typed = (0..4).map(|n| v4([192, 168, n, 0], 24));
    let typed = typed.chain((0..3).map(|n| v6([0x2001, 0xdb8, 0xff00, n, 0, 0, 0, 0], 64)));
    for to in picks.some(typed).into_iter().filter(|to| ids.insert((*to, 0))) {
        let kind = [RouteType::Blackhole, RouteType::Unreachable, RouteType::Prohibit][picks.of(3)];
        wanted.typed.push(TypedRoute { to, kind });
    }
    let spread = spread(&wanted.interfaces, picks);
    wanted.spread.extend(Some(spread).filter(|route| !route.ways.is_empty()));
    wanted
}

/// An empty namespace of a kernel with IPv6, with the interfaces that others provide to these routers.
fn empty(all: &[&RouterConfig]) -> ObservedState {
    let mut seen = ObservedState::default();
    for wanted in all {
        let given = wanted.interfaces.iter().filter(|interface| interface.origin == Origin::External);
        let given = given.map(|interface| (interface.name.clone(), fresh(Some(Origin::External))));
        seen.interfaces.extend(given);
        let whole = wanted.sysctls.keys().filter(|key| crate::config::interface_of(key).is_none());
        seen.sysctls.extend(whole.map(|key| (key.clone(), "0".to_owned())));
    }
    all.iter().fold(seen, |seen, wanted| with_parameters(seen, wanted))
}

/// Gives a value to each parameter of an existing interface.
fn with_parameters(mut seen: ObservedState, wanted: &RouterConfig) -> ObservedState {
    for key in wanted.sysctls.keys() {
        if crate::config::interface_of(key).is_some_and(|name| seen.interfaces.contains_key(name)) {
            seen.sysctls.entry(key.clone()).or_insert_with(|| "0".to_owned());
        }
    }
    seen
}

/// Two configurations whose interfaces of one name are either both provided by others or both not, because no steps
/// lead from one to the other.
fn compatible(before: &RouterConfig, after: &RouterConfig) -> bool {
    let is_given = |interface: &Interface| interface.origin == Origin::External;
    before
        .interfaces
        .iter()
        .all(|one| after.interface(&one.name).is_none_or(|other| is_given(other) == is_given(one)))
}

/// Changes by others to a namespace, with their side effects in the kernel.
fn meddle(seen: &mut ObservedState, numbers: &[u8]) {
    let picks = &mut Picks(numbers.iter());
    for name in NAMES {
        let Some(present) = seen.interfaces.get_mut(name) else { continue };
        let lost = match picks.of(6) {
            0 => {
                (present.up, present.carrier, present.threaded) = (false, false, false);
                present.addresses.retain(|own| own.ip.is_ipv4());
                true
            }
            1 if present.origin != Some(Origin::External) => {
                seen.interfaces.remove(name);
                seen.sysctls.retain(|key, _| crate::config::interface_of(key) != Some(name));
                true
            }
            2 => {
                present.addresses.clear();
                true
            }
            3 => {
                present.mtu = 1400;
                present.queue = None;
                false
            }
            _ => false,
        };
        if lost {
            seen.routes.retain(|route| route.interface != name);
            let left = std::mem::take(&mut seen.spread).into_iter().map(|mut route| {
                route.ways.retain(|way| way.interface != name);
                route
            });
            seen.spread = left.filter(|route| !route.ways.is_empty()).collect();
            seen.neighbours.retain(|(interface, _), _| interface != name);
        }
    }
}

/// Asserts that the observed state is the desired one, as far as that is specified.
fn assert_is(seen: &ObservedState, wanted: &RouterConfig) {
    let now = wanted.applicable();
    for interface in &now.interfaces {
        let present = &seen.interfaces[&interface.name];
        assert_eq!(present.origin.as_ref(), Some(&interface.origin));
        assert_eq!((present.up, present.threaded), (interface.up, interface.threaded));
        assert_eq!(present.queue, interface.queue);
        assert_eq!(present.addresses, interface.addresses.iter().copied().collect::<BTreeSet<_>>());
        assert!(interface.mac.is_none_or(|mac| present.mac == Some(mac)));
        assert!(interface.mtu.is_none_or(|mtu| present.mtu == mtu));
    }
    for (name, present) in seen.interfaces.iter().filter(|(name, _)| now.interface(name).is_none()) {
        assert_eq!(present.origin, Some(Origin::External), "{name} stays");
        assert!(!present.up && present.addresses.is_empty(), "{name} is still in use");
    }
    assert_eq!(seen.routes, now.routes.iter().cloned().collect::<BTreeSet<_>>());
    assert_eq!(seen.spread, now.spread.iter().cloned().collect::<BTreeSet<_>>());
    assert_eq!(seen.typed, now.typed.iter().copied().collect::<BTreeSet<_>>());
    let neighbours = now.neighbours.iter().map(|one| ((one.interface.clone(), one.ip), one.mac));
    assert_eq!(seen.neighbours, neighbours.collect::<BTreeMap<_, _>>());
    for (key, value) in &now.sysctls {
        assert_eq!(seen.sysctls.get(key), Some(value), "{key}");
    }
}

/// Executes the steps from the observed state to the desired one. Routes with several gateways by new interfaces need a second look.
fn reach(seen: &mut ObservedState, wanted: &RouterConfig) {
    for _ in 0..2 {
        let all = steps(wanted, seen).expect("nothing in the way");
        take_all(seen, &all);
    }
}

fn numbers() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..80)
}

proptest! {
    #[test]
    fn steps_lead_from_what_is_seen_to_what_is_wanted(
        (one, other, outside) in (numbers(), numbers(), numbers())
    ) {
        let (before, after) = (wanted(&one), wanted(&other));
        prop_assume!(compatible(&before, &after));
        prop_assert_eq!(check(&before), Ok(()));
        let mut seen = empty(&[&before, &after]);
        reach(&mut seen, &before);
        assert_is(&seen, &before);
        meddle(&mut seen, &outside);
        let mut seen = with_parameters(seen, &after);
        reach(&mut seen, &after);
        assert_is(&seen, &after);
        prop_assert_eq!(steps(&after, &seen), Ok(Vec::new()), "nothing is left to do");
    }

    #[test]
    fn wherever_steps_are_stopped_they_lead_back(
        (one, other, outside, stop) in (numbers(), numbers(), numbers(), any::<prop::sample::Index>())
    ) {
        let (before, after) = (wanted(&one), wanted(&other));
        prop_assume!(compatible(&before, &after));
        let mut seen = empty(&[&before, &after]);
        reach(&mut seen, &before);
        meddle(&mut seen, &outside);
        let start = with_parameters(seen, &after);
        let all = steps(&after, &start).expect("nothing in the way");
        let done = &all[..stop.index(all.len() + 1)];
        let mut seen = start.clone();
        take_all(&mut seen, done);
        done.iter().rev().filter_map(Step::inverse).for_each(|step| take(&mut seen, &step));
        // Parameters disappear with their interfaces, and are created with the kernel's defaults.
        let lost = |key: &String| crate::config::interface_of(key).is_some();
        seen.sysctls.retain(|key, _| !lost(key));
        let mut start = start;
        start.sysctls.retain(|key, _| !lost(key));
        prop_assert_eq!(seen, start);
    }
}

fn one_interface(change: impl FnOnce(&mut Interface)) -> RouterConfig {
    let origin = Origin::Veth { peer: "x".to_owned(), at: PeerNamespace::Home, bridge: None };
    let mut wan = Interface { addresses: vec![v4([192, 0, 2, 1], 24)], ..Interface::new("wan", origin) };
    change(&mut wan);
    let via = Some([192, 0, 2, 254].into());
    let route = Route { to: v4([0; 4], 0), via, interface: "wan".to_owned(), metric: 0 };
    RouterConfig { routes: vec![route], ..RouterConfig::new("edge", vec![wan]) }
}

fn running(wanted: &RouterConfig) -> ObservedState {
    let mut seen = empty(&[wanted]);
    reach(&mut seen, wanted);
    seen
}

fn told(wanted: &RouterConfig, seen: &ObservedState) -> Vec<String> {
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
    let typed = |kind, to| TypedRoute { kind, to };
    let (four, six) = (v4([203, 0, 113, 0], 24), v6([0x2001, 0xdb8, 1, 0, 0, 0, 0, 0], 48));
    let mut wanted = with_ipv6();
    wanted.typed = vec![typed(RouteType::Blackhole, four), typed(RouteType::Prohibit, six)];
    let all = told(&wanted, &running(&with_ipv6()));
    assert_eq!(all, ["add the route blackhole 203.0.113.0/24", "add the route prohibit 2001:db8:1::/48"]);
    let mut other = wanted.clone();
    other.typed[0].kind = RouteType::Unreachable;
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
    let spread = vec![SpreadRoute { to: v4([203, 0, 113, 0], 24), ways }];
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

#[test]
fn a_vlan_goes_before_the_interface_below_it_and_comes_after_it() {
    let vlan = |lower: &str| {
        let origin = Origin::Vlan { lower: lower.to_owned(), id: 7 };
        Interface { addresses: vec![v4([10, 7, 0, 1], 24)], ..Interface::new("a-guests", origin) }
    };
    let mut wanted = one_interface(|_| {});
    wanted.interfaces.push(vlan("wan"));
    wanted.sysctls = RouterConfig::new("edge", wanted.interfaces.clone()).sysctls;
    let before = running(&wanted);
    // Another pair: the VLAN of the former one goes as well.
    let mut other = wanted.clone();
    other.interfaces[0].origin = Origin::Veth { peer: "y".to_owned(), at: PeerNamespace::Home, bridge: None };
    let moves = ["a pair", "VLAN 7", "up becomes down", "down becomes up"];
    let all: Vec<String> = told(&other, &before);
    let all: Vec<&String> =
        all.iter().filter(|step| moves.iter().any(|words| step.contains(words))).collect();
    let expected = [
        "a-guests: up becomes down",
        "a-guests: remove VLAN 7 of `wan`",
        "wan: up becomes down",
        "wan: remove a pair with `x` on the host",
        "wan: add a pair with `y` on the host",
        "wan: down becomes up",
        "a-guests: add VLAN 7 of `wan`",
        "a-guests: down becomes up",
    ];
    assert_eq!(all, expected);
    // A cable that is pulled takes the VLAN down, and keeps it.
    let mut pulled = wanted.clone();
    pulled.interfaces[0].up = false;
    let all = told(&pulled, &before);
    assert!(
        all.contains(&"a-guests: up becomes down".to_owned())
            && !all.iter().any(|step| step.contains("VLAN"))
    );
    // The interface below exists, and no VLAN is twice.
    let mut wrong = wanted.clone();
    wrong.interfaces.push(Interface { name: "more".to_owned(), addresses: Vec::new(), ..vlan("wan") });
    assert!(check(&wrong).is_err());
    wrong.interfaces[2] = Interface { name: "more".to_owned(), addresses: Vec::new(), ..vlan("dmz") };
    assert!(check(&wrong).is_err());
    assert_eq!(check(&wanted), Ok(()));
}

#[test]
fn a_vlan_has_at_no_time_a_larger_mtu_than_the_interface_below_it() {
    let sized = |mtu: u32| {
        let origin = Origin::Vlan { lower: "wan".to_owned(), id: 7 };
        let mut wanted = one_interface(|wan| wan.mtu = Some(mtu));
        wanted.interfaces.push(Interface { mtu: Some(mtu), ..Interface::new("guests", origin) });
        wanted.sysctls = RouterConfig::new("edge", wanted.interfaces.clone()).sysctls;
        wanted
    };
    let (large, small) = (sized(1500), sized(1300));
    let lowered = ["guests: MTU 1500 becomes MTU 1300", "wan: MTU 1500 becomes MTU 1300"];
    assert_eq!(told(&small, &running(&large)), lowered);
    let raised = ["wan: MTU 1300 becomes MTU 1500", "guests: MTU 1300 becomes MTU 1500"];
    assert_eq!(told(&large, &running(&small)), raised);
}
