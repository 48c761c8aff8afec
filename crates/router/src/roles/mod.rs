//! Other duties of a firmware, for measurements: what stands at both ends of a router, and what stands in its place.

mod application;
mod echo;
mod sink;
mod source;
mod source_sink;

pub use application::{Application, Clock, LONGEST_QUEUE, Load};
pub use echo::Echo;
pub use sink::{Sink, Tally};
pub use source::{Source, Traffic};
pub use source_sink::SourceSink;

/// Where the flow's number (u32, big endian) lies in a frame of a [`Source`]: after Ethernet, IPv4 and UDP.
pub const FLOW: usize = 42;
/// Where the frame's number within its flow (u32, big endian) lies.
pub const SEQUENCE: usize = 46;
/// Octets of the shortest frame that carries both.
pub const SHORTEST: usize = 50;
