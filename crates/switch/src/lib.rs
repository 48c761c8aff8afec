//! The learning switch, which joins ports (`port`), and the balancer, which spreads what comes to one of them over several.
#![forbid(unsafe_code)]

pub mod balancer;
mod classify;
mod collect;
mod entry;
pub mod switch;
pub mod table;

pub use balancer::{Balancer, BalancerCounters, MemberCounters};
pub use switch::{Config, PortId, Switch, SwitchPort};
