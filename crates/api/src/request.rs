//! Requests to a run.

use serde::{Deserialize, Serialize};

use crate::control::ControlQuestion;
use crate::trace::Filter;

/// Request of a client to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Status of the run and its routers: answered by [`crate::Answer::Ps`].
    Ps {},
    /// All counters, and the CPU time of all threads: answered by [`crate::Answer::Counters`].
    Counters {
        /// Only those of this router, or of this group and its members; absent: of the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        router: Option<String>,
    },
    /// Details of a router: answered by [`crate::Answer::Show`].
    Show {
        /// Name of the router.
        router: String,
    },
    /// Changes one setting of a router: answered by [`crate::Answer::Done`].
    Set {
        /// Name of the router.
        router: String,
        /// Name of the setting, as in a file.
        key: String,
        /// New value, as in a file, without quotes.
        value: String,
    },
    /// Stops a router, or the whole run: answered by [`crate::Answer::Done`].
    Stop {
        /// Name of the router or of the run.
        name: String,
    },
    /// Starts a router that was stopped: answered by [`crate::Answer::Done`].
    Start {
        /// Name of the router.
        router: String,
    },
    /// Stops a router and starts it again: answered by [`crate::Answer::Done`].
    Restart {
        /// Name of the router.
        router: String,
    },
    /// Traces packets that arrive at a NIC: answered by any number of [`crate::Answer::Packet`] and, at the
    /// end, by [`crate::Answer::Traced`].
    Trace {
        /// Name of the router.
        router: String,
        /// Name of its NIC.
        nic: String,
        /// End after so many packets, 1 to 10000.
        count: u32,
        /// End after so many milliseconds, 1 to 600000.
        timeout_ms: u64,
        /// Trace only packets that match.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<Filter>,
    },
    /// Writes the frames that pass a NIC into a file: answered by [`crate::Answer::Captured`] at the end. The
    /// file's descriptor accompanies the request (`SCM_RIGHTS`); the capture ends when the client
    /// disconnects.
    Capture {
        /// Name of the router.
        router: String,
        /// Name of its NIC.
        nic: String,
        /// End after so many frames, from 1; absent: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// End after so many milliseconds; absent: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// Octets kept of each frame, 14 to 65535.
        snap: u32,
    },
    /// State changes of the run: answered by [`crate::Answer::Events`].
    Events {
        /// Only those from this number on; absent: all that are still kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
    },
    /// The file of a group's back end on another host, from the plan that runs: answered by [`crate::Answer::Remote`].
    Remote {
        /// Name of the back end.
        member: String,
        /// Number of the plan whose file the client has, which is not sent again; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<u64>,
    },
    /// A question about the control plane of a router: answered by [`crate::Answer::Control`].
    Control {
        /// Name of the router.
        router: String,
        /// The question.
        question: ControlQuestion,
    },
    /// Changes the run to what a file says, applying only the differences: answered by
    /// [`crate::Answer::Applied`].
    Apply {
        /// Name of the file, for messages about it.
        file: String,
        /// Content of the file, in TOML.
        text: String,
        /// Report only what would change.
        #[serde(default)]
        dry_run: bool,
    },
}
