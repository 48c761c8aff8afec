//! The experiments, one file each.

pub mod boot;
mod containers;
mod control;
mod forward;
mod groups;
mod guest_rx;
mod guest_to_guest;
mod guest_tx;
mod hostile;
mod idle;
mod kernel_fed;
mod list;
mod livelock;
mod lookup;
mod overload;
pub(crate) mod port_to_port;
mod ring_to_ring;
mod round_trip;
mod routes;
mod scale;
mod scan;
mod tcp;
mod tcp_forward;
#[cfg(test)]
mod tests;
mod uplinks;

pub(crate) use containers::drawn;
pub use list::{Case, ExperimentEntry, LIST, find};
