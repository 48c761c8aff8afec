//! Kernel parameters of IPv6. A router takes part in IPv6 if one of its interfaces has an IPv6 address, and only by such interfaces:
//! with IPv6 enabled, an interface sends packets by itself (RFC 4861, 4862).

use std::net::IpAddr;

use netlink::Prefix;

use crate::{Interface, Origin};

/// Enables IPv6 forwarding.
const FORWARD: &str = "net/ipv6/conf/all/forwarding";
/// Disable IPv6 on all interfaces, and on future ones.
pub(crate) const NO_IPV6: [&str; 2] =
    ["net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/default/disable_ipv6"];
/// Metric that the kernel assigns to IPv6 routes without one (`IP6_RT_PRIO_USER`).
pub(crate) const METRIC: u32 = 1024;
/// Parameter that disables IPv6 on an interface.
const DISABLE: &str = "disable_ipv6";
/// Parameters of an interface that takes part: it is a router's, so it takes no routes and addresses from router advertisements, also
/// if the router does not forward.
const OF_ROUTERS: [(&str, &str); 2] = [(DISABLE, "0"), ("accept_ra", "0")];
/// Parameters of an interface that verifies that no other station has its addresses (RFC 4862, 5.4), and of one that does not. The kernel
/// uses the larger `accept_dad` of `all`, which others may have set, and of the interface: without an attempt it asks nobody either.
const TRIES: &[(&str, &str)] = &[("accept_dad", "1")];
const DOES_NOT_TRY: &[(&str, &str)] = &[("accept_dad", "0"), ("dad_transmits", "0")];
/// Parameter that says how the kernel generates a link-local address. 0: from the Ethernet address; 1: not at all.
const GENERATE: &str = "addr_gen_mode";

/// Returns true if an interface takes part in IPv6.
pub(crate) fn takes_part(interface: &Interface) -> bool {
    interface.addresses.iter().any(|own| own.ip.is_ipv6())
}

/// Returns the parameters of IPv6 for a router with these interfaces.
pub(crate) fn sysctls(interfaces: &[Interface]) -> Vec<(String, &'static str)> {
    let is_used = interfaces.iter().any(takes_part);
    let disabled = if is_used { "0" } else { "1" };
    let mut all: Vec<(String, &str)> = NO_IPV6.map(|key| (key.to_owned(), disabled)).into();
    if is_used {
        all.push((FORWARD.to_owned(), "1"));
        all.extend(interfaces.iter().flat_map(|interface| match interface.origin {
            Origin::Vrf { table } => of_vrf(&interface.name, has_port(interfaces, table)),
            _ => of_interface(interface),
        }));
    }
    all
}

fn of_interface(interface: &Interface) -> Vec<(String, &'static str)> {
    let set = |(key, value)| (sysctl(&interface.name, key), value);
    if !takes_part(interface) {
        return vec![set((DISABLE, "1"))];
    }
    let is_given = interface.addresses.iter().any(|own| is_link_local(*own));
    let generate = (GENERATE, if is_given { "1" } else { "0" });
    let trials = if interface.tries_addresses { TRIES } else { DOES_NOT_TRY };
    OF_ROUTERS.into_iter().chain(trials.iter().copied()).chain([generate]).map(set).collect()
}

/// Returns true if a port of the VRF with this table takes part in IPv6.
fn has_port(interfaces: &[Interface], table: u32) -> bool {
    interfaces.iter().any(|interface| interface.vrf == Some(table) && takes_part(interface))
}

/// Parameters of a VRF. The kernel delivers the IPv6 packets of its ports by it; it sends none by itself, as it has no address.
fn of_vrf(name: &str, has_port: bool) -> Vec<(String, &'static str)> {
    let used = [(DISABLE, "0"), ("accept_ra", "0"), (GENERATE, "1")];
    let unused = [(DISABLE, "1")];
    let all: &[(&str, &'static str)] = if has_port { &used } else { &unused };
    all.iter().map(|(key, value)| (sysctl(name, key), *value)).collect()
}

fn is_link_local(own: Prefix) -> bool {
    matches!(own.ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Returns the path below /proc/sys of an interface's IPv6 parameter.
fn sysctl(interface: &str, key: &str) -> String {
    format!("net/ipv6/conf/{interface}/{key}")
}

/// Returns true if this value of a parameter disables IPv6. A kernel or an interface that cannot have IPv6, because its MTU is too
/// small for example, lacks the parameter, and needs none.
pub(crate) fn disables(key: &str, value: &str) -> bool {
    let of_ipv6 = key.strip_prefix("net/ipv6/conf/").and_then(|rest| rest.split_once('/'));
    value == "1" && of_ipv6.is_some_and(|(_, key)| key == DISABLE)
}
