//! Rings event descriptors that are shared with an untrusted party.
//!
//! Whether a write to an event descriptor blocks is a property of the open file description, which its owner shares: a
//! peer can clear `O_NONBLOCK` and fill the counter, and then a write of ours blocks for as long as the peer likes.
//! Linux has no write to a descriptor that is guaranteed not to block. So a thread that rings records that it does, and
//! other threads check from time to time ([`BlockedTime`]). If they have found threads in such calls for too long, they
//! interrupt these by a signal. A call that was blocked fails then, and the descriptor is not rung any more
//! ([`GuardedDoorbell::has_blocked_us`]): its owner must be disconnected. A call that was not blocked, in which the thread had merely
//! lost its CPU, is not affected.
//!
//! The duration of a call is not measured in the call: two reads of the clock would be a considerable part of its cost.
//! Each check stands for the time since the previous one, and some checks come at times that a peer cannot predict.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use signals::interrupt;

/// No thread.
const NOBODY: i32 = 0;

/// State of the calls to one descriptor. One thread at a time rings; any other thread checks.
#[derive(Default)]
pub(super) struct GuardedDoorbell {
    /// Id of the thread that is in a call.
    thread: AtomicI32,
    deaf: AtomicBool,
}

impl GuardedDoorbell {
    /// Rings, unless the descriptor's owner has blocked us before.
    pub(super) fn ring(&self, bell: &File) {
        self.thread.store(interrupt::this_thread(), Ordering::Release);
        DoorbellPermit(self).ring(bell.as_fd());
    }

    /// For threads that share this state: claims it; `None` if another thread is in a call.
    pub(super) fn try_enter(&self) -> Option<DoorbellPermit<'_>> {
        let (own, order) = (interrupt::this_thread(), Ordering::Acquire);
        self.thread.compare_exchange(NOBODY, own, order, Ordering::Relaxed).ok().map(|_| DoorbellPermit(self))
    }

    /// Returns true if its owner has blocked us until a signal came.
    pub(super) fn has_blocked_us(&self) -> bool {
        self.deaf.load(Ordering::Acquire)
    }

    /// Returns true if a thread is in a call.
    pub(super) fn is_busy(&self) -> bool {
        self.thread.load(Ordering::Acquire) != NOBODY
    }

    /// Interrupts the thread that is in a call, if there is one. Does not wait.
    fn interrupt(&self) {
        let thread = self.thread.load(Ordering::Acquire);
        if thread != NOBODY {
            interrupt::interrupt(thread);
        }
    }

    /// Forgets a blocked write, because the descriptor has another owner from now on.
    pub(super) fn forget(&self) {
        self.deaf.store(false, Ordering::Release);
    }
}

/// Permission to ring for the current thread, until it is dropped.
pub(super) struct DoorbellPermit<'r>(&'r GuardedDoorbell);

impl DoorbellPermit<'_> {
    /// Rings, as [`GuardedDoorbell::ring`].
    pub(super) fn ring(&self, bell: BorrowedFd<'_>) {
        // A full counter that does not block is readable already. A write that blocks ends only by a signal, and must
        // not be retried.
        if !self.0.has_blocked_us() && rustix::io::write(bell, &1u64.to_ne_bytes()) == Err(Errno::INTR) {
            self.0.deaf.store(true, Ordering::Release);
        }
    }
}

impl Drop for DoorbellPermit<'_> {
    fn drop(&mut self) {
        self.0.thread.store(NOBODY, Ordering::Release);
    }
}

/// Maximum time for which threads may be found in calls within two seconds: two checks, with some slack for the clock.
const MOST: Duration = Duration::from_millis(150);
/// Maximum time that one check stands for, because the checking thread may have lost its CPU.
const LONGEST: Duration = Duration::from_millis(100);

/// Total time for which threads that ring for one peer were found in calls.
#[derive(Default)]
pub(super) struct BlockedTime(Mutex<BlockedSamples>);

impl BlockedTime {
    /// Checks all threads that ring for one peer, at this time of any clock.
    pub(super) fn look<'r>(&self, now: Duration, all: impl Iterator<Item = &'r GuardedDoorbell> + Clone) {
        let busy = all.clone().any(GuardedDoorbell::is_busy);
        // Fails if another thread checks at the same time.
        let Ok(mut found) = self.0.try_lock() else { return };
        let over = found.look(now, busy);
        drop(found);
        if over {
            all.for_each(GuardedDoorbell::interrupt);
        }
    }

    /// Starts anew for another peer.
    pub(super) fn forget(&self) {
        if let Ok(mut found) = self.0.lock() {
            found.seconds = [Duration::ZERO; 2];
        }
    }
}

