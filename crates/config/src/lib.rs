//! Parser and validator of ringroad's TOML file, which yields a typed [`Plan`].
#![forbid(unsafe_code)]

mod address;
mod affinity;
mod attachment;
mod control;
mod cpus;
mod error;
mod fault;
pub mod forwarding;
mod group;
mod host;
mod isolated;
mod kernel;
pub mod keys;
pub mod kinds;
pub mod learned;
mod linux;
mod load;
mod mac;
mod memory;
mod model;
mod napi;
mod nic;
mod plan;
mod rate;
mod read;
mod route;
mod sched;
mod section;
mod setting;
pub mod six;
mod source_lines;
#[cfg(test)]
mod tests;
mod values;
mod verify;
pub mod way;

pub use self::group::{
    Balancer, GROUP, Group, GroupKind, Interconnect, MOST_BALANCERS, MOST_MEMBERS, Scale, Spread, Stages,
    Surplus, is_forwarding_for, is_meant,
};
pub use address::{Address, AddressOf, Ip, Prefix, PrefixOf};
pub use attach::AttachmentProperties;
pub use attachment::read_memory_max;
pub use control::Control;
pub use cpus::{CpuSet, NotCpuSet};
pub use error::{Error, Errors, MOST_ERRORS};
pub use fault::Fault;
pub use host::HostFacts;
pub use load::{MOST_OCTETS, load, parse, text};
pub use mac::{Mac, NotMac};
pub use model::{nic_model, transmit_mode};
pub use plan::{
    Affinity, Allowed, Attach, Container, Deliver, Engine, FlowHash, ForwardingSettings, Guarantee, Itr,
    KernelPath, KernelPort, LinkState, Linux, Listen, Misdeed, Neighbour, Nic, NicModel, Pin, Plan, Policy,
    Power, QueueLen, Rate, Reservation, Restart, Role, Route, Router, RpFilter, Sched, Shares, Spin, Switch,
    Telemetry, TransmitMode, VhostThreads,
};
pub use setting::{Key, Setting};
pub use source_lines::SourceLines;
pub use values::BadValue;
