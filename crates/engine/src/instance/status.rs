//! Status and events of routers.

use std::time::Instant;

pub use api::State;
use config::Engine;
use telemetry::Kind;

/// Status of a router.
#[derive(Clone, Debug)]
pub struct RouterStatus {
    /// Its name.
    pub name: String,
    /// The engine that runs it.
    pub engine: Engine,
    /// Its state.
    pub state: State,
    /// When it entered this state.
    pub since: Instant,
    /// Number of restarts since the instance began, automatic or on request.
    pub restarts: u64,
    /// Why it last stopped without a request; `None` if it never did.
    pub reason: Option<String>,
    /// The ID of its process, if it has one of its own.
    pub pid: Option<i32>,
    /// How it is in its group, in one line; none: it is no member of one.
    pub member: Option<String>,
    /// Names and kernel thread IDs of its threads in this process.
    pub threads: Vec<(String, i32)>,
}

/// What is here of a router in a process of its own.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// Its name.
    pub name: String,
    /// Names and kernel numbers of the threads that serve its NICs.
    pub threads: Vec<(String, i32)>,
    /// How it is in its group, in one line; none: it is no member of one.
    pub member: Option<String>,
}

/// The part of a router that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The router itself, or an attachment of one of its NICs.
    Router,
    /// The connection of a vhost-user peer to a NIC.
    Peer {
        /// The peer's process ID, if one has connected and its ID is known.
        process: Option<i32>,
    },
}

/// An event of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The router's name.
    pub router: String,
    /// The kind of event.
    pub kind: Kind,
    /// The part of the router concerned.
    pub about: About,
    /// One-line description, without the router's name.
    pub message: String,
}
