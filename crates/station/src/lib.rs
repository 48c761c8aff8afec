//! An end station: a TCP/IP stack (smoltcp) on the same platform that a router runs on.
//!
//! Measurements of a router need endpoints; endpoints that are guests of their own run this. One pass takes a burst
//! from NIC 0, hands it to the stack, lets the station's duty read and write its sockets, and sends the frames that the
//! stack has produced, again in bursts. Frames are not copied on their way in; the payload is copied once between a
//! frame and a socket's buffer.
//!
//! A sending station is paced by the room in the transmit ring ([`router::Platform::room`]): it loses no frame there.
#![no_std]
#![forbid(unsafe_code)]

mod client;
mod memory;
mod server;
mod stack;
mod wire;

pub use memory::{LEAST_OCTETS, MOST_OCTETS, SocketMemory};
pub use stack::{Station, StationConfig};

/// Port of the echo service (RFC 862).
pub const ECHO: u16 = 7;
/// Port of the discard service (RFC 863).
pub const DISCARD: u16 = 9;
/// Maximum number of TCP connections of a server on each of its ports.
pub const MAX_CONNECTIONS: usize = 4;
