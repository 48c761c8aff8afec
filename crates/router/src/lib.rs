//! The router: burst -> Ethernet -> ARP | IPv4 | IPv6 -> lookup -> rewrite -> burst.
//!
//! [`Router::poll`] makes one pass over all NICs. Plain IPv4 frames to be forwarded take the hot path (`burst`), and so do
//! plain IPv6 frames and frames with VLAN tags of NICs at which such have been seen (`six::burst`); every other frame takes the slow path
//! (`slow`, `six`), one at a time, without changing the order of frames. For each frame
//! received exactly one counter of [`ledger::RouterCounters`] is incremented: forwarded, consumed, or a named drop; a
//! packet that waits for its neighbour is counted when it leaves the queue.
#![no_std]
#![forbid(unsafe_code)]

mod adjacency;
pub mod advertising;
mod arp;
mod burst;
mod collect;
mod config;
mod detour;
mod fragment;
mod group;
mod icmp;
mod ip;
pub mod neighbours;
pub mod offload;
mod options;
mod pending;
pub mod platform;
mod rate;
mod reassembly;
mod redirect;
mod reverse_path;
pub mod roles;
mod router;
mod routes;
mod segment;
mod six;
mod slow;
mod sources;
mod tags;
mod trunk;

pub use adjacency::Adjacencies;
pub use config::{
    Address, Address6, Advertise, Config, Interface, Interfaces, MAX_ADDRESSES, MAX_DNS, MAX_INTERFACES,
    MAX_NICS, MAX_PREFIXES, RouterResources, SMALLEST_MTU, Vlan,
};
pub use ip::Ip;
pub use neighbours::{Bucket, Neighbour, Neighbours};
pub use platform::{Buffer, Burst, HEAD, Platform};
pub use reverse_path::ReversePath;
pub use router::{Router, Waiting};
pub use routes::{Both, CHOICES, NextHop, NoRoutes6, Refusal, Routes, Routes6};
pub use trunk::Trunks;
