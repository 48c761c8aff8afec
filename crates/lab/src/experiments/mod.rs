//! Experiments that need no virtual machine.

mod port_to_port;
mod ring_to_ring;
#[cfg(test)]
mod tests;
mod through;

pub use port_to_port::PortToPort;
pub use ring_to_ring::RingToRing;
pub use through::Through;
