//! Runs and routers as they are.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStatus {
    /// Its name.
    pub run: String,
    /// The file it was started with, or the one applied last.
    pub file: String,
    /// Version of the program.
    pub program: String,
    /// Process number of its supervisor.
    pub pid: u32,
    /// Process number of its data plane; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<u32>,
    /// How often its data plane was started again.
    pub restarts: u32,
    /// Milliseconds since it was started.
    pub up_ms: u64,
    /// Its routers, in the order of the file.
    pub routers: Vec<RouterStatus>,
}

/// A router of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterStatus {
    /// Its name.
    pub name: String,
    /// What runs it: `kvm`, `process`.
    pub engine: String,
    /// Whether it runs.
    pub state: State,
    /// Milliseconds since it came into this state.
    pub since_ms: u64,
    /// How often it was started again since the run began.
    pub restarts: u32,
    /// Why it stopped the last time, in one line; absent: it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Process number of its own process, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// Whether a router runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It forwards.
    Running,
    /// It was told to stop.
    Stopped,
    /// It failed and is not started again by itself.
    Failed,
    /// It failed and is started again after a while.
    Waiting,
}

impl State {
    /// As it is printed.
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
    /// Its name: `edge/vcpu0`.
    pub name: String,
    /// The kernel's number for it.
    pub tid: i32,
}

/// The threads that share the CPUs of one that does not have them for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Others, who need them: it sleeps as soon as it has nothing to do.
    Others,
    /// A vCPU of its router, too, which it wakes: it does not interrupt it either before it has nothing to do.
    Guest,
}

/// A router with its plan as it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterShown {
    /// Name of the run.
    pub run: String,
    /// How it is.
    pub status: RouterStatus,
    /// What its file says: `vcpus`, `memory`, `vhost`, `restart`, `pin.vcpu`, …
    pub settings: BTreeMap<String, Value>,
    /// Its NICs, in the order of the file.
    pub nics: Vec<NicShown>,
    /// Its static routes, in the order of the file.
    pub routes: Vec<RouteShown>,
    /// Its static neighbours.
    pub neighbours: Vec<NeighbourShown>,
}

/// A NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicShown {
    /// Its name.
    pub name: String,
    /// What it is plugged into: `tap:wan0`, `switch:lan`.
    pub attach: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<String>,
    /// What else its file says: `model`, `mtu`, `queues`, …
    pub settings: BTreeMap<String, Value>,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A plain count: `mtu`, `vcpus`.
    Number(u64),
    /// A word, or what has a unit: `always`, `64M`, `50us`.
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
    /// Destinations it is for.
    pub to: String,
    /// The gateway; absent: the destinations are neighbours on the NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The NIC it leads out of.
    pub nic: String,
}

/// A neighbour that needs no ARP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourShown {
    /// Its address.
    pub address: String,
    /// Its Ethernet address.
    pub mac: String,
    /// The NIC it lives behind.
    pub nic: String,
}
