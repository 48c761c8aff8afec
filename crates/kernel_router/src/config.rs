//! Desired configuration of a router.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use netlink::{Mac, Prefix, Queue};

use crate::{Mode, SpreadRoute, TypedRoute, six};

/// Enables IPv4 forwarding. Writing it resets other sysctls to host or router defaults (RFC 1122 and 1812), so it is set before
/// them.
pub(crate) const FORWARD: &str = "net/ipv4/ip_forward";
/// Keeps the secondary addresses of a network when its primary address is removed.
const PROMOTE: &str = "net/ipv4/conf/all/promote_secondaries";
/// The table that is used unless a rule or a VRF selects another one.
pub const MAIN: u32 = 254;

/// Desired configuration of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterConfig {
    /// Name of the router, for errors.
    pub name: String,
    /// Name of its namespace in /run/netns, for `ip netns exec`; `None`: not published.
    pub published: Option<String>,
    /// Interfaces. VRFs may have any place: they are made before their ports, and removed after them.
    pub interfaces: Vec<Interface>,
    /// Static routes.
    pub routes: Vec<Route>,
    /// Static routes with several gateways.
    pub spread: Vec<SpreadRoute>,
    /// Static routes by which nothing is forwarded.
    pub typed: Vec<TypedRoute>,
    /// Permanent neighbours.
    pub neighbours: Vec<Neighbour>,
    /// Kernel parameters by their paths below /proc/sys, such as `net/ipv4/ip_forward`. Others keep their values.
    pub sysctls: BTreeMap<String, String>,
}

/// Desired interface of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name inside the namespace, at most 15 octets.
    pub name: String,
    /// Type of the interface, and where it comes from.
    pub origin: Origin,
    /// Ethernet address; `None`: as created. A macvlan in mode passthru has that of its parent in any case.
    pub mac: Option<Mac>,
    /// MTU in octets; `None`: as created. It applies to both ends of a veth pair.
    pub mtu: Option<u32>,
    /// Administrative state. While the interface is down, objects that need it up (routes, neighbours, IPv6) are deferred.
    pub up: bool,
    /// Addresses.
    pub addresses: Vec<Prefix>,
    /// True if it verifies that no other station has its IPv6 addresses before it uses them (RFC 4862, 5.4); otherwise somebody else does
    /// that for it.
    pub tries_addresses: bool,
    /// Threaded NAPI: kernel threads of its own do its receive work. A veth uses NAPI only if GRO is on at this end and TSO off
    /// at the other one; both are set accordingly.
    pub threaded: bool,
    /// Queueing discipline at the other end of a pair: where frames wait that this end has no room for. The kernel removes it if
    /// somebody moves that end into another namespace.
    pub queue: Option<Queue>,
    /// Table of the VRF of which it is a port; `None`: of none.
    pub vrf: Option<u32>,
}

/// Type of an interface, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// One end of a veth pair.
    Veth {
        /// Name of the other end.
        peer: String,
        /// Namespace of the other end.
        at: PeerNamespace,
        /// Bridge in that namespace of which the other end is made a port, and up; `None`: the other end is in no bridge, and
        /// stays down until its user sets it up.
        bridge: Option<String>,
    },
    /// A macvlan on an interface of the host.
    Macvlan {
        /// Name of that interface.
        parent: String,
        /// Mode in which it reaches the other macvlans of that interface.
        mode: Mode,
    },
    /// An interface of the host, moved in, and returned when the router ends.
    Moved {
        /// Name on the host.
        link: String,
    },
    /// A VLAN (IEEE 802.1Q) of another interface of the router, which comes before it.
    Vlan {
        /// Name of that interface.
        lower: String,
        /// Number of the VLAN, 1 to 4094.
        id: u16,
    },
    /// A service VLAN (IEEE 802.1ad) of another interface of the router, which comes before it. It carries VLANs, whose frames then
    /// have two tags (QinQ), and has no addresses.
    ServiceVlan {
        /// Name of that interface.
        lower: String,
        /// Number of the VLAN, 1 to 4094.
        id: u16,
    },
    /// A VRF: packets that arrive at its ports are routed by its table.
    Vrf {
        /// Number of the table.
        table: u32,
    },
    /// An interface that another party puts into the namespace and removes: the other end of a pair, or a TAP.
    External,
}

