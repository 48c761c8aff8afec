//! Specifications of kernel routers, derived from a plan. Pure.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context, Result, bail};
use attach::Function;
use config::forwarding::{self, Destination, ReversePath, RouteType};
use config::six::Six;
use config::{Mac, Nic, Plan, Router, RpFilter};
use kernel_router::{
    Interface, Mode, Neighbour, Origin, Route, RouterConfig, SpreadRoute, TypedRoute, Way, interface_sysctl,
    name_to_adopt,
};
use lxc::{Container, Link, Root};
use netlink::{Prefix, RouteKind};
use tables::Tables;

use super::adverts::Advert;

/// Parameters that enable forwarding.
const IPV4_FORWARDING: &str = "net/ipv4/ip_forward";
const IPV6_FORWARDING: &str = "net/ipv6/conf/all/forwarding";
/// Parameters that say what is hashed to choose among several next hops.
const IPV4_HASH: &str = "net/ipv4/fib_multipath_hash_policy";
const IPV6_HASH: &str = "net/ipv6/fib_multipath_hash_policy";

/// Specification of a kernel router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Interfaces, routes, neighbours and sysctls.
    pub(crate) wanted: RouterConfig,
    /// Its container, if it has one. Then LXC creates the interfaces, and the router adopts them.
    pub(super) container: Option<Container>,
    /// Virtual functions, by interface position.
    pub(super) functions: Vec<(usize, Function)>,
    /// Maximum packets per second that may enter it; `None`: unlimited.
    pub(super) limit: Option<u64>,
    /// True if the packets that the kernel drops are counted by its reason.
    pub(crate) drop_reasons: bool,
    /// What its interfaces advertise to hosts.
    pub(super) adverts: Vec<Advert>,
}

impl Spec {
    /// Returns the name of the router.
    pub(crate) fn name(&self) -> &str {
        &self.wanted.name
    }

    /// Returns a copy with the interface names of claimed functions filled in, by interface position.
    pub(super) fn with_functions(&self, claimed: impl Iterator<Item = (usize, String)>) -> Self {
        let mut spec = self.clone();
        for (place, link) in claimed {
            let nic = spec.container.as_mut().and_then(|container| container.nics.get_mut(place));
            match (nic, spec.wanted.interfaces.get_mut(place)) {
                (Some(nic), _) => nic.link = Link::Phys { link },
                (None, Some(interface)) => interface.origin = Origin::Moved { link },
                (None, None) => {}
            }
        }
        spec
    }
}

/// Returns the specifications of the kernel routers of a plan that should run.
///
/// # Errors
/// One line: the attachment of a NIC is not available for kernel routers.
pub(super) fn all(plan: &Plan) -> Result<Vec<Spec>> {
    plan.in_kernel().filter(|router| !router.is_stopped()).map(one).collect()
}

/// Returns the specification of one router.
///
/// # Errors
/// See [`all`].
pub(super) fn one(router: &Router) -> Result<Spec> {
    let tables = Tables::of(router);
    let mut wanted = RouterConfig::new(&router.name, interfaces(router, &tables)?);
    wanted.published = Some(router.name.clone());
    wanted.routes = routes(router, &tables)?;
    wanted.spread = spread(router, &tables)?;
    wanted.typed = typed(router, &tables)?;
    wanted.typed.extend(tables.last_routes(&wanted.interfaces)?);
    wanted.neighbours = neighbours(router);
    wanted.sysctls.extend(sysctls(router));
    let functions = functions(router);
    let limit = router.limit.map(config::Rate::pps);
    let drop_reasons = router.kernel.is_some_and(|kernel| kernel.drop_reasons);
    let adverts = adverts(router);
    let mut spec = Spec { wanted, container: None, functions, limit, drop_reasons, adverts };
    if let Some(container) = &router.container {
        spec.add_container(&router.name, container)?;
    }
    Ok(spec)
}

/// Returns the interfaces of a router: the NICs, at whose positions functions are claimed, service VLANs, VLANs, and VRFs.
fn interfaces(router: &Router, tables: &Tables<'_>) -> Result<Vec<Interface>> {
    let nics = router.nics.iter().map(|nic| interface(router, nic));
    let vlans = router.forwarding.interfaces.iter().map(|own| vlan(router, own));
    let mut interfaces = nics.chain(vlans).collect::<Result<Vec<_>>>()?;
    for (at, link) in interfaces.iter_mut().enumerate() {
        link.vrf = tables.vrf_of(at);
    }
    let vlans = interfaces.split_off(router.nics.len());
    for (nic, outer) in services(router) {
        interfaces.push(service(router, nic, outer)?);
    }
    interfaces.extend(vlans);
    interfaces.extend(tables.interfaces());
    Ok(interfaces)
}

