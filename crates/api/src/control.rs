//! Control planes of routers: questions and answers.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Question about the control plane of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlQuestion {
    /// Its routes in order, at most 1000: answered by [`ControlAnswer::Routes`].
    Routes {
        /// Only those to this network and to its parts, such as `10.0.0.0/8`; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<String>,
        /// Only those after this one; absent: from the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// The route that packets to an address follow: answered by [`ControlAnswer::Routes`] with at most one.
    Route {
        /// The address.
        to: IpAddr,
    },
    /// Neighbours on its links, as its kernel has found them: answered by [`ControlAnswer::Neighbours`].
    Neighbours {},
    /// Neighbours of its routing protocols: answered by [`ControlAnswer::Adjacencies`].
    Adjacencies {
        /// Only those of this protocol, such as `bfd`; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
    },
    /// Where its namespaces are: answered by [`ControlAnswer::Place`].
    Place {},
}

/// Answer about the control plane of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlAnswer {
    /// Routes.
    Routes {
        /// In order.
        routes: Vec<ControlRoute>,
        /// True if more follow after the last one.
        more: bool,
        /// Number of the last change of the router's table.
        epoch: u32,
        /// Networks for which the router's table has no room.
        late: u64,
    },
    /// Neighbours on links.
    Neighbours {
        /// In order.
        neighbours: Vec<ControlNeighbour>,
    },
    /// Neighbours of routing protocols.
    Adjacencies {
        /// By protocol, in order.
        adjacencies: Vec<Adjacency>,
    },
    /// Namespaces.
    Place(ControlPlace),
}

/// A route of a control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRoute {
    /// Destination prefix.
    pub to: String,
    /// Protocol that has found it: `ospf`, `bgp`, `kernel`, `file`, or its number.
    pub protocol: String,
    /// What happens to packets: `forwarded`, `local`, `blackhole`, `unreachable`, `prohibit`.
    pub fate: String,
    /// Next hops. Flows are spread over them by weight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<ControlHop>,
    /// True if zebra has not sent it since it was started last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlHop {
    /// Gateway; absent: the destinations are neighbours on the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// Link.
    pub link: String,
    /// Relative weight.
    pub weight: u16,
}

/// A neighbour on a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlNeighbour {
    /// Link.
    pub link: String,
    /// Address.
    pub address: IpAddr,
    /// Ethernet address, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// State: `permanent`, `known`, `incomplete`, `failed`.
    pub state: String,
}

/// A neighbour of a routing protocol, a session of BFD, or a virtual router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adjacency {
    /// Protocol: `bgp`, `ospf`, `ospf6`, `isis`, `bfd`, `vrrp`.
    pub protocol: String,
    /// Address or name.
    pub peer: String,
    /// What the protocol says of the peer.
    pub detail: String,
    /// Link; empty if it has none.
    pub link: String,
    /// State in the protocol's words.
    pub state: String,
    /// True if routes are exchanged.
    pub up: bool,
    /// Seconds in this state, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// Namespaces of a control plane, as paths of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlPlace {
    /// Network namespace.
    pub network: String,
    /// Mount namespace in which FRR's files are; absent: FRR does not run there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<String>,
    /// Command line of FRR's shell inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shell: Vec<String>,
}
