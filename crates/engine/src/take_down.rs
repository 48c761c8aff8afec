//! Something that is taken down beside everything else: a thread of its own drops it, and waits there for threads that are to
//! end and for programs that are to give back what they were handed.

use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long it may take. Threads have twice 5 s ([`vmm::interrupt::END_LIMIT`]): those that move frames, then those of the
/// guest; peers have 2 s to give a router's rings back.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);
/// The most that one look adds to the time that it has taken: where nobody looked, it may have got no CPU either.
const LONGEST_STEP: Duration = Duration::from_millis(250);

/// Something that is being taken down.
pub(crate) struct TakeDown {
    thread: Option<JoinHandle<()>>,
    looked: Instant,
    /// How long it has been looked at.
    seen: Duration,
}

/// How far a take-down has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It goes on.
    Going,
    /// All is down.
    Over,
    /// It takes too long.
    Stuck,
}

impl TakeDown {
    /// Drops `what` in a thread called `NAME/end`.
    pub(crate) fn begin(name: &str, what: impl Send + 'static, now: Instant) -> Self {
        // Where no thread can be had, it is dropped here.
        let thread = Builder::new().name(format!("{name}/end")).spawn(move || drop(what)).ok();
        Self { thread, looked: now, seen: Duration::ZERO }
    }

    /// Whether all is down.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// How far it is at the time `now`; to be asked about ten times a second.
    pub(crate) fn look(&mut self, now: Instant) -> Progress {
        self.seen += now.saturating_duration_since(self.looked).min(LONGEST_STEP);
        self.looked = now;
        match self.is_over() {
            true => Progress::Over,
            false if self.seen >= LIMIT => Progress::Stuck,
            false => Progress::Going,
        }
    }
}

/// Looks at one, if there is one. What is stuck is left behind; then that is to be told.
pub(crate) fn look_at(take_down: &mut Option<TakeDown>, now: Instant) -> Option<String> {
    let progress = take_down.as_mut()?.look(now);
    if progress != Progress::Going {
        *take_down = None;
    }
    let stuck =
        || format!("what ran of it is not down after {LIMIT:?}; it is left behind with what it holds");
    (progress == Progress::Stuck).then(stuck)
}

#[cfg(test)]
mod tests;
