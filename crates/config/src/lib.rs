//! One TOML file, read into a typed and validated [`Plan`].
#![forbid(unsafe_code)]

mod address;
mod apart;
mod attach;
mod attachment;
mod cpus;
mod error;
mod host;
mod linux;
mod load;
mod mac;
mod memory;
mod model;
mod nic;
mod places;
mod plan;
mod read;
mod route;
mod section;
#[cfg(test)]
mod tests;
mod values;
mod verify;

pub use address::{Address, Prefix};
pub use cpus::{CpuSet, NotCpuSet};
pub use error::{Error, Errors, MOST_ERRORS};
pub use host::{HostFacts, InterfaceKind};
pub use load::{MOST_OCTETS, load, parse, text};
pub use mac::{Mac, NotMac};
pub use model::{nic_model, transmit_mode};
pub use places::Places;
pub use plan::{
    Attach, Deliver, Engine, FlowHash, Itr, Linux, Listen, MacvtapMode, Misdeed, Neighbour, Nic, NicModel,
    Pin, Plan, QueueLen, Replay, ReplayPace, Restart, Role, Route, Router, SocketSide, Spin, Switch,
    Telemetry, TransmitMode, VhostThreads,
};
pub use values::BadValue;
