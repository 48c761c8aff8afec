//! Something that is taken down beside everything else: a thread of its own drops it, and waits there for threads that are to
//! end and for programs that are to give back what they were handed.

use std::time::{Duration, Instant};

use crate::task::{Progress, Task};

/// How long it may take. Threads have twice 5 s ([`signals::interrupt::END_LIMIT`]): those that move frames, then those of the
/// guest; peers have 2 s to give a router's rings back.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);

/// What was taken down in one place. Until it is down, nothing else runs there.
#[derive(Default)]
pub(crate) struct TakeDown(Option<Task<()>>);

impl TakeDown {
    /// Drops `what` in a thread called `NAME/end`.
    pub(crate) fn begin(name: &str, what: impl Send + 'static, now: Instant) -> Self {
        Self(Some(Task::begin_anyhow(format!("{name}/end"), LIMIT, move || drop(what), now)))
    }

    /// Whether all is down, or left behind.
    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(Task::is_over)
    }

    /// Looks at the time `now` how far it is; to be called about ten times a second. What is stuck is left behind; then that is to be
    /// told.
    pub(crate) fn look(&mut self, now: Instant) -> Option<String> {
        match self.0.take()?.look(now) {
            Progress::Going(task) => self.0 = Some(task),
            Progress::Done(()) => {}
            Progress::Lost(why) => return Some(format!("its take-down {why}")),
        }
        None
    }
}

#[cfg(test)]
mod tests;