/// Times found by checks.
#[derive(Default)]
struct BlockedSamples {
    /// Time of the last check.
    last: Duration,
    /// Second of the last check; the times found in that second and in the one before.
    second: u64,
    seconds: [Duration; 2],
}

impl BlockedSamples {
    /// Records the result of a check; returns true if too much was found lately, including by this check.
    fn look(&mut self, now: Duration, busy: bool) -> bool {
        let passed = now.saturating_sub(self.last).min(LONGEST);
        self.last = now.max(self.last);
        let second = self.last.as_secs();
        self.seconds = match second - self.second {
            0 => self.seconds,
            1 => [Duration::ZERO, self.seconds[0]],
            _ => [Duration::ZERO; 2],
        };
        self.second = second;
        if !busy {
            return false;
        }
        self.seconds[0] += passed;
        self.seconds[0] + self.seconds[1] >= MOST
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::thread;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    /// Interval of two checks.
    const LOOK: Duration = Duration::from_millis(100);

    #[test]
    fn a_descriptor_that_makes_us_wait_is_left_after_a_signal_and_rung_no_more() {
        // In the state to which a peer may set it: full, and without O_NONBLOCK.
        let full = eventfd(0, EventfdFlags::CLOEXEC).expect("an event descriptor");
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
        let (ringing, bell) = (Arc::<GuardedDoorbell>::default(), File::from(full));
        let server = thread::spawn({
            let (ringing, bell) = (ringing.clone(), bell.try_clone().expect("a copy"));
            move || ringing.ring(&bell)
        });
        let waits = BlockedTime::default();
        // Repeated until the signal finds the thread within the call: a signal that comes earlier is lost.
        for look in 1.. {
            if server.is_finished() {
                break;
            }
            waits.look(LOOK * look, std::iter::once(&*ringing));
            // A thread to which signals are sent without a pause gets no further than its handler.
            thread::sleep(Duration::from_millis(1));
        }
        server.join().expect("it has ended");
        assert!(ringing.has_blocked_us());
        // This would block forever if it wrote.
        ringing.ring(&bell);
        ringing.forget();
        let mut count = [0; 8];
        rustix::io::read(OwnedFd::from(bell), &mut count).expect("it is full");
        assert_eq!(u64::from_ne_bytes(count), u64::MAX - 1);
    }

    #[test]
    fn one_that_is_full_and_does_not_wait_rings_already() {
        let full = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event descriptor");
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
        let (ringing, bell) = (GuardedDoorbell::default(), File::from(full));
        ringing.ring(&bell);
        assert!(!ringing.has_blocked_us());
    }

    /// Returns after how many of these checks, each given by its time in milliseconds and whether a thread was in a
    /// call, it was too much.
    fn found_out(looks: impl IntoIterator<Item = (u64, bool)>) -> Option<usize> {
        let mut found = BlockedSamples::default();
        looks
            .into_iter()
            .position(|(at, busy)| found.look(Duration::from_millis(at), busy))
            .map(|place| place + 1)
    }

    #[test]
    fn what_looks_find_is_added_up_over_two_seconds() {
        assert_eq!(found_out([(1000, false), (1100, true), (1200, true)]), Some(3));
        assert_eq!(
            found_out([(1000, false), (1100, true), (1200, false), (2900, false), (2999, true)]),
            Some(5)
        );
        // Checks by several threads add up.
        assert_eq!(found_out((0..).map(|look| (10_000 + 10 * look, true))), Some(6));
        // In another second, times found before the previous second are forgotten.
        assert_eq!(found_out((10..1000).map(|look| (100 * look, look % 20 == 9))), None);
    }

    #[test]
    fn a_look_that_comes_late_stands_for_no_more_than_others() {
        assert_eq!(found_out([(0, false), (60_000, true), (60_010, false), (60_020, true)]), None);
        assert_eq!(found_out([(0, false), (60_000, true), (59_000, true)]), None, "no clock goes back");
    }
}
