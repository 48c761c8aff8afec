//! Conformance suite that every port of the product passes, and the lab's generator and sink. A port's tests provide a bench, which
//! creates the port and reaches its other side; the suite checks the contracts of [`port`]. It panics with one sentence if a contract
//! is broken. A port that takes some frames out, for a group or a control plane, passes with frames that it lets through; one that makes
//! faults, while it makes none.
//!
//! The suite's frames are Ethernet frames between stations that the bench names, with a number and a pattern that
//! depends on it, so that each frame that comes out can be identified, and checked to be complete and in order.
//!
//! The ports of the crate `port` itself are tested here: in its unit tests they would be other types than those of the suite.
#![forbid(unsafe_code)]

mod large;
mod pattern;
mod recorded;
mod sink;
mod source;
mod wrapped;

pub use pattern::{HEADER, Pattern};
pub use recorded::{check_ending_source, check_recorded_source};
pub use sink::{SinkBench, check_sink};
pub use source::{SourceBench, check_source, drained};
pub use wrapped::{check_sink_before, check_source_behind};

#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod shelf_tests;
#[cfg(test)]
mod tests;