/// Namespace of the other end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerNamespace {
    /// The host's namespace.
    Home,
    /// A named namespace, as `ip netns list` shows it.
    Named(String),
    /// The namespace of another router of this run.
    Router(String),
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Destination network.
    pub to: Prefix,
    /// Gateway; `None`: the network is on the link.
    pub via: Option<IpAddr>,
    /// Name of the output interface.
    pub interface: String,
    /// Metric: of several routes to one network, the one with the smallest is used. 0: the kernel's default, which is 1024 for
    /// IPv6.
    pub metric: u32,
    /// Number of the table: [`MAIN`], or that of a VRF.
    pub table: u32,
}

/// A permanent neighbour, which is never resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// Name of the interface.
    pub interface: String,
    /// IP address.
    pub ip: IpAddr,
    /// Ethernet address.
    pub mac: Mac,
}

impl RouterConfig {
    /// Returns the configuration of a router with these interfaces. It forwards IPv4, and IPv6 between interfaces that have an IPv6
    /// address; IPv6 is disabled on the others. It has no route, no neighbour, and no published name.
    pub fn new(name: &str, interfaces: Vec<Interface>) -> Self {
        let sysctls = defaults(&interfaces);
        Self { name: name.to_owned(), interfaces, sysctls, ..Self::default() }
    }

    /// Returns its interface of this name.
    pub(crate) fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// Returns the VRF with this table.
    pub(crate) fn vrf(&self, table: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.origin == Origin::Vrf { table })
    }

    /// Returns true if a family of packets needs VRFs to come before the router's own addresses, which the kernel otherwise finds in
    /// each VRF.
    pub(crate) fn moves_rule(&self, is_ipv4: bool) -> bool {
        let is_used = || is_ipv4 || self.interfaces.iter().any(six::takes_part);
        self.interfaces.iter().any(Interface::is_vrf) && is_used()
    }

    /// Returns true if an interface, and those below it, are to be up.
    fn is_up(&self, interface: &Interface) -> bool {
        let lower = interface.lower().map(|lower| self.interface(lower));
        interface.up && lower.is_none_or(|lower| lower.is_some_and(|lower| self.is_up(lower)))
    }

    /// The part of the configuration that can be in force at once: without objects that wait for an interface to be up, and with
    /// the kernel's defaults filled in.
    pub(crate) fn applicable(&self) -> Self {
        let mut now = self.clone();
        // A VLAN is down as long as its lower interface is.
        let is_up = |name: &str| self.interface(name).is_some_and(|interface| self.is_up(interface));
        now.interfaces.iter_mut().for_each(|interface| interface.up = is_up(&interface.name));
        now.interfaces.iter_mut().for_each(Interface::as_it_is);
        now.routes.retain(|route| is_up(&route.interface));
        now.neighbours.retain(|neighbour| is_up(&neighbour.interface));
        now.spread.iter_mut().for_each(|route| route.ways.retain(|way| is_up(&way.interface)));
        now.spread.retain(|route| !route.ways.is_empty());
        for route in now.routes.iter_mut().filter(|route| !route.to.ip.is_ipv4() && route.metric == 0) {
            route.metric = six::METRIC;
        }
        now
    }
}

fn defaults(interfaces: &[Interface]) -> BTreeMap<String, String> {
    let four = [FORWARD, PROMOTE].map(|key| (key.to_owned(), "1"));
    let all = four.into_iter().chain(six::sysctls(interfaces));
    all.map(|(key, value)| (key, value.to_owned())).collect()
}

/// Returns the path below /proc/sys of an interface's IPv4 parameter: `rp_filter` of `wan` is `net/ipv4/conf/wan/rp_filter`.
pub fn interface_sysctl(interface: &str, key: &str) -> String {
    format!("net/ipv4/conf/{interface}/{key}")
}

