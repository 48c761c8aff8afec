//! IPv4 routes in a flat table (DIR-24-8) that the host writes and guests map read-only; IPv6 routes in another one
//! ([`six`]).
//!
//! ```text
//! header (4 KiB)      magic, default next hop, epoch
//! next hops (512 KiB) 65,536 x u64: kind, NIC, gateway; or a group of next hops
//! buckets (1 MiB)     131,072 x u64: next hops of a part of the flows of a group
//! tbl24 (64 MiB)      2^24 x u32, by the first 24 bits of the destination
//! tbl8 (1 KiB each)   groups of 256 x u32, by the last 8 bits, for prefixes longer than /24
//! ```
//!
//! A lookup of a route of /24 or shorter costs a reader one load, of a longer one two. Entry 0 means "no route but the
//! default route": pages of the table that no route touches are never allocated, and the default route is one word of
//! the header.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "rib")]
extern crate alloc;

#[cfg(feature = "rib")]
mod hops;
pub mod layout;
mod readers;
#[cfg(feature = "rib")]
mod retired;
#[cfg(feature = "rib")]
mod rib;
#[cfg(feature = "rib")]
mod shares;
pub mod six;
#[cfg(feature = "rib")]
pub mod synthetic;
mod table;
#[cfg(test)]
mod tests;
mod word;

#[cfg(feature = "rib")]
pub use hops::{MOST_WAYS, Way};
pub use layout::{Header, Memory};
pub use readers::{OFFLINE, oldest};
#[cfg(feature = "rib")]
pub use rib::{Error, Rib};
pub use router::{CHOICES, NextHop, Refusal, Routes, Routes6};
pub use table::{Step, Table};
