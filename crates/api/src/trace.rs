//! Results of packet traces.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Filter of a trace: packets must match all fields that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Source address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Destination address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// Protocol number; of an IPv6 packet that of the header after the extension headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// UDP or TCP port, of either side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A packet that arrived at the traced NIC, and its fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packet {
    /// Number in this trace, counted from 1.
    pub number: u32,
    /// Arrival time in nanoseconds since the trace began.
    pub at_ns: u64,
    /// Length in octets, without FCS.
    pub len: u32,
    /// Summary of its headers.
    pub headers: String,
    /// Places where it was seen, in chronological order.
    pub hops: Vec<Hop>,
    /// Its fate.
    pub fate: Fate,
}

/// Sighting of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Place: `edge.wan.rx` (into the router's ring), `edge.lan.tx` (out of it).
    pub place: String,
    /// Nanoseconds since its arrival.
    pub after_ns: u64,
    /// Summary of what was seen there.
    pub seen: String,
}

/// Fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fate {
    /// It left by this NIC of the last router in which it was seen.
    Left {
        /// NIC: `edge.lan`.
        nic: String,
        /// Ethernet address that it was sent to.
        next_hop: String,
        /// Network of the route that it took: `203.0.113.0/24`; absent: unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        route: Option<String>,
        /// Gateway of the route that it took, of several the one that its flow has; absent: none, or unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<String>,
        /// Nanoseconds from arrival to departure.
        after_ns: u64,
    },
    /// A router answered it instead of forwarding it.
    Answered {
        /// NIC through which the answer left.
        nic: String,
        /// Summary of the answer.
        answer: String,
        /// Nanoseconds from arrival to the answer.
        after_ns: u64,
        /// Drop counters of the router that moved meanwhile, with their increase.
        counters: BTreeMap<String, u64>,
    },
    /// The kernel dropped it (kernel routers).
    Dropped {
        /// The kernel's drop reason: `ip_innoroutes` stands for SKB_DROP_REASON_IP_INNOROUTES.
        reason: String,
        /// Nanoseconds from arrival to the drop.
        after_ns: u64,
    },
    /// The kernel router itself consumed it: it was for a process or ARP, or was answered by another packet.
    Kept {
        /// Nanoseconds from arrival to that, if the moment was seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ns: Option<u64>,
    },
    /// A queue or ring on its way did not accept it.
    NotPlaced {
        /// That queue or ring: `edge.wan.rx`.
        place: String,
        /// Drop counters of the NIC that moved meanwhile, with their increase.
        counters: BTreeMap<String, u64>,
    },
    /// It was not seen again within the time limit.
    NotSeen {
        /// Last place where it was seen.
        last: String,
        /// Drop counters of the router that moved meanwhile, and its counter of frames that it keeps for
        /// itself, with their increase.
        counters: BTreeMap<String, u64>,
    },
}

/// Result of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEnd {
    /// Packets traced.
    pub traced: u32,
    /// Frames that passed the NIC during the trace without being examined, so as not to slow down traffic.
    pub not_looked_at: u64,
    /// Frames that were examined and did not match the filter.
    pub filtered: u64,
    /// Duration of the trace in nanoseconds.
    pub ran_ns: u64,
}
