//! THE boundary: everything that frames come from or go to is a port.
//!
//! A port is a [`Source`] (frames that leave a device, an uplink or a generator) and a [`Sink`] (frames that enter
//! it). One side is enough: a generator is only a source. Frames never change hands as owned memory: a source
//! *shows* frames where they lie, for the time of one call, and a sink copies them to where it wants them. That is
//! the one copy from ring to ring.
//!
//! Life of a burst, all in the thread that polls the source:
//! 1. `sink.room()`: how many frames the sink can take just now.
//! 2. `source.drain(budget, take)`: the source gathers up to `budget` waiting frames and calls `take` once.
//! 3. `take` calls `sink.deliver(frames)`: one copy each, one publication, at most one notification.
//! 4. `drain` gives all shown frames back to the sender (one publication, at most one notification).
//!
//! When nothing moved for a while, the thread arms both sides and looks again before it sleeps (`ring::wake`).
//!
//! Beside the boundary are the ports that need no device, and what stands before any port: a queue between threads, a pair,
//! limit, capture, replay, faults. Whatever else has ports is a crate that stands on this one.
#![forbid(unsafe_code)]

mod boundary;
pub mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod fault;
pub mod ingress;
pub mod limit;
pub mod null;
pub mod offload;
pub mod pair;
pub mod pcap;
pub mod replay;
pub mod steer;
pub mod tap_point;
pub mod wrapper;

pub use boundary::{Bell, Frame, Frames, Sink, Source, octets, pump};
pub use clock::{Clock, Hand};
pub use frame::offload::{Gso, Offload, Offloads};
pub use ingress::{IngressCounters, IngressFan, IngressSink, IngressSource, ingress, ingress_fan};
pub use limit::{Limit, LimitCounters, Limited};
pub use null::Null;
pub use offload::{Backlog, Completed, deliver, plainly, pump_on};
pub use pair::{PairPort, PairSink, pair};
pub use tap_point::{Observer, TapPoint};
pub use wrapper::{SinkWrapper, SourceWrapper};
