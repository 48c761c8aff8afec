//! How routers are, and what happens to them.

use std::time::Instant;

use config::Engine;
use telemetry::Kind;

/// Whether a router runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It serves.
    Running,
    /// It was told to stop.
    Stopped,
    /// It failed and is not started again by itself.
    Failed,
    /// It failed and is started again after a while, or is just coming up.
    Waiting,
}

/// A router as it is.
#[derive(Clone, Debug)]
pub struct RouterStatus {
    /// Its name.
    pub name: String,
    /// What runs it.
    pub engine: Engine,
    /// Whether it runs.
    pub state: State,
    /// When it came into this state.
    pub since: Instant,
    /// How often it was started again, by itself or on demand, since the instance began.
    pub restarts: u64,
    /// Why it stopped by itself the last time; none: it never did.
    pub reason: Option<String>,
    /// The number of its process, where it has one of its own.
    pub pid: Option<i32>,
    /// Names and kernel numbers of its threads in this process.
    pub threads: Vec<(String, i32)>,
}

/// What of a router an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The router itself, or what a NIC is plugged into.
    Router,
    /// Whether a program is at the other side of a NIC by vhost-user.
    Peer {
        /// Its process, where one has come and that is known.
        process: Option<i32>,
    },
}

/// Something that happened to a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The router's name.
    pub router: String,
    /// What kind of thing.
    pub kind: Kind,
    /// What of it.
    pub about: About,
    /// One line that says it, without the router's name.
    pub message: String,
}
