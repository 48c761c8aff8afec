//! Attachments that a killed run may still hold for a moment.

use std::io::{self, ErrorKind};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use attach::{HostResource, NicRequirements};

/// Time limit for a killed process to close its TAPs and sockets after it has released its locks: some
/// milliseconds, but a TAP may wait for grace periods of the kernel, which on a busy host take a second each.
/// A program that never closes what is wanted delays each attempt by this time.
pub(crate) const LEFT_OVER: Duration = Duration::from_secs(3);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(2);

/// Opens an attachment. It is retried while remains of a killed run, which has released its names already,
/// still hold it.
pub(super) fn open_patiently(wanted: &NicRequirements) -> Result<Option<Box<dyn HostResource>>> {
    until_free(|| wanted.open(), is_in_use, LOOK)
}

/// Takes something that may be in use for a moment: attempts follow each other after this pause, until one has another outcome than
/// that, or the time is over.
pub(crate) fn until_free<T, E>(
    attempt: impl FnMut() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
    pause: Duration,
) -> Result<T, E> {
    let begin = Instant::now();
    within((|| begin.elapsed(), || sleep(pause)), attempt, is_in_use)
}

/// Loop of [`until_free`], with a clock that tells the time since the first attempt, and the pause between two attempts.
fn within<T, E>(
    (passed, pause): (impl Fn() -> Duration, impl Fn()),
    mut attempt: impl FnMut() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
) -> Result<T, E> {
    loop {
        match attempt() {
            Err(error) if is_in_use(&error) && passed() < LEFT_OVER => pause(),
            done => return done,
        }
    }
}

fn is_in_use(error: &anyhow::Error) -> bool {
    use uplink::Error::{InUse, ProgramAttached, QueueTaken, Socket};
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::AddrInUse;
    let is_known = |error: &uplink::Error| {
        matches!(error, InUse { .. } | ProgramAttached { .. } | QueueTaken { .. } | Socket { .. })
    };
    error.downcast_ref().is_some_and(is_known) || error.downcast_ref().is_some_and(is_taken)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Attempts until one succeeds, a second after another. Returns the outcome, and how many there were.
    fn attempts(outcome: impl Fn(u64) -> Result<u64, &'static str>) -> (Result<u64, &'static str>, u64) {
        let (second, made) = (Cell::new(0), Cell::new(0));
        let clock = (|| Duration::from_secs(second.get()), || second.set(second.get() + 1));
        let attempt = || {
            made.set(made.get() + 1);
            outcome(second.get())
        };
        let done = within(clock, attempt, |why| *why == "in use");
        (done, made.get())
    }

    #[test]
    fn what_is_in_use_is_tried_for_three_seconds() {
        assert_eq!(attempts(|_| Err("in use")), (Err("in use"), 4));
        let at_last = |second: u64| if second == 3 { Ok(second) } else { Err("in use") };
        assert_eq!(attempts(at_last), (Ok(3), 4));
        assert_eq!(attempts(|_| Err("missing")), (Err("missing"), 1), "it will not come");
        let gone = |second: u64| Err(if second == 1 { "missing" } else { "in use" });
        assert_eq!(attempts(gone), (Err("missing"), 2));
    }
}
