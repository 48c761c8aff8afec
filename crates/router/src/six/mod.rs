//! IPv6 (RFC 8200): packets on the slow path, and all that a router does for its own addresses.
//!
//! ```text
//!   burst      plain packets to be forwarded, a burst at a time
//!   packet     every other packet: for the router, to be forwarded, or neither
//!   local      packets for the router itself: extension headers, echo, errors
//!   icmp       errors about packets
//!   own        addresses, groups, and the choice of a source
//!   discovery  neighbour solicitations and advertisements, duplicate address detection
//!   redirect   redirects
//!   advertise  router advertisements
//!   report     multicast listener reports
//!   letter     messages that the router creates
//! ```

mod advertise;
pub(crate) mod burst;
mod discovery;
pub(crate) mod icmp;
mod letter;
mod local;
pub(crate) mod own;
pub(crate) mod packet;
mod redirect;
mod report;
