//! What a trace tells of a packet.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Which packets a trace follows: those that fit everything that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// IPv4 source address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Ipv4Addr>,
    /// IPv4 destination address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Ipv4Addr>,
    /// IPv4 protocol number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// UDP or TCP port, of either side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A packet that arrived at the traced NIC, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packet {
    /// Its number in this trace, counted from 1.
    pub number: u32,
    /// When it arrived: nanoseconds since the trace began.
    pub at_ns: u64,
    /// Octets, without FCS.
    pub len: u32,
    /// Its headers in short form.
    pub headers: String,
    /// Where it was seen, in the order of time.
    pub hops: Vec<Hop>,
    /// How it ended.
    pub fate: Fate,
}

/// A place where a packet was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The place: `edge.wan.rx` (into the router's ring), `edge.lan.tx` (out of it).
    pub place: String,
    /// Nanoseconds since it arrived.
    pub after_ns: u64,
    /// What was seen there, in short form.
    pub seen: String,
}

/// How a packet ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fate {
    /// It left by this NIC of the last router it was seen in.
    Left {
        /// `edge.lan`.
        nic: String,
        /// Ethernet address it was sent to.
        next_hop: String,
        /// Nanoseconds from arrival to departure.
        after_ns: u64,
    },
    /// A router answered it instead of forwarding it.
    Answered {
        /// NIC by which the answer left.
        nic: String,
        /// The answer, in short form.
        answer: String,
        /// Nanoseconds from arrival to the answer.
        after_ns: u64,
        /// The router's counters of drops that moved meanwhile, each with by how much.
        counters: BTreeMap<String, u64>,
    },
    /// A queue or ring on its way did not take it.
    NotPlaced {
        /// Which: `edge.wan.rx`.
        place: String,
        /// The NIC's counters of drops that moved meanwhile, each with by how much.
        counters: BTreeMap<String, u64>,
    },
    /// It was not seen again within the time allowed.
    NotSeen {
        /// The last place it was seen.
        last: String,
        /// The router's counters of drops that moved meanwhile, and that of frames which it keeps for itself, each with by how
        /// much.
        counters: BTreeMap<String, u64>,
    },
}

/// How a trace ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEnd {
    /// Packets that were followed.
    pub traced: u32,
    /// Frames that passed the NIC while the trace ran and were not looked at, so that traffic is not slowed.
    pub not_looked_at: u64,
    /// Frames that were looked at and did not fit the filter.
    pub filtered: u64,
    /// Nanoseconds that the trace ran.
    pub ran_ns: u64,
}
