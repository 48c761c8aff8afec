//! Validation of configurations, independent of the host's state. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::Prefix;

use crate::config::{in_table, interface_of};
use crate::{Interface, Mode, Origin, RouterConfig, six};

/// Longest interface name in octets (`IFNAMSIZ`, without the terminating NUL).
const LONGEST: usize = 15;
/// Smallest MTU of an interface with IPv6 (RFC 8200, section 5).
const LEAST_6: u32 = 1280;

/// Reason for which a configuration is invalid on every host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The name is not valid for an interface.
    #[error("`{name}` cannot name an interface: {why}")]
    Name {
        /// The name.
        name: String,
        /// The rule that it violates.
        why: &'static str,
    },
    /// The name is not valid for a namespace.
    #[error("`{name}` cannot name a network namespace: {why}")]
    Published {
        /// The name.
        name: String,
        /// The rule that it violates.
        why: &'static str,
    },
    /// Two interfaces have, or use, the same object.
    #[error("{what} is used twice: it must be unique")]
    Twice {
        /// Description of the object.
        what: String,
    },
    /// An object belongs to an interface that the router does not have.
    #[error("{what} refers to the interface `{interface}`, which the router does not have")]
    NoInterface {
        /// Description of the object.
        what: String,
        /// Name of the interface.
        interface: String,
    },
    /// The address of a network has bits set beyond its prefix.
    #[error("{to} is not a network: it has bits set beyond its prefix")]
    Network {
        /// The network.
        to: Prefix,
    },
    /// The Ethernet address is a multicast address, or zero.
    #[error("`{interface}` cannot have this Ethernet address: it is a multicast address, or 0")]
    Mac {
        /// Name of the interface.
        interface: String,
    },
    /// The MTU is too small for an IPv6 address.
    #[error("`{interface}` has an IPv6 address and an MTU of {mtu}: at least 1280 is needed (RFC 8200)")]
    Mtu {
        /// Name of the interface.
        interface: String,
        /// The MTU.
        mtu: u32,
    },
    /// An interface that has no NAPI instance cannot use threaded NAPI.
    #[error(
        "`{interface}` cannot use threaded NAPI: a macvlan has no NAPI of its own; use a veth or a virtual function"
    )]
    Threaded {
        /// Name of the interface.
        interface: String,
    },
    /// An interface is a port of a VRF that the router does not have, or cannot be a port.
    #[error("`{interface}` cannot be a port of the VRF of table {table}: {why}")]
    Vrf {
        /// Name of the interface.
        interface: String,
        /// Number of the table.
        table: u32,
        /// The reason.
        why: &'static str,
    },
    /// Only a pair has another end, at which frames can wait.
    #[error(
        "`{interface}` cannot have a queue at its other end: it is no end of a veth pair that ringroad creates"
    )]
    Queue {
        /// Name of the interface.
        interface: String,
    },
    /// An interface of the host cannot be moved into a namespace that has no name: the cleaner could not find and return it
    /// after a crash.
    #[error(
        "`{link}` of the host cannot be moved into a namespace without a name: it could not be returned after a crash"
    )]
    Unnamed {
        /// Name of the interface.
        link: String,
    },
}

/// Checks that a configuration is valid on some host.
///
/// # Errors
/// The first violation.
pub fn check(wanted: &RouterConfig) -> Result<(), Fault> {
    if let Some(name) = &wanted.published {
        netns::check_name(name).map_err(|why| Fault::Published { name: name.clone(), why })?;
    }
    wanted.interfaces.iter().try_for_each(check_interface)?;
    check_moved(wanted)?;
    check_once(wanted)?;
    check_places(wanted)?;
    check_vlans(wanted)?;
    check_vrfs(wanted)?;
    let others = wanted.spread.iter().map(|route| route.to).chain(wanted.typed.iter().map(|route| route.to));
    match wanted.routes.iter().map(|route| route.to).chain(others).find(|to| !is_network(*to)) {
        Some(to) => Err(Fault::Network { to }),
        None => Ok(()),
    }
}

fn check_interface(interface: &Interface) -> Result<(), Fault> {
    let named = |name: &str| is_link_name(name).map_err(|why| Fault::Name { name: name.to_owned(), why });
    named(&interface.name)?;
    match &interface.origin {
        Origin::Veth { peer, bridge, .. } => {
            named(peer)?;
            bridge.as_deref().map_or(Ok(()), named)?;
        }
        Origin::Macvlan { parent: link, .. } | Origin::Moved { link } => named(link)?,
        Origin::Vlan { lower, .. } | Origin::ServiceVlan { lower, .. } => named(lower)?,
        Origin::Vrf { .. } | Origin::External => {}
    }
    let name = || interface.name.clone();
    if interface.mac.is_some_and(|mac| mac[0] & 1 != 0 || mac == [0; 6]) {
        return Err(Fault::Mac { interface: name() });
    }
    let has_no_napi = !interface.is_nic() || matches!(interface.origin, Origin::Macvlan { .. });
    if interface.threaded && has_no_napi {
        return Err(Fault::Threaded { interface: name() });
    }
    if interface.queue.is_some() && !matches!(interface.origin, Origin::Veth { .. }) {
        return Err(Fault::Queue { interface: name() });
    }
    match interface.mtu.filter(|mtu| six::takes_part(interface) && *mtu < LEAST_6) {
        Some(mtu) => Err(Fault::Mtu { interface: name(), mtu }),
        None => Ok(()),
    }
}

