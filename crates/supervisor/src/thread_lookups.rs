//! Lookup of kernel threads that work for the data plane (vhost). The data plane sees no processes, so it
//! asks the supervisor. A lookup reads all of `/proc`; therefore its rate and its share of the loop's time
//! are limited.

use std::collections::VecDeque;
use std::time::Instant;

use link::ToPlane;
use sched::ThreadIdentity;

use super::Supervisor;
use super::rate::WorkBudget;

/// Lookups within a second, for each router that a data plane was told to run.
const MOST: u32 = 16;

/// Finds the kernel thread that serves a thread of a process. Returns its number, and the thread that it
/// serves.
pub(super) type Find = Box<dyn FnMut(u32, i32) -> Option<(i32, ThreadIdentity)>>;

/// Requested lookups that are still to be made.
pub(super) struct ThreadLookups {
    owners: VecDeque<i32>,
    budget: WorkBudget,
}

impl ThreadLookups {
    /// Creates an empty queue.
    pub(super) fn new(now: Instant) -> Self {
        Self { owners: VecDeque::new(), budget: WorkBudget::new(now) }
    }

    /// When to do the next lookup, for so many routers.
    pub(super) fn due(&self, routers: u32) -> Option<Instant> {
        (!self.owners.is_empty()).then(|| self.budget.next(most(routers)))
    }
}

const fn most(routers: u32) -> u32 {
    MOST.saturating_mul(routers)
}

/// Looks in `/proc`.
pub(super) fn find(process: u32, owner: i32) -> Option<(i32, ThreadIdentity)> {
    let own = ThreadIdentity::look(process.cast_signed(), owner)?;
    Some((vmm::kernel_thread::of_vhost(process, owner)?, own))
}

impl Supervisor {
    /// Queues the data plane's request for the kernel thread that serves one of its threads.
    pub(super) fn asked_to_find(&mut self, owner: i32, now: Instant) {
        let Some(plane) = &mut self.lifecycle.plane else { return };
        if plane.thread_lookups.owners.len() < most(plane.routers) as usize {
            plane.thread_lookups.owners.push_back(owner);
            self.attend_finding(now);
        } else {
            // The data plane asks for one thread at a time and waits for the answer; one with so many
            // requests does not.
            plane.say(&ToPlane::FoundThread { owner, thread: None }, Vec::new(), now);
        }
    }

    /// Does queued lookups that are due.
    pub(super) fn attend_finding(&mut self, now: Instant) {
        while let Some(plane) = &mut self.lifecycle.plane
            && plane.thread_lookups.due(plane.routers).is_some_and(|due| now >= due)
            && let Some(owner) = plane.thread_lookups.owners.pop_front()
        {
            let begun = (self.clock)();
            let process = plane.pid();
            let found = (self.find)(process, owner);
            // A thread of the data plane itself is not recorded as lent.
            let is_its = |thread: i32| ThreadIdentity::look(process.cast_signed(), thread).is_some();
            let thread = found.filter(|(thread, own)| {
                is_its(*thread) || plane.vhost_threads.add(sched::stat, *thread, *own)
            });
            plane.thread_lookups.budget.done(now, (self.clock)().saturating_duration_since(begun));
            let thread = thread.map(|(thread, _)| thread);
            plane.say(&ToPlane::FoundThread { owner, thread }, Vec::new(), now);
        }
    }
}
