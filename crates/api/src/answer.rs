//! What is answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::status::{RouterShown, RunStatus};
use crate::trace::{Packet, TraceEnd};

/// What a run answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// To [`crate::Request::Ps`].
    Ps(RunStatus),
    /// To [`crate::Request::Counters`].
    Counters(Counters),
    /// To [`crate::Request::Show`].
    Show(Box<RouterShown>),
    /// What was asked has been done.
    Done {
        /// One line for the user.
        message: String,
    },
    /// One packet that [`crate::Request::Trace`] asked for; more follow.
    Packet(Box<Packet>),
    /// The last line of the answer to [`crate::Request::Trace`].
    Traced(TraceEnd),
    /// To [`crate::Request::Capture`], when it is over.
    Captured(CaptureEnd),
    /// To [`crate::Request::Events`].
    Events {
        /// The changes, oldest first.
        events: Vec<Event>,
        /// Number that the next change will have: what to ask for next.
        next: u64,
        /// Changes that were asked for and are no longer kept.
        lost: u64,
    },
    /// To [`crate::Request::Apply`].
    Applied {
        /// What was changed, or would be; empty where the run is already what the file says.
        changes: Vec<Change>,
        /// Whether nothing was done.
        dry_run: bool,
    },
}

/// How a capture ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureEnd {
    /// Frames in the file.
    pub captured: u64,
    /// Frames that are not, because the file took them too slowly or no more.
    pub missed: u64,
    /// Whether the file took everything up to the end.
    pub complete: bool,
    /// Nanoseconds that it ran.
    pub ran_ns: u64,
}

/// An answer, or why there is none.
pub type Outcome = Result<Answer, Error>;

/// Why something was not done: one line that says what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Error {
    /// The line.
    pub message: String,
}

impl Error {
    /// An error with this message, on one line.
    pub fn new(message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self { message: if message.contains('\n') { message.replace('\n', " ") } else { message } }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Counters and threads at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// When they were read: nanoseconds of a clock that only goes forward (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// When the first and the last of it was read, by that clock: what is of threads is read one after the other, and perhaps in
    /// several processes. 0: at `at_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_ns: u64,
    /// See `first_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_ns: u64,
    /// Every counter, by name: `edge.wan.rx.frames`.
    pub counters: BTreeMap<String, u64>,
    /// Nanoseconds on a CPU, by thread: `edge/vcpu0`.
    pub cpu_ns: BTreeMap<String, u64>,
}

impl Counters {
    /// When the first and the last of it was read.
    pub fn read_within(&self) -> (u64, u64) {
        let known = |ns: u64| if ns == 0 { self.at_ns } else { ns };
        (known(self.first_ns).min(self.at_ns), known(self.last_ns).max(self.at_ns))
    }

    /// Something of it was read within these moments as well.
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
    /// Its number in this run, counted from 0.
    pub number: u64,
    /// When it happened: milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// What kind of change: `started`, `stopped`, `failed`, `restarted`, …
    pub kind: String,
    /// The router it is about; absent: the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// One line that says it.
    pub message: String,
}

/// One thing that `apply` changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// What: `router edge: route 192.0.2.0/24 added`.
    pub what: String,
    /// Whether no packet is lost by it.
    pub hitless: bool,
    /// Why it is not hitless, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
