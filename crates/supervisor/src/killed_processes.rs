//! Processes that were killed and have not ended yet. The kernel may take long to tear one down; the
//! supervisor does not wait, and starts the successor beside it.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::plane::Process;

/// Time after which a killed process that has not ended is reported, and total time for which the end of a run waits for all of them.
/// KVM ioctls that wait for grace periods took 12 s on a host with three times more runnable threads than CPUs.
pub(super) const LONG: Duration = Duration::from_secs(15);
/// Most killed processes of one kind that may remain before no more of that kind are started.
pub(super) const MOST: usize = 16;
/// Time between two looks at the clock while waiting.
const LOOK: Duration = Duration::from_millis(100);

/// Killed processes that have not ended.
#[derive(Default)]
pub(crate) struct KilledProcesses(Vec<Killed>);

struct Killed {
    /// Its kind, as in `data plane`.
    what: String,
    process: Box<dyn Process>,
    since: Instant,
    named: bool,
}

impl KilledProcesses {
    /// Kills a process and watches for its end.
    pub(crate) fn kill(&mut self, what: &str, mut process: Box<dyn Process>, now: Instant) {
        process.kill();
        if process.end().is_none() {
            self.0.push(Killed { what: what.to_owned(), process, since: now, named: false });
        }
    }

    /// Forgets processes that have ended. Returns a line, once, for each that takes too long.
    pub(crate) fn attend(&mut self, now: Instant) -> Vec<String> {
        self.0.retain_mut(|killed| killed.process.end().is_none());
        let late = self.0.iter_mut().filter(|killed| now >= killed.since + LONG);
        let news =
            late.filter_map(|killed| (!std::mem::replace(&mut killed.named, true)).then_some(&*killed));
        let line = |killed: &Killed| {
            let (name, seconds) = (killed.name(), LONG.as_secs());
            format!(
                "{name} was killed {seconds} s ago and has not ended: what it holds is not free; all else goes on"
            )
        };
        news.map(line).collect()
    }

    /// Returns true if so many of this kind have not ended that no more should be started.
    pub(crate) fn are_many(&self, what: &str) -> bool {
        self.0.iter().filter(|killed| killed.what == what).count() >= MOST
    }

    /// Returns true if one of this kind has not ended.
    pub(crate) fn has(&self, what: &str) -> bool {
        self.0.iter().any(|killed| killed.what == what)
    }

    /// Adopts the processes of `others`.
    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Waits for the end of all, at most for [`LAST`] by `clock`, which is read repeatedly. Returns a line
    /// about those that are left.
    pub(crate) fn wait_for_all(mut self, clock: impl Fn() -> Instant) -> Option<String> {
        let end = clock() + LONG;
        loop {
            self.0.retain_mut(|killed| killed.process.end().is_none());
            let left = end.saturating_duration_since(clock());
            if self.0.is_empty() || left.is_zero() {
                break;
            }
            let mut fds: Vec<_> =
                self.watched().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let timeout = Timespec::try_from(left.min(LOOK)).ok();
            let _ = poll(&mut fds, timeout.as_ref());
        }
        let names: Vec<_> = self.0.iter().map(Killed::name).collect();
        let names = names.join(", ");
        (!names.is_empty())
            .then(|| format!("killed and left behind, because the kernel has not ended it: {names}"))
    }

    /// When the next one is to be reported.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.0.iter().filter(|killed| !killed.named).map(|killed| killed.since + LONG).min()
    }

    /// Descriptors to poll for reading.
    pub(crate) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|killed| killed.process.pidfd())
    }
}

impl Killed {
    fn name(&self) -> String {
        format!("{} (pid {})", self.what, self.process.pid())
    }
}
