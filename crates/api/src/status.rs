//! Status of runs and routers.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Status of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStatus {
    /// Name.
    pub run: String,
    /// File that it was started with, or the one applied last.
    pub file: String,
    /// Version of the program.
    pub program: String,
    /// Process number of its supervisor.
    pub pid: u32,
    /// Process number of its data plane; absent if there is none at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<u32>,
    /// Number of restarts of its data plane.
    pub restarts: u32,
    /// Milliseconds since its start.
    pub up_ms: u64,
    /// Routers, in the order of the file.
    pub routers: Vec<RouterStatus>,
}

/// Status of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterStatus {
    /// Name.
    pub name: String,
    /// Engine: `kvm`, `process`.
    pub engine: String,
    /// State.
    pub state: State,
    /// Milliseconds since it entered this state.
    pub since_ms: u64,
    /// Number of restarts since the run began.
    pub restarts: u32,
    /// Reason of its last stop, in one line; absent: it never stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Process number of its own process, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How it is in its group, in one line: `serving, 4 of 8 queues`; absent: it is no member of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Threads.
    pub threads: Vec<Thread>,
}

/// State of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is up and serves its NICs.
    Running,
    /// It was stopped on request.
    Stopped,
    /// It failed and is not restarted automatically.
    Failed,
    /// It failed and will be restarted after a pause, or is just coming up.
    Waiting,
}

impl State {
    /// Name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
        }
    }
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Name: `edge/vcpu0`.
    pub name: String,
    /// Kernel's thread number.
    pub tid: i32,
}

/// Kind of threads that share the CPUs of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuSharing {
    /// Other threads need the CPUs: the thread sleeps as soon as it is idle.
    Contended,
    /// A vCPU of its router, which it wakes, is among them: the thread also does not interrupt that vCPU
    /// before it is idle itself.
    WithOwnVcpu,
}

/// The setting of a router that is none of its file: how long each step of its last start took.
pub const LAST_START: &str = "last start";

/// Details of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterDetails {
    /// Name of the run.
    pub run: String,
    /// Status.
    pub status: RouterStatus,
    /// Settings: `vcpus`, `memory`, `vhost`, `restart`, `pin.vcpu`, …
    pub settings: BTreeMap<String, Value>,
    /// NICs, in the order of the file.
    pub nics: Vec<NicDetails>,
    /// Interfaces for VLANs, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceShown>,
    /// Static routes, in the order of the file.
    pub routes: Vec<RouteShown>,
    /// Static neighbours.
    pub neighbours: Vec<NeighbourShown>,
}

/// A NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicDetails {
    /// Name.
    pub name: String,
    /// Attachment: `tap:wan0`, `switch:lan`.
    pub attach: String,
    /// Ethernet address.
    pub mac: String,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<String>,
    /// Other settings: `model`, `mtu`, `queues`, …
    pub settings: BTreeMap<String, Value>,
}

/// An interface for a VLAN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceShown {
    /// Name.
    pub name: String,
    /// Its NIC.
    pub nic: String,
    /// Number of the VLAN: `100`; of one in another one: `200.100`.
    pub vlan: String,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<String>,
    /// Other settings: `mtu`, `rpf`, `vrf`.
    pub settings: BTreeMap<String, Value>,
}

/// Value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Plain number: `mtu`, `vcpus`.
    Number(u64),
    /// Word, or number with a unit: `always`, `64M`, `50us`.
    Text(String),
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteShown {
    /// Destination prefix.
    pub to: String,
    /// Gateway; absent: the destinations are neighbours on the NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Outgoing NIC; of a route by which nothing is forwarded its type: `blackhole`, `unreachable`, `prohibit`.
    pub nic: String,
    /// VRF to whose table it belongs; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf: Option<String>,
}

/// A static neighbour, which needs no ARP and no solicitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourShown {
    /// IPv4 or IPv6 address.
    pub address: String,
    /// Ethernet address.
    pub mac: String,
    /// NIC that it is reached through.
    pub nic: String,
}
