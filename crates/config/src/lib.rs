//! One TOML file, read into a typed and validated [`Plan`].
#![forbid(unsafe_code)]

mod address;
mod cpus;
mod error;
mod mac;
mod places;
mod plan;

pub use address::{Address, Prefix};
pub use cpus::{CpuSet, NotCpuSet};
pub use error::{Error, Errors, MOST_ERRORS};
pub use mac::{Mac, NotMac};
pub use places::Places;
pub use plan::{
    Attach, Deliver, Engine, Neighbour, Nic, NicModel, Pin, Plan, Route, Router, Spin, Switch, VhostThreads,
};
