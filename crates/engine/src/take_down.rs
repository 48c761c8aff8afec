//! Take-down in the background: a thread of its own drops an object, and waits there for threads to end and
//! for programs to return the resources that they were handed.

use std::time::{Duration, Instant};

use crate::task::{Progress, Task};

/// Time limit. Threads have twice 20 s ([`signals::interrupt::END_LIMIT`]): first the I/O threads, then those
/// of the guest; peers have 2 s to return a router's rings. Outlets that go with the router, and wait for threads of their own, are left
/// behind if all this is late at the same time.
pub(crate) const LIMIT: Duration = Duration::from_secs(45);

/// A take-down in one slot. Until it is over, the slot runs nothing else.
#[derive(Default)]
pub(crate) struct TakeDown(Option<Task<()>>);

impl TakeDown {
    /// Drops `what` in a thread called `NAME/end`.
    pub(crate) fn begin(name: &str, what: impl Send + 'static, now: Instant) -> Self {
        Self(Some(Task::begin_or_fall_back(format!("{name}/end"), LIMIT, move || drop(what), now)))
    }

    /// Returns true if everything is down, or was left behind.
    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(Task::is_over)
    }

    /// Checks progress at the time `now`; to be called about ten times a second. A take-down that is stuck is
    /// left behind; the returned line is then to be reported.
    pub(crate) fn look(&mut self, now: Instant) -> Option<String> {
        match self.0.take()?.look(now) {
            Progress::Going(task) => self.0 = Some(task),
            Progress::Done(()) => {}
            Progress::Abandoned(why) => return Some(format!("its take-down {why}")),
        }
        None
    }
}

#[cfg(test)]
mod tests;
