//! Answers of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::control::ControlAnswer;
use crate::status::{RouterDetails, RunStatus};
use crate::trace::{Packet, TraceEnd};

/// Answer of a run to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// To [`crate::Request::Ps`].
    Ps(RunStatus),
    /// To [`crate::Request::Counters`].
    Counters(Counters),
    /// To [`crate::Request::Show`].
    Show(Box<RouterDetails>),
    /// The request was carried out.
    Done {
        /// One line for the user.
        message: String,
    },
    /// One packet of a [`crate::Request::Trace`]; more follow.
    Packet(Box<Packet>),
    /// End of the answer to [`crate::Request::Trace`].
    Traced(TraceEnd),
    /// To [`crate::Request::Capture`], at its end.
    Captured(CaptureEnd),
    /// To [`crate::Request::Events`].
    Events {
        /// Events, oldest first.
        events: Vec<Event>,
        /// Number of the next event, to be used in the next request.
        next: u64,
        /// Number of requested events that are no longer kept.
        lost: u64,
    },
    /// To [`crate::Request::Remote`].
    Remote {
        /// Number of the plan that runs: each change has the next one.
        plan: u64,
        /// The file; absent: it is the one of the plan that the client knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// To [`crate::Request::Control`].
    Control(ControlAnswer),
    /// To [`crate::Request::Apply`].
    Applied {
        /// Changes made, or to be made; empty if the run is already what the file says.
        changes: Vec<Change>,
        /// True if nothing was changed.
        dry_run: bool,
    },
}

/// Result of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureEnd {
    /// Frames in the file.
    pub captured: u64,
    /// Frames missing in it, because the file accepted them too slowly or not any more.
    pub missed: u64,
    /// True if the file accepted everything up to the end.
    pub complete: bool,
    /// Duration in nanoseconds.
    pub ran_ns: u64,
}

/// An answer, or the reason why there is none.
pub type Outcome = Result<Answer, Error>;

/// Error of a request: one line that says what is wrong and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
#[serde(deny_unknown_fields)]
pub struct Error {
    /// Error message.
    pub message: String,
}

impl Error {
    /// Creates an error; line feeds in the message are replaced by spaces.
    pub fn new(message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self { message: if message.contains('\n') { message.replace('\n', " ") } else { message } }
    }
}

/// Counters and CPU times of threads at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Time of reading, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Times of the first and last reading by that clock: threads are read one after the other, and perhaps
    /// in several processes. 0: `at_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_ns: u64,
    /// See `first_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_ns: u64,
    /// All counters by name: `edge.wan.rx.frames`.
    pub counters: BTreeMap<String, u64>,
    /// CPU time in nanoseconds, by thread: `edge/vcpu0`.
    pub cpu_ns: BTreeMap<String, u64>,
}

impl Counters {
    /// Times of the first and the last reading.
    pub fn read_within(&self) -> (u64, u64) {
        let known = |ns: u64| if ns == 0 { self.at_ns } else { ns };
        (known(self.first_ns).min(self.at_ns), known(self.last_ns).max(self.at_ns))
    }

    /// Extends the interval of readings to include this one.
    pub fn also_read_within(&mut self, (first, last): (u64, u64)) {
        let own = self.read_within();
        (self.first_ns, self.last_ns) = (own.0.min(first), own.1.max(last));
    }
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// A state change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Number in this run, counted from 0.
    pub number: u64,
    /// Time in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// Kind of change: `started`, `stopped`, `failed`, `restarted`, …
    pub kind: String,
    /// Router concerned; absent: the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// Message of one line.
    pub message: String,
}

/// A change made by `apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Description: `router edge: route 192.0.2.0/24 added`.
    pub what: String,
    /// True if it loses no packet.
    pub hitless: bool,
    /// Reason why it loses packets, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
