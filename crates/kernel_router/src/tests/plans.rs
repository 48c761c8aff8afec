//! Steps lead from any observed state to any desired one, and back if they are interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink::{Prefix, RouteKind};
use proptest::prelude::*;

use super::model::{OWN_MTU, fresh, take, take_all};
use crate::{
    Interface, MAIN, Mode, Neighbour, ObservedState, Origin, PeerNamespace, Queue, QueueKind, Route,
    RouterConfig, SpreadRoute, Step, TypedRoute, Way, check, interface_sysctl, steps,
};

const NAMES: [&str; 3] = ["wan", "lan", "dmz"];
/// Names and tables of VRFs.
const VRFS: [(&str, u32); 2] = [("red", 1001), ("blue", 1002)];
/// Metric of the last route of a VRF.
const LAST: u32 = 4_278_198_272;

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

pub(super) fn v4(octets: [u8; 4], len: u8) -> Prefix {
    Prefix::new(octets, len).expect("a prefix")
}

pub(super) fn v6(segments: [u16; 8], len: u8) -> Prefix {
    Prefix::new(Ipv6Addr::from(segments), len).expect("a prefix")
}

pub(super) fn pfifo(limit: u32) -> Queue {
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
    let table = interface.vrf.unwrap_or(MAIN);
    let route =
        |to, via: Option<IpAddr>, metric| Route { to, via, interface: interface.name.clone(), metric, table };
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

/// Picks some VRFs, and the interfaces that are their ports.
fn with_vrfs(mut interfaces: Vec<Interface>, picks: &mut Picks<'_>) -> Vec<Interface> {
    let vrfs = picks.some(VRFS);
    let table = |at: usize| vrfs.get(at).map(|(_, table)| *table);
    interfaces.iter_mut().for_each(|interface| interface.vrf = table(picks.of(3)));
    interfaces.extend(vrfs.iter().map(|(name, table)| Interface::new(name, Origin::Vrf { table: *table })));
    interfaces
}

/// A route with a gateway behind each of some interfaces that have an address, and are in no VRF.
fn spread(interfaces: &[Interface], picks: &mut Picks<'_>) -> SpreadRoute {
    let mut ways = BTreeSet::new();
    for interface in interfaces.iter().filter(|interface| interface.vrf.is_none()) {
        let networks = interface.addresses.iter().filter_map(|own| match own.ip {
            IpAddr::V4(ip) => Some(IpAddr::from(Ipv4Addr::from((ip.to_bits() & !0xff) | 0xfc))),
            IpAddr::V6(_) => None,
        });
        for via in picks.some(networks) {
            ways.insert(Way { via, interface: interface.name.clone(), weight: 1 + picks.of(3) as u16 });
        }
    }
    SpreadRoute { to: v4([203, 0, 113, 0], 24), ways, table: MAIN }
}

fn wanted(numbers: &[u8]) -> RouterConfig {
    let picks = &mut Picks(numbers.iter());
    let places = picks.some(0..NAMES.len());
    let interfaces: Vec<Interface> = places.into_iter().map(|n| interface(n, picks)).collect();
    let interfaces = with_vrfs(interfaces, picks);
    let mut wanted =
        RouterConfig { published: Some("edge".to_owned()), ..RouterConfig::new("edge", interfaces) };
    let mut ids = BTreeSet::new();
    for interface in wanted.interfaces.clone().into_iter().filter(Interface::is_nic) {
        let new = routes(&interface, picks);
        let new = new.into_iter().filter(|route| ids.insert((route.to, route.metric, route.table)));
        wanted.routes.extend(new);
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
    for to in picks.some(typed).into_iter().filter(|to| ids.insert((*to, 0, MAIN))) {
        let kind = [RouteKind::Blackhole, RouteKind::Unreachable, RouteKind::Prohibit][picks.of(3)];
        wanted.typed.push(TypedRoute { to, kind, metric: 0, table: MAIN });
    }
    for (_, table) in VRFS.into_iter().filter(|(_, table)| wanted.vrf(*table).is_some()).collect::<Vec<_>>() {
        let kind = RouteKind::Unreachable;
        wanted.typed.push(TypedRoute { to: v4([0; 4], 0), kind, metric: LAST, table });
    }
    let spread = spread(&wanted.interfaces, picks);
    wanted.spread.extend(Some(spread).filter(|route| !route.ways.is_empty()));
    wanted
}

/// An empty namespace of a kernel with IPv6, with the interfaces that others provide to these routers.
pub(super) fn empty(all: &[&RouterConfig]) -> ObservedState {
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

/// Deletes some VRFs, which then lose their ports.
fn delete_vrfs(seen: &mut ObservedState, numbers: &[u8]) {
    let picks = &mut Picks(numbers.iter());
    for (name, table) in picks.some(VRFS) {
        if seen.interfaces.remove(name).is_none() {
            continue;
        }
        seen.sysctls.retain(|key, _| crate::config::interface_of(key) != Some(name));
        for (port, present) in seen.interfaces.iter_mut().filter(|(_, present)| present.vrf == Some(table)) {
            present.vrf = None;
            present.addresses.retain(|own| own.ip.is_ipv4());
            seen.routes.retain(|route| route.interface != *port);
            seen.neighbours.retain(|(interface, _), _| interface != port);
        }
    }
}

/// Asserts that the observed state is the desired one, as far as that is specified.
pub(super) fn assert_is(seen: &ObservedState, wanted: &RouterConfig) {
    let now = wanted.applicable();
    for interface in &now.interfaces {
        let present = &seen.interfaces[&interface.name];
        assert_eq!(present.origin.as_ref(), Some(&interface.origin));
        assert_eq!((present.up, present.threaded), (interface.up, interface.threaded));
        assert_eq!((present.queue, present.vrf), (interface.queue, interface.vrf));
        assert_eq!(present.addresses, interface.addresses.iter().copied().collect::<BTreeSet<_>>());
        assert!(interface.mac.is_none_or(|mac| present.mac == Some(mac)));
        assert!(interface.mtu.is_none_or(|mtu| present.mtu == mtu));
    }
    for (name, present) in seen.interfaces.iter().filter(|(name, _)| now.interface(name).is_none()) {
        assert_eq!(present.origin, Some(Origin::External), "{name} stays");
        assert!(!present.up && present.addresses.is_empty(), "{name} is still in use");
        assert_eq!(present.vrf, None, "{name} is still a port");
    }
    let moved = [true, false].into_iter().filter(|is_ipv4| now.moves_rule(*is_ipv4));
    assert_eq!(seen.moved_rules, moved.collect::<BTreeSet<_>>());
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
pub(super) fn reach(seen: &mut ObservedState, wanted: &RouterConfig) {
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
        delete_vrfs(&mut seen, &outside);
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
        delete_vrfs(&mut seen, &outside);
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
