//! Ringing descriptors that somebody else has as well.
//!
//! Whether a write to an event descriptor waits is a property of the open file, which its owner shares: a peer can clear
//! `O_NONBLOCK`, fill the counter, and a write of ours waits for as long as the peer likes. Linux has no write that never waits. So a
//! thread that rings leaves word of it, and others look now and then ([`Waits`]). When they have found threads in such calls for too
//! long they take them out by a signal. A call that waited ends by it, and the descriptor is rung no more ([`Ringing::is_deaf`]): its
//! owner is to be sent away. One that did not wait, in which a thread has lost its CPU, loses nothing.
//!
//! How long a call takes is not measured in it: a clock that is read twice would be a good part of what it costs. A look stands
//! for the time since the last one, and some come when no peer can know of it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use signals::interrupt;

/// No thread.
const NOBODY: i32 = 0;

/// What is known of a thread's calls to one descriptor. One thread at a time rings; any other looks.
#[derive(Default)]
pub(super) struct Ringing {
    /// The thread that is in a call.
    thread: AtomicI32,
    deaf: AtomicBool,
}

impl Ringing {
    /// Rings, if the descriptor's owner has not kept us waiting before.
    pub(super) fn ring(&self, bell: &File) {
        self.thread.store(interrupt::this_thread(), Ordering::Release);
        Entered(self).ring(bell.as_fd());
    }

    /// For threads that ring by turns: none if another one is in a call.
    pub(super) fn try_enter(&self) -> Option<Entered<'_>> {
        let (own, order) = (interrupt::this_thread(), Ordering::Acquire);
        self.thread.compare_exchange(NOBODY, own, order, Ordering::Relaxed).ok().map(|_| Entered(self))
    }

    /// Whether its owner kept us waiting, until a signal came.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Acquire)
    }

    /// Whether a thread is in a call.
    pub(super) fn is_busy(&self) -> bool {
        self.thread.load(Ordering::Acquire) != NOBODY
    }

    /// Takes a thread out of a call, if one is there. Waits for nothing.
    fn interrupt(&self) {
        let thread = self.thread.load(Ordering::Acquire);
        if thread != NOBODY {
            interrupt::interrupt(thread);
        }
    }

    /// The descriptor has another owner from now on.
    pub(super) fn forget(&self) {
        self.deaf.store(false, Ordering::Release);
    }
}

/// The thread that may ring; dropped, it may no longer.
pub(super) struct Entered<'r>(&'r Ringing);

impl Entered<'_> {
    /// Rings, as [`Ringing::ring`].
    pub(super) fn ring(&self, bell: BorrowedFd<'_>) {
        // A full counter that does not wait rings already. A write that waits ends by a signal alone, and must not be tried again.
        if !self.0.is_deaf() && rustix::io::write(bell, &1u64.to_ne_bytes()) == Err(Errno::INTR) {
            self.0.deaf.store(true, Ordering::Release);
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.thread.store(NOBODY, Ordering::Release);
    }
}

/// How long threads may be found in calls, within two seconds: two looks, with some air for a clock.
const MOST: Duration = Duration::from_millis(150);
/// What a look stands for at most: the one who looks may have lost his CPU.
const LONGEST: Duration = Duration::from_millis(100);

/// The time for which threads were found in calls, whoever of those that ring for one peer it was.
#[derive(Default)]
pub(super) struct Waits(Mutex<Found>);

impl Waits {
    /// Looks at all that ring for one peer, at this time of any clock.
    pub(super) fn look<'r>(&self, now: Duration, all: impl Iterator<Item = &'r Ringing> + Clone) {
        let busy = all.clone().any(Ringing::is_busy);
        // Somebody else looks just now.
        let Ok(mut found) = self.0.try_lock() else { return };
        let over = found.look(now, busy);
        drop(found);
        if over {
            all.for_each(Ringing::interrupt);
        }
    }

    /// Another peer is there from now on.
    pub(super) fn forget(&self) {
        if let Ok(mut found) = self.0.lock() {
            found.seconds = [Duration::ZERO; 2];
        }
    }
}

/// What was found when.
#[derive(Default)]
struct Found {
    /// The time of the last look.
    last: Duration,
    /// The second that it was in, and the time found in that one and in the one before.
    second: u64,
    seconds: [Duration; 2],
}

impl Found {
    /// Takes note of what a look finds; whether that was too much lately, and is so still.
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

    /// Between two looks.
    const LOOK: Duration = Duration::from_millis(100);

    #[test]
    fn a_descriptor_that_makes_us_wait_is_left_after_a_signal_and_rung_no_more() {
        // As a peer leaves it: full, and without O_NONBLOCK.
        let full = eventfd(0, EventfdFlags::CLOEXEC).expect("an event descriptor");
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
        let (ringing, bell) = (Arc::<Ringing>::default(), File::from(full));
        let server = thread::spawn({
            let (ringing, bell) = (ringing.clone(), bell.try_clone().expect("a copy"));
            move || ringing.ring(&bell)
        });
        let waits = Waits::default();
        // Until the signal finds it within the call: one that comes before is lost.
        for look in 1.. {
            if server.is_finished() {
                break;
            }
            waits.look(LOOK * look, std::iter::once(&*ringing));
            thread::yield_now();
        }
        server.join().expect("it has ended");
        assert!(ringing.is_deaf());
        // It would wait for ever.
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
        let (ringing, bell) = (Ringing::default(), File::from(full));
        ringing.ring(&bell);
        assert!(!ringing.is_deaf());
    }

    /// After how many of these looks, each by its time in milliseconds and whether somebody was in a call, it was too much.
    fn found_out(looks: impl IntoIterator<Item = (u64, bool)>) -> Option<usize> {
        let mut found = Found::default();
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
        // Of other looks' finds as well.
        assert_eq!(found_out((0..).map(|look| (10_000 + 10 * look, true))), Some(6));
        // Another second, and what was found before the last one is forgotten.
        assert_eq!(found_out((10..1000).map(|look| (100 * look, look % 20 == 9))), None);
    }

    #[test]
    fn a_look_that_comes_late_stands_for_no_more_than_others() {
        assert_eq!(found_out([(0, false), (60_000, true), (60_010, false), (60_020, true)]), None);
        assert_eq!(found_out([(0, false), (60_000, true), (59_000, true)]), None, "no clock goes back");
    }
}