impl Spec {
    /// Adds a container: LXC creates the interfaces, and everything else is configured in its namespace afterwards. The router adopts
    /// pairs and macvlans; LXC returns interfaces of the host, so they stay its own.
    fn add_container(&mut self, router: &str, container: &config::Container) -> Result<()> {
        let mut nics = Vec::new();
        // VLANs and VRFs are made inside afterwards.
        for interface in self.wanted.interfaces.iter_mut().filter(|interface| interface.is_nic()) {
            let (link, mtu) = match &interface.origin {
                // LXC sets the MTU at both ends.
                Origin::Veth { .. } => {
                    (Link::Veth { peer: name_to_adopt(router, &interface.name) }, interface.mtu)
                }
                Origin::Macvlan { parent, mode } => {
                    (Link::Macvlan { parent: parent.clone(), mode: *mode }, None)
                }
                Origin::Moved { link } => (Link::Phys { link: link.clone() }, interface.mtu),
                Origin::Vlan { .. } | Origin::ServiceVlan { .. } | Origin::Vrf { .. } | Origin::External => {
                    bail!("router {router}, NIC {}: LXC cannot create such an interface", interface.name)
                }
            };
            if matches!(link, Link::Phys { .. }) {
                interface.origin = Origin::External;
                // It must be returned as it was, and LXC restores only what LXC itself has changed.
                (interface.mac, interface.mtu) = (None, None);
            }
            nics.push(lxc::Nic { name: interface.name.clone(), link, mac: None, mtu });
        }
        let root = match &container.rootfs {
            Some(path) => Root::Folder { path: path.clone(), init: container.init.clone() },
            None => Root::Programs,
        };
        let name = lxc::name_for(router);
        self.container = Some(Container { name, host_name: router.to_owned(), root, nics });
        Ok(())
    }
}

/// Virtual functions of a router. Their port assigns an Ethernet address only if the file gives one.
fn functions(router: &Router) -> Vec<(usize, Function)> {
    let function = |(place, nic): (usize, &Nic)| {
        let mut function = router.wanted(nic).function()?;
        let is_derived = nic.mac == Mac::derived(&router.name, &nic.name);
        function.wanted.mac = (!is_derived).then_some(nic.mac.0);
        Some((place, function))
    };
    router.nics.iter().enumerate().filter_map(function).collect()
}

/// What NICs and VLANs advertise. A router that does not forward is no default router (RFC 4861, 6.2.5).
fn adverts(router: &Router) -> Vec<Advert> {
    let forwards = router.kernel.unwrap_or_default().forwarding;
    let advert = |(name, six): (&String, &Six)| {
        let mut wanted = six.advertise.clone()?;
        wanted.lifetime = if forwards { wanted.lifetime } else { 0 };
        let source = six.addresses.iter().map(|own| own.ip).find(Ipv6Addr::is_unicast_link_local);
        Some(Advert { interface: name.clone(), source, wanted })
    };
    let nics = router.nics.iter().map(|nic| (&nic.name, &nic.six));
    let vlans = router.forwarding.interfaces.iter().map(|own| (&own.name, &own.six));
    nics.chain(vlans).filter_map(advert).collect()
}

fn interface(router: &Router, nic: &Nic) -> Result<Interface> {
    let of_nic = || format!("router {}, NIC {}", router.name, nic.name);
    let wanted = router.wanted(nic);
    let origin = wanted.origin().with_context(of_nic)?;
    let six = nic.six.addresses.iter().map(|address| prefix(address.ip, address.len));
    let addresses = nic.addresses.iter().map(|address| prefix(address.ip, address.len)).chain(six);
    let mut interface = Interface::new(&nic.name, origin);
    interface.mac = mac(router, nic, &interface.origin);
    interface.mtu = Some(nic.mtu);
    interface.up = !nic.is_pulled();
    interface.addresses = addresses.collect::<Result<_>>().with_context(of_nic)?;
    // The group tries the addresses of its members.
    interface.tries_addresses = router.membership().is_none();
    // Macvlans receive on the thread of their parent interface, and TAPs of a switch on that of the data plane.
    interface.threaded = router.is_threaded() && nic.attach.has_napi();
    interface.queue = wanted.queue();
    Ok(interface)
}

