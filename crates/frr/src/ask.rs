//! Questions to the daemons by `vtysh`, and their answers in JSON as adjacencies.
//!
//! The fields are those of FRR 8.4.4. What an answer lacks is left empty; what it has in addition is ignored.

use std::io::Read;
use std::process::Child;

use serde_json::{Map, Value};

use crate::Daemon;

/// Longest answer that is read, in octets: some thousand adjacencies.
pub const LONGEST: usize = 8 << 20;

/// Protocol of an adjacency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// BGP.
    Bgp,
    /// OSPF for IPv4.
    Ospf,
    /// OSPF for IPv6.
    Ospf6,
    /// IS-IS.
    Isis,
    /// Bidirectional forwarding detection.
    Bfd,
    /// VRRP: a virtual router, which has no neighbours.
    Vrrp,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 6] = [Self::Bgp, Self::Ospf, Self::Ospf6, Self::Isis, Self::Bfd, Self::Vrrp];

    /// Name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bgp => "bgp",
            Self::Ospf => "ospf",
            Self::Ospf6 => "ospf6",
            Self::Isis => "isis",
            Self::Bfd => "bfd",
            Self::Vrrp => "vrrp",
        }
    }

    /// Daemon that speaks it.
    pub const fn daemon(self) -> Daemon {
        match self {
            Self::Bgp => Daemon::Bgp,
            Self::Ospf => Daemon::Ospf,
            Self::Ospf6 => Daemon::Ospf6,
            Self::Isis => Daemon::Isis,
            Self::Bfd => Daemon::Bfd,
            Self::Vrrp => Daemon::Vrrp,
        }
    }

    /// Command of vtysh whose answer [`read`] understands.
    pub const fn question(self) -> &'static str {
        match self {
            Self::Bgp => "show bgp summary json",
            Self::Ospf => "show ip ospf neighbor json",
            Self::Ospf6 => "show ipv6 ospf6 neighbor json",
            Self::Isis => "show isis neighbor json",
            Self::Bfd => "show bfd peers json",
            Self::Vrrp => "show vrrp json",
        }
    }
}

/// Adjacency: a neighbour of a routing protocol, a BFD session, or a virtual router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjacency {
    /// Address, or name where the protocol has no addresses.
    pub peer: String,
    /// What the protocol calls the peer: router id, AS number, address family.
    pub detail: String,
    /// Interface.
    pub interface: String,
    /// State in the protocol's words.
    pub state: String,
    /// True if it is in the state in which routes are exchanged (for VRRP: if the virtual router is ready).
    pub is_up: bool,
    /// Seconds in this state, if known.
    pub since: Option<u64>,
}

/// Reads what a program that answers writes to its standard output, a pipe, and waits for its end. `None` if that is longer than
/// [`LONGEST`]: the pipe is closed then, which ends the program.
pub fn hear(mut program: Child) -> Option<String> {
    let mut said = Vec::new();
    let read = program.stdout.take()?.take(LONGEST as u64 + 1).read_to_end(&mut said);
    let ended = program.wait();
    read.and(ended).ok()?;
    (said.len() <= LONGEST).then(|| String::from_utf8_lossy(&said).into_owned())
}

/// Reads an answer. `None` if it is no JSON, or longer than [`LONGEST`]: daemons print a sentence when a protocol is not configured.
pub fn read(protocol: Protocol, answer: &str) -> Option<Vec<Adjacency>> {
    if answer.len() > LONGEST {
        return None;
    }
    let answer: Value = serde_json::from_str(answer.trim()).ok()?;
    let mut found = match protocol {
        Protocol::Bgp => bgp(&answer),
        Protocol::Ospf => ospf(&answer),
        Protocol::Ospf6 => list(&answer["neighbors"]).map(ospf6).collect(),
        Protocol::Isis => isis(&answer),
        Protocol::Bfd => list(&answer).map(bfd).collect(),
        Protocol::Vrrp => list(&answer).flat_map(vrrp).collect(),
    };
    found.sort_by(|a, b| (&a.peer, &a.interface, &a.detail).cmp(&(&b.peer, &b.interface, &b.detail)));
    Some(found)
}

