//! Threads of the kernel that work for the data plane, which sees no processes: it asks for them, and they are looked for here.
//! That reads all of `/proc`, so it is done so many times a second, for a part of the time, and between all else.

use std::collections::VecDeque;
use std::time::Instant;

use link::ToPlane;
use sched::Task;

use super::Supervisor;
use super::rate::Pace;

/// Looks within a second, for each router that a data plane was told to run.
const MOST: u32 = 16;

/// Looks for the thread that the kernel has for a thread of a process: its number, and the one that it works for.
pub(super) type Find = Box<dyn FnMut(u32, i32) -> Option<(i32, Task)>>;

/// What was asked for and not looked for yet.
pub(super) struct Finding {
    owners: VecDeque<i32>,
    pace: Pace,
}

impl Finding {
    /// Nothing yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { owners: VecDeque::new(), pace: Pace::new(now) }
    }

    /// When to look next for so many routers.
    pub(super) fn due(&self, routers: u32) -> Option<Instant> {
        (!self.owners.is_empty()).then(|| self.pace.next(most(routers)))
    }
}

const fn most(routers: u32) -> u32 {
    MOST.saturating_mul(routers)
}

/// Looks for it in `/proc`.
pub(super) fn find(process: u32, owner: i32) -> Option<(i32, Task)> {
    let own = Task::look(process.cast_signed(), owner)?;
    Some((vmm::kernel_thread::of_vhost(process, owner)?, own))
}

impl Supervisor {
    /// The data plane asks for the thread of the kernel that works for one of its own.
    pub(super) fn asked_to_find(&mut self, owner: i32, now: Instant) {
        let Some(plane) = &mut self.life.plane else { return };
        if plane.finding.owners.len() < most(plane.routers) as usize {
            plane.finding.owners.push_back(owner);
            self.attend_finding(now);
        } else {
            // One that waits for its answers asks for one at a time.
            plane.say(&ToPlane::FoundThread { thread: None }, Vec::new(), now);
        }
    }

    /// Looks for what was asked for, where it is time to.
    pub(super) fn attend_finding(&mut self, now: Instant) {
        while let Some(plane) = &mut self.life.plane
            && plane.finding.due(plane.routers).is_some_and(|due| now >= due)
            && let Some(owner) = plane.finding.owners.pop_front()
        {
            let begun = (self.clock)();
            let process = plane.pid();
            let found = (self.find)(process, owner);
            // One of its own is not lent.
            let is_its = |thread: i32| Task::look(process.cast_signed(), thread).is_some();
            let thread =
                found.filter(|(thread, own)| is_its(*thread) || plane.lent.add(sched::stat, *thread, *own));
            plane.finding.pace.done(now, (self.clock)().saturating_duration_since(begun));
            let thread = thread.map(|(thread, _)| thread);
            plane.say(&ToPlane::FoundThread { thread }, Vec::new(), now);
        }
    }
}
