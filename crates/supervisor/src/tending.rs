//! What is held is made what its NICs want by now, and is closed where none wants it any more, by a thread: the kernel may have whoever
//! changes or closes an interface wait for seconds, in which everything else goes on. One thing after the other, in the order in which
//! it came up; no file is read before that is done, so that it finds closed what was closed.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::Error;
use attach::Work;
use telemetry::Kind;

use super::Supervisor;
use super::errand::Errand;

/// Something that is to be done.
enum Chore {
    /// Changes what is held.
    Change(Work),
    /// Fulfils what whoever serves this NIC has wished for last.
    Wish(String, Work),
    /// Closes this.
    Close(Box<dyn Send>),
}

/// What is to be done, and what is being done.
#[derive(Default)]
pub(crate) struct Tending {
    waiting: Vec<Chore>,
    at_work: Errand<Vec<Error>>,
    /// Whether a file has to wait for what is being done.
    holds_files: bool,
}

impl Chore {
    /// Wishes may come without end.
    const fn holds_files(&self) -> bool {
        !matches!(self, Self::Wish(..))
    }
}

impl Tending {
    /// Has something changed.
    pub(crate) fn change(&mut self, work: Work) {
        self.waiting.push(Chore::Change(work));
    }

    /// Has a wish fulfilled. What the same NIC wished for before and has not got is wished for no more.
    pub(crate) fn wish(&mut self, nic: &str, work: Work) {
        self.waiting.retain(|chore| !matches!(chore, Chore::Wish(of, _) if of == nic));
        self.waiting.push(Chore::Wish(nic.to_owned(), work));
    }

    /// Has something closed.
    pub(crate) fn close(&mut self, what: impl Send + 'static) {
        self.waiting.push(Chore::Close(Box::new(what)));
    }

    /// Whether something is to be done, or is being done, that a file has to wait for.
    pub(crate) fn holds_files(&self) -> bool {
        self.holds_files && self.at_work.is_at_work() || self.waiting.iter().any(Chore::holds_files)
    }

    /// What to poll for reading.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.at_work.watched()
    }

    /// What was refused of what has been done; has a thread do what has come up since.
    pub(crate) fn attend(&mut self) -> Vec<Error> {
        let refused = self.at_work.finished().unwrap_or_default();
        if !self.waiting.is_empty() && !self.at_work.is_at_work() {
            self.holds_files = self.waiting.iter().any(Chore::holds_files);
            let waiting = std::mem::take(&mut self.waiting);
            // Where no thread can be had now it is tried again.
            self.waiting = self.at_work.start_with("ringroad/tending", waiting, done).unwrap_or_default();
        }
        refused
    }

    /// Waits for what is being done, but not for longer than this.
    pub(super) fn give_up(&mut self, most: Duration) {
        self.at_work.give_up(most);
    }
}

/// Does all of this, and goes on where something is refused.
fn done(chores: Vec<Chore>) -> Vec<Error> {
    let outcomes = chores.into_iter().map(|chore| match chore {
        Chore::Change(work) | Chore::Wish(_, work) => work(),
        Chore::Close(what) => {
            drop(what);
            Ok(())
        }
    });
    outcomes.filter_map(Result::err).collect()
}

impl Supervisor {
    /// Does what those want who serve NICs, and has done what may have to wait.
    pub(super) fn tend(&mut self) {
        self.resources.attend(&mut self.tending);
        for error in self.tending.attend() {
            self.events.tell(Kind::Notice, format!("{error:#}"));
        }
    }
}
