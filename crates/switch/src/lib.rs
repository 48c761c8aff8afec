//! The learning switch, which connects ports (`port`).
#![forbid(unsafe_code)]

mod classify;
mod collect;
mod entry;
pub mod switch;
pub mod table;

pub use switch::{Config, PortId, Switch, SwitchPort};
