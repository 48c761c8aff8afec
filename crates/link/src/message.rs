//! Messages between supervisor and data plane.

use std::collections::BTreeMap;

use api::CpuSharing;
use config::Plan;
use config::learned::{LearnedGateway, Lesson};
use config::way::{Way, WayQuestion};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Message from the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToPlane {
    /// Bring this plan up; the first message, sent once. Answered by [`ToSupervisor::Started`] or
    /// [`ToSupervisor::Failed`].
    Start(PlanWithSupplies),
    /// Change to this plan; only the supplies of routers that are built for it are attached. Answered by
    /// [`ToSupervisor::Answer`].
    Apply {
        /// ID of the answer.
        id: u64,
        /// The new plan.
        orders: PlanWithSupplies,
        /// Only report what would change.
        dry_run: bool,
    },
    /// Answer a request.
    Ask {
        /// ID of the answer.
        id: u64,
        /// The request.
        request: api::Request,
    },
    /// The answer to this request is not needed any more.
    Forget {
        /// ID of the request.
        id: u64,
    },
    /// The requested child process was started: its socket and its pidfd are attached.
    Spawned {
        /// Its router.
        router: String,
        /// Its process ID.
        pid: u32,
    },
    /// The requested child process could not be started.
    NotSpawned {
        /// Its router.
        router: String,
        /// The reason, in one line.
        why: String,
    },
    /// The requested kernel thread, if there is one.
    FoundThread {
        /// The thread in [`ToSupervisor::FindThread`].
        owner: i32,
        /// Its thread ID.
        thread: Option<i32>,
    },
    /// Sets the threads that share their CPUs; all others do not.
    Share {
        /// The threads, by name, each with the kind of sharing.
        threads: BTreeMap<String, CpuSharing>,
    },
    /// The attachment of this NIC was deleted and was opened again: its descriptors are attached.
    Replace {
        /// The NIC: `edge.wan`.
        nic: String,
        /// Its description, from the process that opened it.
        what: Value,
    },
    /// There may now be another host at the other end of the cable of this NIC.
    Plugged {
        /// The NIC: `edge.wan`.
        nic: String,
    },
    /// A member of a group gets no new frames from now on, or is watched again as one that starts.
    Drain {
        /// Its router.
        router: String,
        /// Whether it gets none.
        is_on: bool,
    },
    /// A member of a group does not know the routes of its control plane, and gets no frames; or it knows them now.
    Learning {
        /// Its router.
        router: String,
        /// Whether it does not know them.
        is_on: bool,
    },
    /// The gateways of routes by several ones that the control plane of a group with one route table has found, whenever they change. It
    /// is told by [`ToSupervisor::SilentGateways`] which of them do not answer.
    Gateways {
        /// The group.
        group: String,
        /// All of them.
        gateways: Vec<LearnedGateway>,
    },
    /// What the control plane of a router has found. Answered by [`ToSupervisor::Learned`].
    Learn {
        /// Its router.
        router: String,
        /// What it is.
        lesson: Lesson,
    },
    /// Find the way of a packet in the route table of the router that has sent it on. Answered by [`ToSupervisor::FoundWay`].
    FindWay {
        /// The packet.
        of: TracedPacket,
        /// What decides about its way.
        question: WayQuestion,
    },
    /// Answer to [`ToSupervisor::FindWay`].
    FoundWay {
        /// The packet.
        of: TracedPacket,
        /// Its way, if there is one, and somebody knows it.
        way: Option<Way>,
    },
    /// Answer by [`ToSupervisor::Pong`] when all earlier messages are processed.
    Ping,
    /// Shut down in good order.
    Stop,
}

