//! An end station: a TCP/IP stack (smoltcp) on the same platform that a router stands on.
//!
//! What a router is measured with has ends, and where those are guests of their own, they run this. One pass takes a
//! burst from NIC 0, hands it to the stack, lets the station's duty read and write its sockets, and sends what the stack
//! has made of it, again in bursts. Frames are not copied on their way in; the payload is copied once between a
//! frame and a socket's buffer.
//!
//! A station that sends is paced by the room in the transmit ring ([`router::Platform::room`]): it loses no frame there.
#![no_std]
#![forbid(unsafe_code)]

mod client;
mod memory;
mod server;
mod stack;
mod wire;

pub use memory::{LEAST_OCTETS, MOST_OCTETS, Places};
pub use stack::{Orders, Station};

/// Port of the service that sends back what it gets (RFC 862).
pub const ECHO: u16 = 7;
/// Port of the service that throws away what it gets (RFC 863).
pub const DISCARD: u16 = 9;
/// TCP connections that a server takes at a time on each of its ports.
pub const VISITORS: usize = 4;
