//! Control protocol of a running instance: messages, framing, and the control socket.
//!
//! A message is one line of JSON. A client sends [`Request`]s; each is answered by one line, an [`Answer`] or
//! an [`Error`], in order; only [`Request::Trace`] is answered by several, of which [`Answer::Traced`] is the
//! last. `docs/control.md` shows all messages.
//!
//! The peer is not trusted: lines have a maximum length, and unknown fields or another [`VERSION`] are
//! refused.
#![forbid(unsafe_code)]

mod answer;
pub mod client;
mod control;
pub mod conversation;
pub mod folder;
mod line;
mod request;
pub mod server;
mod status;
mod trace;

pub use answer::{Answer, CaptureEnd, Change, Counters, Error, Event, Outcome};
pub use client::Client;
pub use control::{
    Adjacency, ControlAnswer, ControlHop, ControlNeighbour, ControlPlace, ControlQuestion, ControlRoute,
};
pub use conversation::Limits;
pub use line::{encode_answer, encode_request, parse_answer, parse_request};
pub use request::Request;
pub use server::{Server, ServerCounters, Ticket};
pub use status::{
    CpuSharing, InterfaceShown, LAST_START, NeighbourShown, NicDetails, RouteShown, RouterDetails,
    RouterStatus, RunStatus, State, Thread, Value,
};
pub use trace::{Fate, Filter, Hop, Packet, TraceEnd};

/// Version of the protocol; messages of other versions are refused.
pub const VERSION: u32 = 1;

/// Octets of the longest request line, without its newline; for [`Request::Apply`] it is [`LONGEST_APPLY`].
pub const LONGEST_REQUEST: usize = 64 << 10;

/// Octets of the longest request line that applies a file.
pub const LONGEST_APPLY: usize = 1 << 20;

/// Octets of the longest answer line.
pub const LONGEST_ANSWER: usize = 8 << 20;
