//! Changes and closing of open attachments, in a thread: the kernel may block a process that changes or
//! closes an interface for seconds, during which the event loop must go on. Chores are done one after the
//! other, in order of arrival; a file is read, and another number of routers opened, only when they are done,
//! so that they find closed what was closed.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::Error;
use attach::Work;
use telemetry::Kind;

use super::Supervisor;
use super::background_job::BackgroundJob;

/// Work to be done.
enum LinkJob {
    /// Changes an attachment.
    Change(Work),
    /// Fulfils the last request of the process that serves this NIC.
    Wish(String, Work),
    /// Closes an object.
    Close(Box<dyn Send>),
}

/// Queue of chores, and those in progress.
#[derive(Default)]
pub(crate) struct LinkJobs {
    waiting: Vec<LinkJob>,
    at_work: BackgroundJob<Vec<Error>>,
    /// True if the chores in progress must be done before a file is read.
    holds_files: bool,
}

impl LinkJob {
    /// Requests of data planes do not hold up files, since they may arrive without end.
    const fn holds_files(&self) -> bool {
        !matches!(self, Self::Wish(..))
    }
}

impl LinkJobs {
    /// Queues a change.
    pub(crate) fn change(&mut self, work: Work) {
        self.waiting.push(LinkJob::Change(work));
    }

    /// Queues a request of a NIC. It replaces an earlier request of the same NIC that is still queued.
    pub(crate) fn wish(&mut self, nic: &str, work: Work) {
        self.waiting.retain(|chore| !matches!(chore, LinkJob::Wish(of, _) if of == nic));
        self.waiting.push(LinkJob::Wish(nic.to_owned(), work));
    }

    /// Queues an object to be closed.
    pub(crate) fn close(&mut self, what: impl Send + 'static) {
        self.waiting.push(LinkJob::Close(Box::new(what)));
    }

    /// Returns true if a job that a file has to wait for is queued or in progress.
    pub(crate) fn holds_files(&self) -> bool {
        self.holds_files && self.at_work.is_at_work() || self.waiting.iter().any(LinkJob::holds_files)
    }

    /// Descriptor to poll for reading.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.at_work.watched()
    }

    /// Returns the errors of finished chores, and starts a thread for those queued since.
    pub(crate) fn attend(&mut self) -> Vec<Error> {
        let refused = self.at_work.finished().unwrap_or_default();
        if !self.waiting.is_empty() && !self.at_work.is_at_work() {
            self.holds_files = self.waiting.iter().any(LinkJob::holds_files);
            let waiting = std::mem::take(&mut self.waiting);
            // If no thread can be started now, a later call tries again.
            self.waiting = self.at_work.start_with("ringroad/tending", waiting, done).unwrap_or_default();
        }
        refused
    }

    /// Waits for the chores in progress, at most this long. Returns true if they are done.
    pub(super) fn give_up(&mut self, most: Duration) -> bool {
        self.at_work.give_up(most)
    }
}

/// Does all chores, also after errors.
fn done(chores: Vec<LinkJob>) -> Vec<Error> {
    let outcomes = chores.into_iter().map(|chore| match chore {
        LinkJob::Change(work) | LinkJob::Wish(_, work) => work(),
        LinkJob::Close(what) => {
            drop(what);
            Ok(())
        }
    });
    outcomes.filter_map(Result::err).collect()
}

impl Supervisor {
    /// Handles requests of the processes that serve NICs, and starts work that may block.
    pub(super) fn tend(&mut self) {
        self.resources.attend(&mut self.link_jobs);
        for error in self.link_jobs.attend() {
            self.events.record(Kind::Notice, format!("{error:#}"));
        }
    }
}
