//! The suite that every port passes. A port's tests say how to make one and how to reach its other side; the suite
//! checks what [`crate`] promises. It panics with one sentence where a promise is broken.
//!
//! Frames of the suite are Ethernet frames between stations that the bench names, with a number and a pattern that
//! depends on it, so that each frame that comes out is known, whole, and in its place.

mod large;
mod pattern;
mod recorded;
mod sink;
mod source;

pub use pattern::{HEADER, Pattern};
pub use recorded::{check_ending_source, check_recorded_source};
pub use sink::{SinkBench, check_sink};
pub use source::{SourceBench, check_source, drained};

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;
