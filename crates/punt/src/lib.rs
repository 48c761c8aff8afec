//! Frames for the control plane (punted frames): the class of each, and a rate limit for each class, so that a flood of one kind
//! cannot delay another. Pure and without an allocator.
//!
//! [`verdict`] decides *that* a frame is for the control plane, [`class_of`] how urgent it is, and a [`Gate`] whether it may pass.
//!
//! | class | frames | limit by default |
//! |---|---|---|
//! | BFD | port 3784 | 20,000/s |
//! | BFD over several hops | port 4784 | 20,000/s |
//! | routing | OSPF, PIM, VRRP, EIGRP, IS-IS; BGP, RIP, LDP | 20,000/s |
//! | neighbours | ARP, neighbour discovery, IGMP, MLD | 2,000/s |
//! | ICMP | the rest of ICMP and ICMPv6 | 1,000/s |
//! | rest | anything else | 1,000/s |
//!
//! Where a protocol demands a time to live of 255 (BFD over one hop, VRRP, neighbour discovery), a frame with a smaller one has
//! crossed a router: it falls into the rest, and cannot use up the tokens of neighbours (RFC 5082).
//!
//! The first four classes are [`urgent`]: their frames pass full queues.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod bucket;
mod class;
mod gate;
mod headers;
pub mod urgent;
mod verdict;

pub use bucket::Bucket;
pub use class::{Class, class_of};
pub use gate::{Gate, Limit, Limits, PuntCounters};
pub use verdict::{Addresses, HEAD, Owner, Verdict, verdict};
