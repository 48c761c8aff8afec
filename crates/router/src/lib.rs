//! The router: burst -> Ethernet -> ARP | IPv4 -> lookup -> rewrite -> burst.
//!
//! [`Router::poll`] makes one pass over all NICs. Plain IPv4 frames to be forwarded take the hot path (`burst`); every
//! other frame takes the slow path (`slow`), one at a time, without changing the order of frames. For each frame
//! received exactly one counter of [`ledger::RouterCounters`] is incremented: forwarded, consumed, or a named drop; a
//! packet that waits for its neighbour is counted when it leaves the queue.
#![no_std]
#![forbid(unsafe_code)]

mod adjacency;
mod arp;
mod burst;
mod config;
mod fragment;
mod icmp;
pub mod neighbours;
pub mod offload;
mod pending;
pub mod platform;
mod rate;
pub mod roles;
mod router;
mod routes;
mod segment;
mod slow;
mod sources;

pub use adjacency::Adjacencies;
pub use config::{Address, Config, Interface, MAX_ADDRESSES, MAX_NICS, RouterResources, SMALLEST_MTU};
pub use neighbours::{Neighbour, Neighbours};
pub use platform::{Buffer, Burst, HEAD, Platform};
pub use router::Router;
pub use routes::{NextHop, Routes};
