//! Model of a namespace that executes steps like the kernel. It panics where the kernel would refuse a step, or would remove
//! more than the step says.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::{Mac, Prefix};

use crate::config::interface_of;
use crate::six::{METRIC, NO_IPV6, disables};
use crate::{
    MAIN, Neighbour, NewInterface, Object, ObservedInterface, ObservedState, Origin, Route, Setting,
    SpreadRoute, Step, TypedRoute,
};

/// Properties of a new interface.
pub(super) const OWN_MAC: Mac = [2, 0xff, 0, 0, 0, 0];
pub(super) const OWN_MTU: u32 = 1500;

/// An interface that has just been created.
pub(super) fn fresh(origin: Option<Origin>) -> ObservedInterface {
    let (addresses, mac) = (BTreeSet::new(), Some(OWN_MAC));
    let (up, carrier, threaded) = (false, false, false);
    ObservedInterface { origin, mac, mtu: OWN_MTU, up, carrier, addresses, threaded, queue: None, vrf: None }
}

pub(super) fn take_all(seen: &mut ObservedState, steps: &[Step]) {
    steps.iter().for_each(|step| take(seen, step));
}

pub(super) fn take(seen: &mut ObservedState, step: &Step) {
    match step {
        Step::Add(Object::Interface(made)) => make(seen, made),
        Step::Remove(Object::Interface(made)) => unmake(seen, made),
        Step::Add(Object::Address { interface, prefix }) => add_address(seen, interface, *prefix),
        Step::Remove(Object::Address { interface, prefix }) => remove_address(seen, interface, *prefix),
        Step::Add(Object::Route(route)) => add_route(seen, route),
        Step::Remove(Object::Route(route)) => assert!(seen.routes.remove(route), "{step}"),
        Step::Add(Object::SpreadRoute(route)) => add_spread(seen, route),
        Step::Remove(Object::SpreadRoute(route)) => assert!(seen.spread.remove(route), "{step}"),
        Step::Add(Object::TypedRoute(route)) => add_typed(seen, *route),
        Step::Remove(Object::TypedRoute(route)) => assert!(seen.typed.remove(route), "{step}"),
        Step::Add(Object::Neighbour(Neighbour { interface, ip, mac })) => {
            assert!(present(seen, interface).up, "{step}");
            assert_eq!(seen.neighbours.insert((interface.clone(), *ip), *mac), None, "{step}");
        }
        Step::Remove(Object::Neighbour(Neighbour { interface, ip, mac })) => {
            assert_eq!(seen.neighbours.remove(&(interface.clone(), *ip)), Some(*mac), "{step}");
        }
        Step::Add(Object::LocalRule { is_ipv4 }) => assert!(seen.moved_rules.insert(*is_ipv4), "{step}"),
        Step::Remove(Object::LocalRule { is_ipv4 }) => assert!(seen.moved_rules.remove(is_ipv4), "{step}"),
        Step::Set { interface, from, to } => set(seen, interface, *from, *to),
        Step::Parameter { key, from, to } => parameter(seen, key, from.as_deref(), to),
    }
}

fn present<'a>(seen: &'a mut ObservedState, name: &str) -> &'a mut ObservedInterface {
    seen.interfaces.get_mut(name).unwrap_or_else(|| panic!("there is no {name}"))
}

/// Asserts that no route or neighbour of these families depends on the interface.
fn assert_bare(seen: &ObservedState, name: &str, is_lost: impl Fn(IpAddr) -> bool) {
    let route = seen.routes.iter().find(|route| route.interface == name && is_lost(route.to.ip));
    assert_eq!(route, None, "a route would go with {name}");
    let mut ways = seen.spread.iter().flat_map(|route| &route.ways);
    let way = ways.find(|way| way.interface == name && is_lost(way.via));
    assert_eq!(way, None, "a next hop would go with {name}");
    let neighbour = seen.neighbours.keys().find(|(interface, ip)| interface == name && is_lost(*ip));
    assert_eq!(neighbour, None, "a neighbour would go with {name}");
}

fn make(seen: &mut ObservedState, made: &NewInterface) {
    assert_ne!(made.origin, Origin::External, "nobody makes it");
    let mut new = fresh(Some(made.origin.clone()));
    new.mac = made.mac.or(new.mac);
    new.mtu = made.mtu.unwrap_or(new.mtu);
    assert_eq!(seen.interfaces.insert(made.interface.clone(), new), None, "{} is there", made.interface);
}

