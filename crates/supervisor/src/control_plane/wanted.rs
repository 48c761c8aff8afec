//! What has to be in force in a control namespace: addresses, routes and neighbours of the file, and no forwarding. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use config::forwarding::{self, Destination};
use config::six::Six;
use config::{Address, Nic, Router};
use kernel_router::{Interface, MAIN, Neighbour, Origin, Route, RouterConfig};
use netlink::Prefix;

use crate::kernels::plan::destination;

/// Parameters of each control namespace. The data path forwards, redirects, and sends router advertisements; duplicate addresses
/// are not looked for, because the data path answers for them as well.
const PARAMETERS: [(&str, &str); 9] = [
    ("net/ipv4/ip_forward", "0"),
    ("net/ipv4/conf/all/promote_secondaries", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/all/accept_redirects", "0"),
    ("net/ipv4/conf/default/accept_redirects", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    // Routing protocols join two groups on each interface, with one socket.
    ("net/ipv4/igmp_max_memberships", "1024"),
];
/// Parameters of IPv6, where the kernel has it. Link-local addresses are those that the firmware derives (RFC 4291, appendix A).
const PARAMETERS_6: [(&str, &str); 11] = [
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv6/conf/all/forwarding", "0"),
    ("net/ipv6/conf/default/forwarding", "0"),
    ("net/ipv6/conf/all/keep_addr_on_down", "1"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/autoconf", "0"),
    ("net/ipv6/conf/default/accept_redirects", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/default/addr_gen_mode", "0"),
];
/// Least MTU of an interface with IPv6 (RFC 8200, 5).
pub(super) const LEAST_MTU_6: u32 = 1280;
/// Folder that is there if the kernel has IPv6.
const SIX: &str = "/proc/sys/net/ipv6";

/// Configuration of a namespace without NICs.
pub(super) fn empty(router: &str) -> RouterConfig {
    let six = std::path::Path::new(SIX).exists().then_some(PARAMETERS_6);
    let parameters = PARAMETERS.into_iter().chain(six.into_iter().flatten());
    RouterConfig {
        name: router.to_owned(),
        published: Some(router.to_owned()),
        sysctls: parameters.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..RouterConfig::default()
    }
}

/// Configuration of a router's namespace.
pub(super) fn of(router: &Router) -> RouterConfig {
    let nics = router.nics.iter().map(shadow);
    let vlans = router.forwarding.interfaces.iter().map(vlan);
    let mut wanted = empty(&router.name);
    wanted.interfaces = nics.chain(vlans).collect();
    wanted.routes = routes(router);
    wanted.neighbours = neighbours(router);
    if wanted.sysctls.keys().any(|key| key.starts_with("net/ipv6/")) {
        wanted.sysctls.extend(own_link_local(router));
    }
    wanted
}

fn shadow(nic: &Nic) -> Interface {
    Interface {
        mac: Some(nic.mac.0),
        mtu: Some(nic.mtu),
        addresses: addresses(&nic.addresses, &nic.six),
        ..Interface::new(&nic.name, Origin::External)
    }
}

fn vlan(own: &forwarding::Interface) -> Interface {
    Interface {
        mtu: Some(own.mtu),
        addresses: addresses(&own.addresses, &own.six),
        ..Interface::new(&own.name, Origin::External)
    }
}

fn addresses(four: &[Address], six: &Six) -> Vec<Prefix> {
    let four = four.iter().filter_map(|own| Prefix::new(own.ip, own.len));
    four.chain(six.addresses.iter().filter_map(|own| Prefix::new(own.ip, own.len))).collect()
}

/// An interface with a link-local address in the file derives none (`addr_gen_mode` 1). One that is too small has no IPv6.
fn own_link_local(router: &Router) -> BTreeMap<String, String> {
    let nics = router.nics.iter().map(|nic| (&nic.name, &nic.six, nic.mtu));
    let vlans = router.forwarding.interfaces.iter().map(|own| (&own.name, &own.six, own.mtu));
    let mode = |(name, six, mtu): (&String, &Six, u32)| {
        let is_given = six.addresses.iter().any(|own| own.ip.is_unicast_link_local());
        let key = format!("net/ipv6/conf/{name}/addr_gen_mode");
        (mtu >= LEAST_MTU_6).then(|| (key, u8::from(is_given).to_string()))
    };
    nics.chain(vlans).filter_map(mode).collect()
}

fn routes(router: &Router) -> Vec<Route> {
    let route = |(to, via, link): (Destination, Option<IpAddr>, usize)| {
        let interface = router.link_name(link)?.to_owned();
        Some(Route { to: destination(to).ok()?, via, interface, metric: 0, table: MAIN })
    };
    let single = router.single_routes().filter_map(route);
    // Those with several are laid by `settle`.
    let spread = router.forwarding.spread.iter().filter_map(|own| match own.ways.as_slice() {
        [way] => route((own.to, Some(way.via), way.nic)),
        _ => None,
    });
    single.chain(spread).collect()
}

fn neighbours(router: &Router) -> Vec<Neighbour> {
    let neighbour = |(ip, mac, link): (IpAddr, config::Mac, usize)| {
        Some(Neighbour { interface: router.link_name(link)?.to_owned(), ip, mac: mac.0 })
    };
    router.all_neighbours().filter_map(neighbour).collect()
}

#[cfg(test)]
mod tests;