/// Message from the data plane.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToSupervisor {
    /// The plan is up.
    Started {
        /// Time at which it was up, CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// The plan could not be brought up; nothing runs.
    Failed {
        /// The reason, in one line.
        why: String,
    },
    /// Answer to a request.
    Answer {
        /// ID of the request.
        id: u64,
        /// The answer, or the reason why there is none.
        outcome: api::Outcome,
    },
    /// Answer to [`ToPlane::Ping`].
    Pong,
    /// A router knows what its control plane has found.
    Learned {
        /// Its name.
        router: String,
        /// Number of networks that are not in its route table as they should be, because that is full.
        late: u64,
        /// Epoch of its route table; 0: it does not run.
        epoch: u32,
    },
    /// A state change.
    Event {
        /// `started`, `failed`, …
        kind: String,
        /// The router concerned.
        router: Option<String>,
        /// True if it is about a vhost-user peer of a NIC.
        of_peer: bool,
        /// The process ID of this peer, if it is connected.
        process: Option<i32>,
        /// One-line description.
        message: String,
    },
    /// All current threads of routers, whenever they change: including the kernel threads that were found.
    Threads {
        /// Their names and IDs.
        threads: Vec<api::Thread>,
    },
    /// Find the vhost-net kernel thread that was created for this thread.
    FindThread {
        /// The thread that became the owner of the vhost-net device, and still exists.
        owner: i32,
    },
    /// Start a child process for this router.
    Spawn {
        /// Its name.
        router: String,
        /// True if it needs the firmware for jumbo frames.
        jumbo: bool,
    },
    /// There may now be another host at the other end of the cable of this NIC of an isolated router.
    Plugged {
        /// The NIC: `edge.wan`.
        nic: String,
    },
    /// The gateways that members of a group with one route table are to avoid, because they do not answer, whenever they change.
    SilentGateways {
        /// The group.
        group: String,
        /// All of them.
        gateways: Vec<LearnedGateway>,
    },
    /// Find the way of a packet, where another process has the routes. Answered by [`ToPlane::FoundWay`].
    FindWay {
        /// The packet.
        of: TracedPacket,
        /// What decides about its way.
        question: WayQuestion,
    },
    /// Answer to [`ToPlane::FindWay`].
    FoundWay {
        /// The packet.
        of: TracedPacket,
        /// Its way, if there is one.
        way: Option<Way>,
    },
    /// Kill this child process of a router, if it still exists.
    Kill {
        /// Its name.
        router: String,
        /// Its process ID.
        pid: u32,
    },
}

/// A packet of a trace that has left a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPacket {
    /// ID of the request for the trace.
    pub trace: u64,
    /// Its number in the trace.
    pub number: u32,
    /// The router.
    pub router: String,
}

/// A plan to be run, with the descriptors that were opened for it by the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanWithSupplies {
    /// Name of the run.
    pub run: String,
    /// The plan, with an engine for each router; for the process of one router [`Plan::of_isolated`], else [`Plan::of_data_plane`].
    pub plan: Plan,
    /// The isolated router whose process this is for; `None`: it is for the main data plane.
    pub isolated: Option<String>,
    /// The meaning of the descriptors, in their order.
    pub supplies: Vec<Supply>,
}

impl PlanWithSupplies {
    /// Returns the number of routers, by which the supervisor computes its time limit.
    pub fn routers(&self) -> u32 {
        u32::try_from(self.plan.routers.len()).unwrap_or(u32::MAX)
    }
}

/// Meaning of some descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supply {
    /// Their purpose.
    pub need: SupplyKind,
    /// The NIC (`edge.wan`), router or group that they are for; empty if they are for all.
    pub of: String,
    /// Their description, from the process that opened them.
    pub what: Value,
    /// Number of descriptors.
    pub descriptors: usize,
}

/// Purpose of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SupplyKind {
    /// `/dev/kvm`.
    Kvm,
    /// Attachment of a NIC.
    Uplink,
    /// Socket by which the process of an isolated router connects to a NIC.
    Door,
    /// Shadow of a NIC, in the namespace of its router's control plane.
    Shadow,
    /// Route table of a group, to read.
    GroupRoutes,
    /// Neighbour table of a group: to read, and for the main data plane also to write.
    GroupNeighbours,
    /// Desk of a member of a group, which it writes.
    Desk,
    /// Files of a Linux guest: as many descriptors as its configuration names.
    Images,
    /// vhost-net devices for a NIC.
    VhostNets,
    /// Locks of names, to be held as long as this process lives.
    Locks,
}
