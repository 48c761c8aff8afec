//! Work that a thread of its own does beside everything else, because it may have to wait: for the kernel, for other threads, for
//! programs. Nobody waits for it without a bound; what takes too long is left behind.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The most that one look adds to the time that a task has taken: where nobody looked, it may have got no CPU either.
const LONGEST_STEP: Duration = Duration::from_millis(250);

/// A piece of work under way. Dropping it waits for its end, and drops what comes of it.
pub(crate) struct Task<T> {
    thread: Option<JoinHandle<()>>,
    outcome: Outcome<T>,
    /// How long it may take.
    limit: Duration,
    looked: Instant,
    /// How long it has been looked at.
    seen: Duration,
}

/// What has come of a task, as soon as it is done.
struct Outcome<T>(Arc<Mutex<Option<T>>>);

impl<T> Outcome<T> {
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a task has come.
pub(crate) enum Progress<T> {
    /// It goes on.
    Going(Task<T>),
    /// It is done.
    Done(T),
    /// It has panicked, or takes too long: then it is left behind, and its own thread drops what comes of it. What is said of it, in
    /// words that follow its name.
    Lost(String),
}

impl<T: Send + 'static> Task<T> {
    /// Does `work` in a thread of this name. Whoever begins it is unparked when it is done.
    ///
    /// # Errors
    /// No thread can be had; `work` is dropped.
    pub(crate) fn begin(
        name: String,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
        now: Instant,
    ) -> io::Result<Self> {
        let (outcome, beginner) = (Outcome(Arc::default()), std::thread::current());
        let told = Outcome(outcome.0.clone());
        let body = move || {
            let outcome = work();
            *told.lock() = Some(outcome);
            beginner.unpark();
        };
        let thread = Builder::new().name(name).spawn(body)?;
        Ok(Self { thread: Some(thread), outcome, limit, looked: now, seen: Duration::ZERO })
    }

    /// Whether it is done, or has panicked.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.lock().is_some() || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// How far it is at the time `now`; to be asked about ten times a second.
    pub(crate) fn look(mut self, now: Instant) -> Progress<T> {
        self.seen += now.saturating_duration_since(self.looked).min(LONGEST_STEP);
        self.looked = now;
        if self.is_over() {
            self.join();
            let outcome = self.outcome.lock().take();
            return outcome.map_or_else(|| Progress::Lost("has panicked".to_owned()), Progress::Done);
        }
        if self.seen < self.limit {
            return Progress::Going(self);
        }
        self.thread = None;
        Progress::Lost(format!("takes more than {:?}, and is left behind with what it holds", self.limit))
    }
}

impl<T> Task<T> {
    fn join(&mut self) {
        // A thread that has panicked leaves no outcome.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests;