fn vlan(router: &Router, own: &forwarding::Interface) -> Result<Interface> {
    let of_vlan = || format!("router {}, interface {}", router.name, own.name);
    let lower = router.nics.get(own.nic).with_context(of_vlan)?;
    let six = own.six.addresses.iter().map(|address| prefix(address.ip, address.len));
    let addresses = own.addresses.iter().map(|address| prefix(address.ip, address.len)).chain(six);
    let lower = own.tags.outer.map_or_else(|| lower.name.clone(), |outer| service_name(own.nic, outer));
    let mut interface = Interface::new(&own.name, Origin::Vlan { lower, id: own.tags.id });
    interface.mtu = Some(own.mtu);
    interface.addresses = addresses.collect::<Result<_>>().with_context(of_vlan)?;
    Ok(interface)
}

/// Returns the service VLANs that carry the VLANs with two tags (QinQ): the index of the NIC, and the outer tag.
fn services(router: &Router) -> BTreeSet<(usize, u16)> {
    let vlans = router.forwarding.interfaces.iter();
    vlans.filter_map(|own| Some((own.nic, own.tags.outer?))).collect()
}

/// Returns the interface for a service VLAN. It has no addresses, and nothing is forwarded that arrives with one tag.
fn service(router: &Router, nic: usize, outer: u16) -> Result<Interface> {
    let of_vlan = || format!("router {}, service VLAN {outer}", router.name);
    let lower = router.nics.get(nic).with_context(of_vlan)?;
    let origin = Origin::ServiceVlan { lower: lower.name.clone(), id: outer };
    let mut interface = Interface::new(&service_name(nic, outer), origin);
    interface.mtu = Some(lower.mtu);
    Ok(interface)
}

/// Name of the interface for a service VLAN. Names in files have no `~`.
fn service_name(nic: usize, outer: u16) -> String {
    format!("vlan{outer}~{nic}")
}

/// Ethernet address to set. A host interface that is moved in or taken over keeps its own unless the file gives one; the address
/// of a virtual function is set by its port.
fn mac(router: &Router, nic: &Nic, origin: &Origin) -> Option<netlink::Mac> {
    let is_derived = nic.mac == Mac::derived(&router.name, &nic.name);
    match origin {
        _ if nic.attach.kind() == "vf" => None,
        // The TAP, or the port of Open vSwitch, was created for this router, so any address may be set.
        _ if nic.attach.switch().is_some() || nic.attach.kind() == "ovs" => Some(nic.mac.0),
        Origin::Macvlan { mode: Mode::Passthru, .. } | Origin::Moved { .. } if is_derived => None,
        _ => Some(nic.mac.0),
    }
}

fn prefix(ip: impl Into<IpAddr>, len: u8) -> Result<Prefix> {
    Prefix::new(ip, len).context("a prefix that is longer than an address")
}

/// Name of a NIC, or of an interface for a VLAN.
fn name(router: &Router, link: usize) -> String {
    router.link_name(link).unwrap_or_default().to_owned()
}

/// Destinations as a prefix.
pub(crate) fn destination(to: Destination) -> Result<Prefix> {
    match to {
        Destination::V4(to) => prefix(to.network, to.len),
        Destination::V6(to) => prefix(to.network, to.len),
    }
}

/// Routes of both families that forward.
fn routes(router: &Router, tables: &Tables<'_>) -> Result<Vec<Route>> {
    let route = |(to, via, nic): (Destination, Option<IpAddr>, usize)| {
        let (interface, table) = (name(router, nic), tables.table_of(nic));
        Ok(Route { to: destination(to)?, via, interface, metric: 0, table })
    };
    router.single_routes().map(route).collect()
}

/// Routes of both families with several gateways.
fn spread(router: &Router, tables: &Tables<'_>) -> Result<Vec<SpreadRoute>> {
    let way = |way: &forwarding::Way| Way {
        via: way.via,
        interface: name(router, way.nic),
        weight: way.weight.into(),
    };
    let route = |route: &forwarding::SpreadRoute| {
        // All of them are in one VRF.
        let table = tables.table_of(route.ways.first().context("a route without a gateway")?.nic);
        Ok(SpreadRoute { to: destination(route.to)?, ways: route.ways.iter().map(way).collect(), table })
    };
    router.forwarding.spread.iter().map(route).collect()
}