fn unmake(seen: &mut ObservedState, made: &NewInterface) {
    let name = &made.interface;
    let Some(old) = seen.interfaces.remove(name) else { panic!("there is no {name}") };
    assert!(!old.up && !old.threaded && old.addresses.is_empty(), "{name} is in use");
    assert_eq!(old.queue, None, "a queue would go with {name}");
    assert_eq!(old.vrf, None, "{name} is a port");
    if let Origin::Vrf { table } = made.origin {
        assert!(seen.interfaces.values().all(|port| port.vrf != Some(table)), "{name} has ports");
    }
    assert_eq!(old.origin.as_ref(), Some(&made.origin), "{name} is another one");
    assert!(made.mac.is_none_or(|mac| old.mac == Some(mac)), "{name} had another address");
    assert!(made.mtu.is_none_or(|mtu| old.mtu == mtu), "{name} had another MTU");
    assert_ne!(made.origin, Origin::External, "nobody takes it away");
    assert_bare(seen, name, |_| true);
    seen.sysctls.retain(|key, _| interface_of(key) != Some(name.as_str()));
}

fn add_address(seen: &mut ObservedState, name: &str, prefix: Prefix) {
    let own = format!("net/ipv6/conf/{name}/disable_ipv6");
    let keys = [NO_IPV6[0], NO_IPV6[1], own.as_str()];
    let has_6 = keys.into_iter().all(|key| seen.sysctls.get(key).is_none_or(|value| value == "0"));
    let interface = present(seen, name);
    assert!(prefix.ip.is_ipv4() || (interface.up && has_6), "{name} takes no {prefix}");
    assert!(interface.addresses.insert(prefix), "{name} has {prefix}");
}

fn remove_address(seen: &mut ObservedState, name: &str, prefix: Prefix) {
    let interface = present(seen, name);
    assert!(interface.addresses.remove(&prefix), "{name} has no {prefix}");
    if prefix.ip.is_ipv4() && !interface.addresses.iter().any(|own| own.ip.is_ipv4()) {
        assert_bare(seen, name, |ip| ip.is_ipv4());
    }
}

fn add_route(seen: &mut ObservedState, route: &Route) {
    let interface = present(seen, &route.interface).clone();
    assert!(interface.up, "{route}");
    assert_eq!(route.table, interface.vrf.unwrap_or(MAIN), "{route} leads into another table");
    let id = (route.to, route.metric, route.table);
    assert!(!seen.routes.iter().any(|other| (other.to, other.metric, other.table) == id), "{route} is there");
    let is_covered = seen.typed.iter().any(|other| typed_id(other) == id);
    assert!(!is_covered, "{route} is there, with a type");
    let on_link =
        seen.routes.iter().filter(|other| other.via.is_none() && other.interface == route.interface);
    let mut near = interface.addresses.iter().copied().chain(on_link.map(|other| other.to));
    assert!(route.via.is_none_or(|via| near.any(|near| contains(near, via))), "{route} leads nowhere");
    assert!(seen.routes.insert(route.clone()));
}

fn add_spread(seen: &mut ObservedState, route: &SpreadRoute) {
    let id = (route.to, route.table);
    assert!(
        !route.ways.is_empty() && !seen.spread.iter().any(|other| (other.to, other.table) == id),
        "{route}"
    );
    for way in &route.ways {
        let interface = present(seen, &way.interface).clone();
        assert!(interface.up && interface.carrier, "{route}");
        assert_eq!(route.table, interface.vrf.unwrap_or(MAIN), "{route} leads into another table");
        assert!(interface.addresses.iter().any(|near| contains(*near, way.via)), "{route} leads nowhere");
    }
    assert!(seen.spread.insert(route.clone()));
}

fn add_typed(seen: &mut ObservedState, route: TypedRoute) {
    let id = typed_id(&route);
    let forwards = seen.routes.iter().any(|other| (other.to, other.metric, other.table) == id);
    assert!(!forwards, "there is a route without a type beside {route}");
    assert!(!seen.typed.iter().any(|other| typed_id(other) == id), "{route} is there");
    assert!(seen.typed.insert(route));
}

