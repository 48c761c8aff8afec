//! The messages.

use std::collections::BTreeMap;

use api::Sharing;
use config::Plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the supervisor says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToPlane {
    /// Bring this up; the first message, once. Answered by [`ToSupervisor::Started`] or [`ToSupervisor::Failed`].
    Start(Orders),
    /// Change what runs to this; nothing is attached that no router needs which is built for it. Answered by [`ToSupervisor::Answer`].
    Apply {
        /// Of the answer.
        id: u64,
        /// What to become.
        orders: Orders,
        /// Only say what would change.
        dry_run: bool,
    },
    /// Answer a request.
    Ask {
        /// Of the answer.
        id: u64,
        /// The request.
        request: api::Request,
    },
    /// Nobody waits for this answer any more.
    Forget {
        /// Of the request.
        id: u64,
    },
    /// The child that was asked for: its socket and its pidfd are attached.
    Spawned {
        /// Its router.
        router: String,
        /// Its process number.
        pid: u32,
    },
    /// The child that was asked for is not there.
    NotSpawned {
        /// Its router.
        router: String,
        /// Why, in one line.
        why: String,
    },
    /// The thread of the kernel that was asked for, if there is one.
    FoundThread {
        /// Its number.
        thread: Option<i32>,
    },
    /// These threads share their CPUs, and no others.
    Share {
        /// By name.
        threads: BTreeMap<String, Sharing>,
    },
    /// What this NIC was plugged into was deleted and is there again: its descriptors are attached.
    Replace {
        /// The NIC: `edge.wan`.
        nic: String,
        /// What it is, as whoever opened it has it told.
        what: Value,
    },
    /// Another host may be at the other end of the cable of this NIC by now.
    Plugged {
        /// The NIC: `edge.wan`.
        nic: String,
    },
    /// Say [`ToSupervisor::Pong`] when what was said before is done.
    Ping,
    /// End in good order.
    Stop,
}

/// What the data plane says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToSupervisor {
    /// Everything of the orders is up.
    Started {
        /// When that was, CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// The orders cannot be followed; nothing runs.
    Failed {
        /// Why, in one line.
        why: String,
    },
    /// To a request.
    Answer {
        /// Of the request.
        id: u64,
        /// The answer, or why there is none.
        outcome: api::Outcome,
    },
    /// To [`ToPlane::Ping`].
    Pong,
    /// A state change.
    Event {
        /// `started`, `failed`, …
        kind: String,
        /// The router it is about.
        router: Option<String>,
        /// Whether it is about the peer at the other side of a NIC by vhost-user.
        of_peer: bool,
        /// The process that is this peer, where one has come.
        process: Option<i32>,
        /// One line that says it.
        message: String,
    },
    /// The threads of routers that there are now, all of them, whenever they are others than before: also those of the
    /// kernel that were found.
    Threads {
        /// What they are called, and their numbers.
        threads: Vec<api::Thread>,
    },
    /// Find the thread that the kernel's vhost-net has for this thread.
    FindThread {
        /// The thread that asked vhost-net for it, and is still there.
        owner: i32,
    },
    /// Start a child for this router.
    Spawn {
        /// Its name.
        router: String,
    },
    /// Another host may be at the other end of the cable of this NIC of a router in a process of its own.
    Plugged {
        /// The NIC: `edge.wan`.
        nic: String,
    },
    /// Kill the child of this router, if it still has that one.
    Kill {
        /// Its name.
        router: String,
        /// The child's process number.
        pid: u32,
    },
}

/// A plan to be run, and what of it was opened by those who may.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    /// Name of the run.
    pub run: String,
    /// The plan, with an engine for each router; for the process of one router [`Plan::of_apart`], else [`Plan::of_data_plane`].
    pub plan: Plan,
    /// The router that it is for, which gets a process of its own; none: it is for everything else.
    pub apart: Option<String>,
    /// The meaning of the descriptors, in their order.
    pub supplies: Vec<Supply>,
}

impl Orders {
    /// How many routers it is about, so that whoever waits knows how long.
    pub fn routers(&self) -> u32 {
        u32::try_from(self.plan.routers.len()).unwrap_or(u32::MAX)
    }
}

/// What some descriptors are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supply {
    /// What they are for.
    pub need: Need,
    /// Whose need that is: a NIC (`edge.wan`) or a router; nothing where it is everybody's.
    pub of: String,
    /// What they are, as whoever opened them has it told.
    pub what: Value,
    /// How many.
    pub descriptors: usize,
}

/// What descriptors are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// `/dev/kvm`.
    Kvm,
    /// What a NIC is plugged into.
    Uplink,
    /// Where the process of a router that is apart comes to a NIC.
    Door,
    /// What a Linux guest is made of: as many descriptors as its file names.
    Images,
    /// Devices of vhost-net for a NIC.
    VhostNets,
    /// The locks of names, to be held as long as this process lives.
    Locks,
}
