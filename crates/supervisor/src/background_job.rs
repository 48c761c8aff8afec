//! Background work that may wait for the kernel or for other programs: a thread does it, one job at a time,
//! and signals an event descriptor when done.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// Job in progress, if any: its result, and the event descriptor that signals its end.
#[derive(Debug)]
pub(super) struct BackgroundJob<T>(Option<(Receiver<T>, OwnedFd)>);

impl<T> Default for BackgroundJob<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> BackgroundJob<T> {
    /// Starts `work` in a thread of this name. Returns false if no thread can be started now.
    pub(super) fn start(&mut self, name: &str, work: impl FnOnce() -> T + Send + 'static) -> bool {
        let bell = eventfd(0, EventfdFlags::CLOEXEC);
        let Ok((bell, rope)) = bell.and_then(|bell| Ok((rustix::io::fcntl_dupfd_cloexec(&bell, 0)?, bell)))
        else {
            return false;
        };
        let (done, result) = channel();
        let run = move || {
            let _ = done.send(work());
            let _ = rustix::io::write(&rope, &1u64.to_ne_bytes());
        };
        let started = thread::Builder::new().name(name.to_owned()).spawn(run).is_ok();
        self.0 = started.then_some((result, bell));
        started
    }

    /// Starts `work` on `given`. Returns `given` if no thread can be started now.
    pub(super) fn start_with<G: Send + 'static>(
        &mut self,
        name: &str,
        given: G,
        work: impl FnOnce(G) -> T + Send + 'static,
    ) -> Option<G> {
        let (give, take) = channel();
        if !self.start(name, move || work(take.recv().expect("it is given at once"))) {
            return Some(given);
        }
        let _ = give.send(given);
        None
    }

    /// Returns true if a job is in progress.
    pub(super) fn is_at_work(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the result of a finished job, once.
    pub(super) fn finished(&mut self) -> Option<T> {
        let outcome = self.0.as_ref()?.0.try_recv();
        if !matches!(outcome, Err(TryRecvError::Empty)) {
            self.0 = None;
        }
        outcome.ok()
    }

    /// Waits at most `most` for the job in progress, and drops its result. Returns true if none is in progress any more.
    pub(super) fn give_up(&mut self, most: Duration) -> bool {
        !self.is_at_work() || self.wait(most).is_some()
    }

    /// Waits at most `most` for the job, and returns its result.
    pub(super) fn wait(&mut self, most: Duration) -> Option<T> {
        let (result, _) = self.0.take()?;
        result.recv_timeout(most).ok()
    }

    /// Descriptor to poll for reading.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|(_, bell)| bell.as_fd())
    }
}
