//! The experiments, a file each.

mod accesses;
mod boot;
mod control;
mod exits;
mod forward;
mod gate;
mod guest_rx;
mod guest_to_guest;
mod guest_tx;
mod host_end;
mod hostile;
mod idle;
mod kernel_fed;
mod list;
mod livelock;
mod mover;
mod overload;
mod port_to_port;
mod ring_to_ring;
mod room;
mod round_trip;
mod tcp;
mod tcp_forward;
#[cfg(test)]
mod tests;
mod through;
mod uplinks;

pub use boot::Boot;
pub use control::{Accounting, Isolation, Promise, Spinner, Sweep};
pub use forward::Forward;
pub use guest_rx::GuestRx;
pub use guest_to_guest::GuestToGuest;
pub use guest_tx::GuestTx;
pub use hostile::Hostile;
pub use idle::{Cost, Idle};
pub use kernel_fed::{KernelFed, Loop};
pub use list::{Case, LIST, Listed, find};
pub use livelock::Livelock;
pub use overload::{Link, Overload};
pub use port_to_port::PortToPort;
pub use ring_to_ring::RingToRing;
pub use round_trip::{RoundTrip, Waiting};
pub use tcp::{Between, Tcp};
pub use tcp_forward::{Forwarder, TcpForward};
pub use through::Through;
pub use uplinks::{Uplink, Uplinks};
