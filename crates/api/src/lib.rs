//! What one can ask of a running instance: messages, framing, the control socket.
//!
//! A message is one line of JSON. A client sends [`Request`]s; each is answered by one line, an [`Answer`] or an
//! [`Error`], in the order asked; only [`Request::Trace`] is answered by several, of which [`Answer::Traced`] is the
//! last. `docs/control.md` shows each of them.
//!
//! The other side is not trusted: a line has a greatest length, a field that is not known is refused, and so is a
//! [`VERSION`] that is not spoken here.
#![forbid(unsafe_code)]

mod answer;
pub mod client;
pub mod conversation;
pub mod folder;
mod line;
mod request;
pub mod server;
mod status;
mod trace;

pub use answer::{Answer, CaptureEnd, Change, Counters, Error, Event, Outcome};
pub use client::Client;
pub use conversation::Limits;
pub use line::{encode_answer, encode_request, parse_answer, parse_request};
pub use request::Request;
pub use server::{Server, ServerCounters, Ticket};
pub use status::{
    NeighbourShown, NicShown, RouteShown, RouterShown, RouterStatus, RunStatus, Sharing, State, Thread, Value,
};
pub use trace::{Fate, Filter, Hop, Packet, TraceEnd};

/// Version of the protocol; a message of another one is refused.
pub const VERSION: u32 = 1;

/// Octets of the longest line that asks for something, without its newline; [`Request::Apply`] may have
/// [`LONGEST_APPLY`].
pub const LONGEST_REQUEST: usize = 64 << 10;

/// Octets of the longest line with a file to apply.
pub const LONGEST_APPLY: usize = 1 << 20;

/// Octets of the longest line that answers.
pub const LONGEST_ANSWER: usize = 8 << 20;
