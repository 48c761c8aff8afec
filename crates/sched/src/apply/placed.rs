//! What threads were given when they were placed last.

use std::time::Instant;

use config::Policy;

use crate::outline::{Placement, Schedule};
use crate::task::ThreadIdentity;
use crate::thread::Thread;

/// State of a thread that was placed, or was to be.
pub(super) struct Placed {
    pub(super) task: ThreadIdentity,
    pub(super) schedule: Schedule,
    /// Schedules that it could not be given since then; it may have a part of each.
    tried: Vec<Schedule>,
    /// Date from which the kernel no longer counts its reservation, if that was given back for a move.
    pub(super) leaves: Option<Instant>,
}

impl Placed {
    /// A thread that has this schedule.
    pub(super) fn with(task: ThreadIdentity, schedule: Schedule) -> Self {
        Self { task, schedule, tried: Vec::new(), leaves: None }
    }

    /// A thread that was never placed.
    pub(super) fn untouched(task: ThreadIdentity) -> Self {
        let (placement, policy) = (Placement::Free, Policy::Other);
        Self::with(task, Schedule { cpus: None, placement, policy, island: None, group: None })
    }

    /// Returns true if this is the same thread: an earlier one may have had the same name.
    pub(super) fn is_of(&self, thread: &Thread) -> bool {
        self.task == thread.task
    }

    /// Returns true if it has this schedule, and no part of another one.
    pub(super) fn has(&self, schedule: &Schedule) -> bool {
        self.tried.is_empty() && self.schedule == *schedule
    }

    /// Notes that it may have a part of this schedule. Those that differ in their parameters only are one.
    pub(super) fn may_have(&mut self, schedule: Schedule) {
        let Schedule { cpus, island, group, .. } = &schedule;
        let is_known = |held: &Schedule| (&held.cpus, &held.island, &held.group) == (cpus, island, group);
        if !self.tried.iter().any(is_known) {
            self.tried.push(schedule);
        }
    }

    /// Schedules of which it may have a part.
    pub(super) fn schedules(&self) -> impl Iterator<Item = &Schedule> {
        self.tried.iter().chain([&self.schedule])
    }
}
