//! The port boundary: what a source or sink of frames is. And the switch that joins ports.
#![forbid(unsafe_code)]

mod classify;
pub mod clock;
mod collect;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod entry;
pub mod fault;
pub mod ingress;
pub mod limit;
pub mod null;
pub mod offload;
pub mod pair;
pub mod pcap;
pub mod port;
pub mod replay;
pub mod steer;
pub mod switch;
pub mod table;
pub mod tap_point;
pub mod wrapper;

pub use clock::{Clock, Hand};
pub use frame::offload::{Gso, Offload, Offloads};
pub use ingress::{IngressCounters, IngressFan, IngressSink, IngressSource, ingress, ingress_fan};
pub use limit::{Limit, LimitCounters, Limited};
pub use null::Null;
pub use offload::{Backlog, Completed, deliver, plainly, pump_on};
pub use pair::{PairPort, PairSink, pair};
pub use port::{Bell, Frame, Frames, Sink, Source};
pub use switch::{Config, PortId, Switch, SwitchPort};
pub use tap_point::{Observer, TapPoint};
pub use wrapper::{SinkWrapper, SourceWrapper};
