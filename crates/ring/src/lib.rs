//! Rings shared between two mutually distrusting parties, and the common protocol for sleeping and waking up.
#![no_std]

pub mod combine;
#[cfg(any(test, fuzzing))]
pub mod concurrent_stores;
pub mod delegated_work;
pub mod e1000;
pub mod hand_over;
pub mod memory;
pub mod meter;
pub mod prefetch;
pub mod questions;
pub mod regions;
#[cfg(feature = "alloc")]
pub mod slots;
pub mod split;
pub mod wake;

pub use memory::{Bytes, Region, Tagged};
pub use regions::Regions;
#[cfg(feature = "alloc")]
pub use slots::Slots;

/// Maximum number of frames that move in one burst anywhere in ringroad: longer bursts gain next to nothing.
pub const BURST: usize = 64;
