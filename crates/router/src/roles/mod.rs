//! Other roles of a firmware: the balancer before the members of a group, and for measurements traffic endpoints at both ends of a
//! router, and substitutes for a router.

mod application;
mod balancer;
mod echo;
mod sink;
mod source;
mod source_sink;

pub use application::{Application, Clock, LONGEST_QUEUE, Load};
pub use balancer::{Balancer, MOST_LINKS};
pub use echo::Echo;
pub use sink::{Sink, Tally};
pub use source::{Source, Traffic};
pub use source_sink::SourceSink;

/// Offset of the flow's number (u32, big endian) in a frame of a [`Source`]: after Ethernet, IPv4 and UDP.
pub const FLOW: usize = 42;
/// Offset of the frame's number within its flow (u32, big endian).
pub const SEQUENCE: usize = 46;
/// Length in octets of the shortest frame that carries both.
pub const SHORTEST: usize = 50;