/// Routes of both families by which nothing is forwarded.
fn typed(router: &Router, tables: &Tables<'_>) -> Result<Vec<TypedRoute>> {
    let typed = |route: &forwarding::RefusedRoute| {
        let (to, kind) = (destination(route.to)?, route_kind(route.kind));
        Ok(TypedRoute { to, kind, metric: 0, table: tables.number(route.table) })
    };
    router.forwarding.refused.iter().map(typed).collect()
}

/// Kind of the kernel's route for a type in a file.
pub(crate) const fn route_kind(of: RouteType) -> RouteKind {
    match of {
        RouteType::Blackhole => RouteKind::Blackhole,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
    }
}

fn neighbours(router: &Router) -> Vec<Neighbour> {
    let neighbour =
        |(ip, mac, nic): (IpAddr, Mac, usize)| Neighbour { interface: name(router, nic), ip, mac: mac.0 };
    router.all_neighbours().map(neighbour).collect()
}

/// Sysctls of forwarding. The kernel uses the larger `rp_filter` of `all` and of the interface, and `proxy_arp` if either is set.
/// A new namespace inherits these values from the initial namespace, so both are set; a VRF answers no ARP requests.
fn sysctls(router: &Router) -> BTreeMap<String, String> {
    let kernel = router.kernel.unwrap_or_default();
    let (forward, arp) = (u8::from(kernel.forwarding), u8::from(kernel.proxy_arp));
    let of_interface = |(name, wanted): (&String, ReversePath)| {
        [("rp_filter", rp_filter(kernel.rp_filter, wanted).number()), ("proxy_arp", arp)]
            .map(|(key, value)| (interface_sysctl(name, key), value))
    };
    let nics = router.nics.iter().map(|nic| (&nic.name, nic.reverse_path));
    let vlans = router.forwarding.interfaces.iter().map(|own| (&own.name, own.reverse_path));
    let of_vrf = |name: &str| {
        [("rp_filter", kernel.rp_filter.number()), ("proxy_arp", 0)]
            .map(|(key, value)| (interface_sysctl(name, key), value))
    };
    let vrfs = router.vrfs().into_iter().flat_map(of_vrf);
    let all = ["rp_filter", "proxy_arp"].map(|key| (interface_sysctl("all", key), 0));
    let sixes = router.nics.iter().map(|nic| &nic.six);
    let mut sixes = sixes.chain(router.forwarding.interfaces.iter().map(|own| &own.six));
    let has_six = sixes.any(|six| !six.addresses.is_empty());
    let forwarding = [Some(IPV4_FORWARDING), has_six.then_some(IPV6_FORWARDING)];
    let forwarding = forwarding.into_iter().flatten().map(|key| (key.to_owned(), forward));
    let hash = hash_policies(router).map(|key| (key.to_owned(), 1));
    let services = services(router).into_iter();
    let closed = services.map(|(nic, outer)| (interface_sysctl(&service_name(nic, outer), "forwarding"), 0));
    let all = nics.chain(vlans).flat_map(of_interface).chain(all).chain(forwarding).chain(hash);
    let all = all.chain(closed).chain(vrfs);
    all.map(|(key, value)| (key, value.to_string())).collect()
}

/// Parameters that make a flow what it is to other engines: ports are part of it.
fn hash_policies(router: &Router) -> impl Iterator<Item = &'static str> {
    let spread = || router.forwarding.spread.iter().map(|route| route.to);
    let four = spread().any(|to| matches!(to, Destination::V4(_)));
    let six = spread().any(|to| matches!(to, Destination::V6(_)));
    [four.then_some(IPV4_HASH), six.then_some(IPV6_HASH)].into_iter().flatten()
}

/// Filter of a NIC or VLAN: its own, or that of its router.
fn rp_filter(of_router: RpFilter, own: ReversePath) -> RpFilter {
    match own {
        ReversePath::Off => of_router,
        ReversePath::Loose => RpFilter::Loose,
        ReversePath::Strict => RpFilter::Strict,
    }
}

#[cfg(test)]
mod tests;
