//! The experiments, a file each.

mod forward;
mod guest_to_guest;
mod list;
mod port_to_port;
mod ring_to_ring;
#[cfg(test)]
mod tests;
mod through;

pub use forward::Forward;
pub use guest_to_guest::GuestToGuest;
pub use list::{Case, LIST, Listed, find};
pub use port_to_port::PortToPort;
pub use ring_to_ring::RingToRing;
pub use through::Through;