fn check_moved(wanted: &RouterConfig) -> Result<(), Fault> {
    let moved = wanted.interfaces.iter().find_map(|interface| match &interface.origin {
        Origin::Moved { link } => Some(link),
        _ => None,
    });
    match moved.filter(|_| wanted.published.is_none()) {
        Some(link) => Err(Fault::Unnamed { link: link.clone() }),
        None => Ok(()),
    }
}

/// Checks that objects are unique.
fn check_once(wanted: &RouterConfig) -> Result<(), Fault> {
    let names = wanted.interfaces.iter().map(|interface| format!("the name `{}`", interface.name));
    let taken = wanted.interfaces.iter().filter_map(|interface| match &interface.origin {
        Origin::Veth { peer, at, .. } => Some(format!("the other end `{peer}` {at}")),
        Origin::Macvlan { parent, mode: Mode::Passthru } => Some(format!("`{parent}`, in mode passthru,")),
        Origin::Moved { link } => Some(format!("`{link}` of the host")),
        Origin::Vlan { lower, id } => Some(format!("VLAN {id} of `{lower}`")),
        Origin::ServiceVlan { lower, id } => Some(format!("service VLAN {id} of `{lower}`")),
        Origin::Vrf { table } => Some(format!("the table {table} of a VRF")),
        _ => None,
    });
    let addresses = wanted.interfaces.iter().flat_map(|interface| {
        interface.addresses.iter().map(move |own| format!("the address {own} of `{}`", interface.name))
    });
    let routes = wanted.routes.iter().map(|route| id((route.to, route.table), route.metric));
    let spread = wanted.spread.iter().map(|route| id((route.to, route.table), 0));
    let typed = wanted.typed.iter().map(|route| id((route.to, route.table), route.metric));
    let neighbours =
        wanted.neighbours.iter().map(|one| format!("the neighbour {} of `{}`", one.ip, one.interface));
    let mut seen = BTreeSet::new();
    let routes = routes.chain(spread).chain(typed);
    let mut all = names.chain(taken).chain(addresses).chain(routes).chain(neighbours);
    match all.find(|what| !seen.insert(what.clone())) {
        Some(what) => Err(Fault::Twice { what }),
        None => Ok(()),
    }
}

/// Describes a route by what has to be unique.
fn id((to, table): (Prefix, u32), metric: u32) -> String {
    let place = in_table(table);
    match metric {
        0 => format!("the route to {to}{place}"),
        metric => format!("the route to {to}{place} of metric {metric}"),
    }
}

/// Checks that each object's interface exists.
fn check_places(wanted: &RouterConfig) -> Result<(), Fault> {
    let routes = wanted.routes.iter().map(|route| (format!("the route to {}", route.to), &*route.interface));
    let spread = wanted.spread.iter().flat_map(|route| {
        route.ways.iter().map(|way| (format!("the route to {}", route.to), &*way.interface))
    });
    let neighbours =
        wanted.neighbours.iter().map(|one| (format!("the neighbour {}", one.ip), &*one.interface));
    let parameters =
        wanted.sysctls.keys().filter_map(|key| Some((format!("the parameter {key}"), interface_of(key)?)));
    let mut all = routes.chain(spread).chain(neighbours).chain(parameters);
    match all.find(|(_, interface)| wanted.interface(interface).is_none()) {
        Some((what, interface)) => Err(Fault::NoInterface { what, interface: interface.to_owned() }),
        None => Ok(()),
    }
}

/// Checks that each VLAN comes after the interface below it, so that none is below itself.
fn check_vlans(wanted: &RouterConfig) -> Result<(), Fault> {
    let mut before: BTreeSet<&str> = BTreeSet::new();
    for own in &wanted.interfaces {
        if let Some(lower) = own.lower().filter(|lower| !before.contains(lower)) {
            let (what, interface) = (format!("the VLAN `{}`", own.name), lower.to_owned());
            return Err(Fault::NoInterface { what, interface });
        }
        before.insert(&own.name);
    }
    Ok(())
}

/// Checks that the VRF of each port exists. Neither a VRF nor what only carries VLANs is a port.
fn check_vrfs(wanted: &RouterConfig) -> Result<(), Fault> {
    for own in &wanted.interfaces {
        let Some(table) = own.vrf else { continue };
        let why = match wanted.vrf(table) {
            None => "the router has no such VRF",
            Some(_) if own.is_vrf() || own.is_service() => "only a NIC or a VLAN is a port of one",
            Some(_) => continue,
        };
        return Err(Fault::Vrf { interface: own.name.clone(), table, why });
    }
    Ok(())
}

/// Checks that an interface name follows the kernel's rules (`dev_valid_name`) and has no special meaning: `%` is a pattern;
/// for parameters, `all` and `default` stand for all interfaces and for future ones.
fn is_link_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > LONGEST {
        return Err("it is longer than 15 octets");
    }
    if matches!(name, "lo" | "all" | "default") {
        return Err("`lo`, `all` and `default` have a meaning of their own");
    }
    let is_wrong = |octet| matches!(octet, b'/' | b':' | b'%' | 0..=b' ' | 127);
    if matches!(name, "." | "..") || name.bytes().any(is_wrong) {
        return Err("`.`, `..`, `/`, `:`, `%`, blanks and control characters are not allowed");
    }
    Ok(())
}

fn is_network(prefix: Prefix) -> bool {
    let (bits, width) = match prefix.ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, prefix.len),
        IpAddr::V6(ip) => (ip.to_bits(), prefix.len),
    };
    bits.checked_shl(width.into()).unwrap_or(0) == 0
}
