//! Observed state of a router's namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlink::{Mac, Prefix, Queue};

use crate::{Origin, Route, SpreadRoute, TypedRoute};

/// Observed state of those objects of a router's namespace that are, or were, configured. Objects of others are left out, except
/// for interfaces with configured names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedState {
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, ObservedInterface>,
    /// The router's own routes, identified by their routing protocol.
    pub routes: BTreeSet<Route>,
    /// Those of them with several gateways.
    pub spread: BTreeSet<SpreadRoute>,
    /// Those of them by which nothing is forwarded.
    pub typed: BTreeSet<TypedRoute>,
    /// Permanent neighbours, by interface and address.
    pub neighbours: BTreeMap<(String, IpAddr), Mac>,
    /// Values of the configured parameters that this kernel has.
    pub sysctls: BTreeMap<String, String>,
    /// Families whose rule of table `local` is behind those of VRFs; IPv4 is true.
    pub moved_rules: BTreeSet<bool>,
}

/// An observed interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedInterface {
    /// Its origin; `None`: it belongs to another program and was not asked for.
    pub origin: Option<Origin>,
    /// Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// MTU in octets.
    pub mtu: u32,
    /// True if it is administratively up.
    pub up: bool,
    /// True if it has carrier, without which it has no next hops of groups.
    pub carrier: bool,
    /// Addresses.
    pub addresses: BTreeSet<Prefix>,
    /// True if kernel threads of its own do its receive work (threaded NAPI).
    pub threaded: bool,
    /// Queueing discipline at the other end of the pair; that of an end which was moved or renamed counts as the desired one.
    pub queue: Option<Queue>,
    /// Table of the router's VRF of which it is a port.
    pub vrf: Option<u32>,
}
