//! Telemetry of a run: state changes as [`Event`]s, a bounded [`EventLog`] of them, counters as Prometheus
//! text ([`Page`]), and a small HTTP [`Responder`] that serves the text.
//!
//! This crate starts no threads and never blocks: the supervisor polls the responder's descriptors together
//! with its own.
#![forbid(unsafe_code)]

mod event;
mod event_log;
mod family;
mod page;
mod request;
mod responder;
mod time;

pub use event::{Event, Kind, one_line};
pub use event_log::{EventLog, Since};
pub use page::{Metric, Page};
pub use responder::{Limits, Place, Responder, ResponderCounters};
pub use time::Moment;