/// Identity of a route with a type: network, metric and table.
fn typed_id(route: &TypedRoute) -> (Prefix, u32, u32) {
    let is_default = route.metric == 0 && !route.to.ip.is_ipv4();
    (route.to, if is_default { METRIC } else { route.metric }, route.table)
}

/// Returns true if an address is in the network of another one.
pub(super) fn contains(network: Prefix, ip: IpAddr) -> bool {
    match (network.ip, ip) {
        (IpAddr::V4(network_ip), IpAddr::V4(ip)) => {
            let differences = network_ip.to_bits() ^ ip.to_bits();
            differences.checked_shr(32 - u32::from(network.len)).unwrap_or(0) == 0
        }
        (IpAddr::V6(network_ip), IpAddr::V6(ip)) => {
            let differences = network_ip.to_bits() ^ ip.to_bits();
            differences.checked_shr(128 - u32::from(network.len)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

fn set(seen: &mut ObservedState, name: &str, from: Setting, to: Setting) {
    let interface = present(seen, name);
    let is = match to {
        Setting::Mac(mac) => interface.mac.replace(mac).map(Setting::Mac),
        Setting::Mtu(mtu) => Some(Setting::Mtu(std::mem::replace(&mut interface.mtu, mtu))),
        Setting::Up(up) => {
            // The other end of each link is up.
            interface.carrier = up;
            Some(Setting::Up(std::mem::replace(&mut interface.up, up)))
        }
        Setting::Threaded(on) => Some(Setting::Threaded(std::mem::replace(&mut interface.threaded, on))),
        Setting::Queue(queue) => Some(Setting::Queue(std::mem::replace(&mut interface.queue, queue))),
        Setting::Vrf(table) => Some(Setting::Vrf(std::mem::replace(&mut interface.vrf, table))),
    };
    assert_eq!(is, Some(from), "{name} was not so");
    assert_ne!(from, to, "{name} is so");
    let interface = interface.clone();
    match to {
        Setting::Up(false) => {
            assert!(!interface.threaded, "{name} has threads");
            assert!(interface.addresses.iter().all(|own| own.ip.is_ipv4()), "{name} has IPv6 addresses");
            assert_bare(seen, name, |_| true);
        }
        Setting::Mac(_) => {
            let neighbour = seen.neighbours.keys().find(|(interface, _)| interface == name);
            assert_eq!(neighbour, None, "a neighbour would be forgotten");
        }
        Setting::Threaded(true) => assert!(interface.up, "{name} polls nothing"),
        Setting::Queue(_) => {
            assert!(matches!(interface.origin, Some(Origin::Veth { .. })), "{name} is no pair")
        }
        Setting::Vrf(table) => {
            assert!(!interface.up, "{name} would go down and up");
            assert_bare(seen, name, |_| true);
            let origin = table.map(|table| Origin::Vrf { table });
            let is_there = |vrf: &ObservedInterface| vrf.origin == origin;
            assert!(table.is_none() || seen.interfaces.values().any(is_there), "there is no such VRF");
            assert!(table.is_none() || seen.moved_rules.contains(&true), "it would reach addresses outside");
        }
        _ => {}
    }
}

fn parameter(seen: &mut ObservedState, key: &str, from: Option<&str>, to: &str) {
    if let Some(interface) = interface_of(key) {
        assert!(seen.interfaces.contains_key(interface), "{key} is of nothing");
    }
    if disables(key, to) {
        let is_of = |name: &String| interface_of(key).is_none_or(|own| own == name);
        let own = seen.interfaces.iter().filter(|(name, _)| is_of(name));
        assert!(
            own.flat_map(|(_, interface)| &interface.addresses).all(|own| own.ip.is_ipv4()),
            "addresses would go"
        );
        interface_of(key).into_iter().for_each(|name| assert_bare(seen, name, |ip| ip.is_ipv6()));
        let is_whole = interface_of(key).is_none();
        assert!(!is_whole || seen.typed.iter().all(|route| route.to.ip.is_ipv4()), "routes would go");
    }
    let was = seen.sysctls.insert(key.to_owned(), to.to_owned());
    assert!(from.is_none() || from == was.as_deref(), "{key} was {was:?}");
}