/// `{"ipv4Unicast": {"peers": {"192.0.2.2": {"state": "Established", "remoteAs": 65002, "peerUptimeMsec": 1000}}}}`
fn bgp(answer: &Value) -> Vec<Adjacency> {
    let mut found: Vec<Adjacency> = Vec::new();
    for (family, summary) in entries(answer) {
        for (peer, fields) in entries(&summary["peers"]) {
            let state = text(fields, &["state"]);
            let detail = format!(
                "AS {}, {family}, {} prefixes",
                number(&fields["remoteAs"]),
                number(&fields["pfxRcd"])
            );
            let is_up = state == "Established";
            let since = fields["peerUptimeMsec"].as_u64().filter(|_| is_up).map(|ms| ms / 1000);
            // The name of an unnumbered neighbour is that of its interface.
            let interface = if peer.contains(['.', ':']) { String::new() } else { peer.clone() };
            found.push(Adjacency { peer: peer.clone(), detail, interface, state, is_up, since });
        }
    }
    found
}

/// `{"neighbors": {"10.0.0.2": [{"nbrState": "Full/DR", "ifaceName": "wan:192.0.2.1", "ifaceAddress": "192.0.2.2"}]}}`; older
/// ones have no `neighbors` around, and `state`.
fn ospf(answer: &Value) -> Vec<Adjacency> {
    let neighbours = answer.get("neighbors").unwrap_or(answer);
    let adjacency = |router: &String, fields: &Value| {
        let state = text(fields, &["nbrState", "state"]);
        let peer = text(fields, &["ifaceAddress", "address"]);
        let interface = text(fields, &["ifaceName"]);
        Adjacency {
            peer: if peer.is_empty() { router.clone() } else { peer },
            detail: format!("router {router}"),
            interface: interface.split(':').next().unwrap_or_default().to_owned(),
            is_up: state.split('/').next() == Some("Full"),
            state,
            since: fields["upTimeInMsec"].as_u64().map(|ms| ms / 1000),
        }
    };
    entries(neighbours)
        .flat_map(|(router, each)| list(each).map(move |fields| adjacency(router, fields)))
        .collect()
}

/// `{"neighborId": "10.0.0.2", "state": "Full", "interfaceName": "wan", "duration": "00:01:02"}`
fn ospf6(fields: &Value) -> Adjacency {
    let state = text(fields, &["state"]);
    let router = text(fields, &["neighborId"]);
    Adjacency {
        peer: router.clone(),
        detail: format!("router {router}"),
        interface: text(fields, &["interfaceName"]),
        is_up: state == "Full",
        state,
        since: clock(&text(fields, &["duration"])),
    }
}

/// `{"areas": [{"circuits": [{"adj": "edge2", "interface": {"name": "wan", "state": "Up"}}]}]}`
fn isis(answer: &Value) -> Vec<Adjacency> {
    let circuits = list(&answer["areas"]).flat_map(|area| list(&area["circuits"]));
    let adjacent = circuits.filter(|circuit| circuit["adj"].is_string());
    adjacent
        .map(|circuit| {
            let interface = &circuit["interface"];
            let state = text(interface, &["state"]);
            Adjacency {
                peer: text(circuit, &["adj"]),
                detail: format!("level {}", number(&interface["level"])),
                interface: text(interface, &["name"]),
                is_up: state == "Up",
                state,
                since: None,
            }
        })
        .collect()
}

/// `{"peer": "192.0.2.2", "interface": "wan", "status": "up", "uptime": 5, "diagnostic": "ok"}`
fn bfd(fields: &Value) -> Adjacency {
    let state = text(fields, &["status"]);
    let is_up = state == "up";
    Adjacency {
        peer: text(fields, &["peer"]),
        detail: text(fields, &["diagnostic"]),
        interface: text(fields, &["interface"]),
        since: fields[if is_up { "uptime" } else { "downtime" }].as_u64(),
        is_up,
        state,
    }
}

/// `{"vrid": 5, "interface": "wan", "v4": {"status": "Master", "addresses": ["192.0.2.9"]}, "v6": {"status": "Initialize"}}`
fn vrrp(fields: &Value) -> Vec<Adjacency> {
    let family = |name: &str| {
        let state = text(&fields[name], &["status"]);
        let addresses: Vec<&str> = list(&fields[name]["addresses"]).filter_map(Value::as_str).collect();
        (!addresses.is_empty()).then(|| Adjacency {
            peer: format!("vrid {}", number(&fields["vrid"])),
            detail: format!("{name}, {}", addresses.join(" ")),
            interface: text(fields, &["interface"]),
            is_up: matches!(&state[..], "Master" | "Backup"),
            state,
            since: None,
        })
    };
    ["v4", "v6"].into_iter().filter_map(family).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Text of the first of these fields that is there.
fn text(fields: &Value, names: &[&str]) -> String {
    names.iter().find_map(|name| fields[*name].as_str()).unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Seconds of `HH:MM:SS`.
fn clock(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let [hours, minutes, seconds] = [parts.next()??, parts.next()??, parts.next()??];
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
}

#[cfg(test)]
mod tests;
