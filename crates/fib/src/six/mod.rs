//! IPv6 routes in a table of strides and intervals that the host writes and guests map read-only.
//!
//! ```text
//! header (4 KiB)       magic, default next hop, epoch
//! next hops (512 KiB)  16,384 x 4 words: kind and NIC, gateway (2 words), spare; or a group of next hops
//! buckets (512 KiB)    65,536 words: next hops of a part of the flows of a group
//! root (512 KiB)       2^16 words, by the first 16 bits of the destination
//! nodes (2 KiB each)   256 words, by the next 8 bits: at depth 16, 24, 32, 40, 48, 56
//! ranges               lists of intervals: of at most 32 words with keys of 32 bits, or with keys of 64 bits at depth 64
//! ```
//!
//! An entry of root or node is one word: a next hop, a node for the next 8 bits, or a list of the intervals into which the
//! routes below divide the addresses. A subtree becomes a list as soon as its intervals fit into two to four cache lines and
//! their borders into 32 bits; that ends most lookups of the Internet's routes after three or four reads. All elements have 8
//! octets, all walks are bounded (six nodes, and a search in 2^16 intervals), and no step needs more than shifts and
//! comparisons, so that a BPF program can read the same bytes.
//!
//! Lists are never changed but replaced: the writer fills a new one before the word that leads to it is stored. So for each
//! address a reader sees either the old or the new route.

pub mod layout;
#[cfg(feature = "rib")]
mod list;
#[cfg(feature = "rib")]
mod rib;
#[cfg(feature = "rib")]
mod store;
#[cfg(feature = "rib")]
pub mod synthetic;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod tests;

pub use layout::{Header, Memory};
#[cfg(feature = "rib")]
pub use rib::Rib;
pub use table::{Step, Table};
