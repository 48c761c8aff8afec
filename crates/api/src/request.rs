//! What can be asked.

use serde::{Deserialize, Serialize};

use crate::trace::Filter;

/// What a client asks of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What runs, and how it is: answered by [`crate::Answer::Ps`].
    Ps {},
    /// Every counter and the CPU time of every thread: answered by [`crate::Answer::Counters`].
    Counters {
        /// Only of this router; absent: of the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        router: Option<String>,
    },
    /// A router as it runs: answered by [`crate::Answer::Show`].
    Show {
        /// Its name.
        router: String,
    },
    /// Changes one setting of a router: answered by [`crate::Answer::Done`].
    Set {
        /// Its name.
        router: String,
        /// The setting, as it is called in a file.
        key: String,
        /// Its new value, as it is written in a file, without quotes.
        value: String,
    },
    /// Stops a router, or the whole run: answered by [`crate::Answer::Done`].
    Stop {
        /// Name of the router or of the run.
        name: String,
    },
    /// Starts a router that was stopped: answered by [`crate::Answer::Done`].
    Start {
        /// Its name.
        router: String,
    },
    /// Stops a router and starts it again: answered by [`crate::Answer::Done`].
    Restart {
        /// Its name.
        router: String,
    },
    /// Follows packets that arrive at a NIC: answered by any number of [`crate::Answer::Packet`] and, at the end, by
    /// [`crate::Answer::Traced`].
    Trace {
        /// Name of the router.
        router: String,
        /// Name of its NIC.
        nic: String,
        /// End after so many packets, 1 to 10000.
        count: u32,
        /// End after so many milliseconds, 1 to 600000.
        timeout_ms: u64,
        /// Only packets that it fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<Filter>,
    },
    /// Writes what passes a NIC into a file: answered by [`crate::Answer::Captured`] when it is over. The file's descriptor
    /// comes with the request (`SCM_RIGHTS`); it ends when the client leaves.
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
        /// Octets of each frame that are kept, 14 to 65535.
        snap: u32,
    },
    /// State changes of the run: answered by [`crate::Answer::Events`].
    Events {
        /// Only those with a number from here on; absent: all that are still kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
    },
    /// Makes the run what a file says, by the difference: answered by [`crate::Answer::Applied`].
    Apply {
        /// Name of the file, for messages about it.
        file: String,
        /// What the file says, in TOML.
        text: String,
        /// Only say what would change.
        #[serde(default)]
        dry_run: bool,
    },
}