/// Returns the interface to which a parameter belongs; `None`: it applies to the whole namespace.
pub(crate) fn interface_of(key: &str) -> Option<&str> {
    let mut parts = key.split('/');
    let is_one = parts.next() == Some("net")
        && matches!(parts.next(), Some("ipv4" | "ipv6"))
        && matches!(parts.next(), Some("conf" | "neigh"));
    parts.next().filter(|name| is_one && !matches!(*name, "all" | "default" | "lo"))
}

impl Interface {
    /// Returns an interface that is up and otherwise as created.
    pub fn new(name: &str, origin: Origin) -> Self {
        Self {
            name: name.to_owned(),
            origin,
            mac: None,
            mtu: None,
            up: true,
            addresses: Vec::new(),
            tries_addresses: true,
            threaded: false,
            queue: None,
            vrf: None,
        }
    }

    /// Returns the name of the interface below a VLAN.
    pub(crate) fn lower(&self) -> Option<&str> {
        self.origin.lower()
    }

    /// Returns true if it is a VLAN, whose packets pass another interface of the router as well.
    pub fn is_vlan(&self) -> bool {
        self.lower().is_some()
    }

    /// Returns true if it only carries VLANs.
    pub fn is_service(&self) -> bool {
        matches!(self.origin, Origin::ServiceVlan { .. })
    }

    /// Returns true if it is a VRF, at which no frame arrives.
    pub fn is_vrf(&self) -> bool {
        matches!(self.origin, Origin::Vrf { .. })
    }

    /// Returns true if it stands for a NIC: it is neither a VLAN nor a VRF.
    pub fn is_nic(&self) -> bool {
        !self.is_vlan() && !self.is_vrf()
    }

    fn as_it_is(&mut self) {
        if matches!(self.origin, Origin::Macvlan { mode: Mode::Passthru, .. }) {
            self.mac = None;
        }
        if !self.up {
            self.threaded = false;
            self.addresses.retain(|own| own.ip.is_ipv4());
        }
    }
}

impl Origin {
    /// Returns the name of the interface below a VLAN.
    pub(crate) fn lower(&self) -> Option<&str> {
        match self {
            Self::Vlan { lower, .. } | Self::ServiceVlan { lower, .. } => Some(lower),
            _ => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Veth { peer, at, bridge: None } => write!(out, "a pair with `{peer}` {at}"),
            Self::Veth { peer, at, bridge: Some(bridge) } => {
                write!(out, "a pair with `{peer}` {at}, in the bridge `{bridge}`")
            }
            Self::Macvlan { parent, mode } => write!(out, "a macvlan on `{parent}` ({})", word(*mode)),
            Self::Moved { link } => write!(out, "`{link}` of the host"),
            Self::Vlan { lower, id } => write!(out, "VLAN {id} of `{lower}`"),
            Self::ServiceVlan { lower, id } => write!(out, "service VLAN {id} of `{lower}`"),
            Self::Vrf { table } => write!(out, "a VRF of table {table}"),
            Self::External => out.write_str("an existing interface"),
        }
    }
}

const fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Private => "private",
        Mode::Vepa => "vepa",
        Mode::Bridge => "bridge",
        Mode::Passthru => "passthru",
    }
}

impl fmt::Display for PeerNamespace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home => out.write_str("on the host"),
            Self::Named(name) => write!(out, "in the namespace `{name}`"),
            Self::Router(name) => write!(out, "in the router `{name}`"),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.to)?;
        if let Some(via) = self.via {
            write!(out, " via {via}")?;
        }
        write!(out, " dev {}{}", self.interface, in_table(self.table))?;
        write_metric(out, self.metric)
    }
}

/// Formats the table of a route: nothing for the main one.
pub(crate) fn in_table(table: u32) -> String {
    if table == MAIN { String::new() } else { format!(" table {table}") }
}

/// Writes the metric of a route, unless it is the kernel's default.
pub(crate) fn write_metric(out: &mut fmt::Formatter<'_>, metric: u32) -> fmt::Result {
    match metric {
        0 => Ok(()),
        metric => write!(out, " metric {metric}"),
    }
}
