//! The port interface: every origin and destination of frames is a port.
//!
//! A port is a [`Source`] (frames that leave a device, an uplink or a generator) and a [`Sink`] (frames that enter it).
//! One side is enough: a generator is only a source. Frames are never passed as owned memory: a source *shows* frames
//! in their memory for the duration of one call, and a sink copies them to its own. That is the only copy from ring to
//! ring.
//!
//! Life of a burst, all in the thread that polls the source:
//! 1. `sink.room()`: how many frames the sink can take now.
//! 2. `source.drain(budget, take)`: the source gathers up to `budget` waiting frames and calls `take` once.
//! 3. `take` calls `sink.deliver(frames)`: one copy each, one publication, at most one notification.
//! 4. `drain` returns all shown frames to the sender (one publication, at most one notification).
//!
//! When no frame has moved for a while, the thread arms both sides and checks again before it sleeps (`ring::wake`).
//!
//! Beside the boundary are the ports that need no device, and what stands before any port: a queue between threads, a pair, queues that
//! readers share, limit, capture, replay, faults. Whatever else has ports is a crate that stands on this one. The contracts are tested by
//! one suite for all ports of the product, in `tests/conformance`.
#![forbid(unsafe_code)]

mod boundary;
pub mod clock;
pub mod fault;
pub mod ingress;
pub mod limit;
pub mod null;
pub mod offload;
pub mod pair;
pub mod pcap;
pub mod replay;
pub mod shelf;
pub mod steer;
pub mod tap_point;
pub mod wrapper;

pub use boundary::{Bell, Frame, Frames, Sink, Source, octets, pump};
pub use clock::{Clock, ClockHandle};
pub use frame::offload::{Gso, Offload, Offloads};
pub use ingress::{
    IngressCounters, IngressFan, IngressSink, IngressSource, ingress, ingress_fan, ingress_fan_in_turn,
};
pub use limit::{Limit, LimitCounters, Limited};
pub use null::Null;
pub use offload::{Backlog, Completed, deliver, pump_on, show_completed};
pub use pair::{PairPort, PairSink, pair};
pub use shelf::{Shelf, ShelfQueue};
pub use tap_point::{Observer, TapPoint};
pub use wrapper::{SinkWrapper, SourceWrapper};
