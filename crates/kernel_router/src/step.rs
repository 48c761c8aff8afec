//! Steps from the observed state to the desired one, each with its inverse.

use std::fmt;

use netlink::{Mac, Prefix, Queue};

use crate::{Neighbour, Origin, Route, SpreadRoute, TypedRoute};

/// One change of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Add an object.
    Add(Object),
    /// Remove an object.
    Remove(Object),
    /// Change a property of an interface.
    Set {
        /// Name of the interface.
        interface: String,
        /// Former value.
        from: Setting,
        /// New value, of the same kind.
        to: Setting,
    },
    /// Set a kernel parameter.
    Parameter {
        /// Path below /proc/sys.
        key: String,
        /// Former value; `None`: unknown, because the parameter is created with its interface.
        from: Option<String>,
        /// New value.
        to: String,
    },
}

/// An object that can be added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// An interface: down, without addresses.
    Interface(NewInterface),
    /// An address of an interface.
    Address {
        /// Name of the interface.
        interface: String,
        /// The address, with the length of its network's prefix.
        prefix: Prefix,
    },
    /// A route.
    Route(Route),
    /// A route with several gateways.
    SpreadRoute(SpreadRoute),
    /// A route by which nothing is forwarded.
    TypedRoute(TypedRoute),
    /// A permanent neighbour.
    Neighbour(Neighbour),
    /// The place of the rule of table `local` behind those of VRFs. Otherwise it is the first one, by which packets in a VRF reach
    /// addresses that the router has outside of it.
    LocalRule {
        /// True for IPv4, false for IPv6.
        is_ipv4: bool,
    },
}

/// An interface as it is created or moved in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInterface {
    /// Name.
    pub interface: String,
    /// Origin.
    pub origin: Origin,
    /// Ethernet address; `None`: as created.
    pub mac: Option<Mac>,
    /// MTU in octets; `None`: as created.
    pub mtu: Option<u32>,
}

/// A property of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Ethernet address.
    Mac(Mac),
    /// MTU in octets.
    Mtu(u32),
    /// Administrative state.
    Up(bool),
    /// Threaded NAPI: kernel threads of its own do its receive work.
    Threaded(bool),
    /// Queueing discipline at the other end of the pair; `None`: the default one.
    Queue(Option<Queue>),
    /// Table of the VRF of which it is a port; `None`: of none.
    Vrf(Option<u32>),
}

impl Step {
    /// Returns the step that undoes this one; `None`: nothing to undo, as a parameter disappears with its
    /// interface.
    pub fn inverse(&self) -> Option<Self> {
        Some(match self {
            Self::Add(thing) => Self::Remove(thing.clone()),
            Self::Remove(thing) => Self::Add(thing.clone()),
            Self::Set { interface, from, to } => {
                Self::Set { interface: interface.clone(), from: *to, to: *from }
            }
            Self::Parameter { key, from, to } => {
                Self::Parameter { key: key.clone(), from: Some(to.clone()), to: from.clone()? }
            }
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(thing) => thing.tell(out, "add"),
            Self::Remove(thing) => thing.tell(out, "remove"),
            Self::Set { interface, from, to } => write!(out, "{interface}: {from} becomes {to}"),
            Self::Parameter { key, from: Some(from), to } => write!(out, "{key}: {from} becomes {to}"),
            Self::Parameter { key, from: None, to } => write!(out, "{key}: {to}"),
        }
    }
}

impl Object {
    /// Returns the name of the interface that it is, or belongs to; `None`: it belongs to the whole namespace.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Interface(made) => Some(&made.interface),
            Self::Address { interface, .. } => Some(interface),
            Self::Route(route) => Some(&route.interface),
            Self::SpreadRoute(_) | Self::TypedRoute(_) | Self::LocalRule { .. } => None,
            Self::Neighbour(neighbour) => Some(&neighbour.interface),
        }
    }

    /// Writes what is done with it.
    fn tell(&self, out: &mut fmt::Formatter<'_>, verb: &str) -> fmt::Result {
        match self.interface() {
            Some(interface) => write!(out, "{interface}: {verb} {self}"),
            None => write!(out, "{verb} {self}"),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(made) => write!(out, "{}", made.origin),
            Self::Address { prefix, .. } => write!(out, "the address {prefix}"),
            Self::Route(route) => write!(out, "the route {route}"),
            Self::SpreadRoute(route) => write!(out, "the route {route}"),
            Self::TypedRoute(route) => write!(out, "the route {route}"),
            Self::Neighbour(Neighbour { ip, mac, .. }) => {
                write!(out, "the neighbour {ip} {}", MacDisplay(mac))
            }
            Self::LocalRule { is_ipv4 } => {
                let family = if *is_ipv4 { "IPv4" } else { "IPv6" };
                write!(out, "the rule of table local for {family} behind those of VRFs")
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mac(mac) => write!(out, "{}", MacDisplay(mac)),
            Self::Mtu(octets) => write!(out, "MTU {octets}"),
            Self::Up(true) => out.write_str("up"),
            Self::Up(false) => out.write_str("down"),
            Self::Threaded(true) => out.write_str("threaded NAPI"),
            Self::Threaded(false) => out.write_str("no threaded NAPI"),
            Self::Queue(Some(queue)) => write!(out, "a {queue} at the other end"),
            Self::Queue(None) => out.write_str("no queue at the other end"),
            Self::Vrf(Some(table)) => write!(out, "a port of the VRF of table {table}"),
            Self::Vrf(None) => out.write_str("in no VRF"),
        }
    }
}

/// Formats an Ethernet address in the usual notation.
struct MacDisplay<'a>(&'a Mac);

impl fmt::Display for MacDisplay<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}
