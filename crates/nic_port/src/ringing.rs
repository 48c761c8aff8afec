//! Ringing descriptors that somebody else has as well.
//!
//! Whether a write to an event descriptor waits is a property of the open file, which its owner shares: a peer can clear
//! `O_NONBLOCK`, fill the counter, and a write of ours waits for as long as the peer likes. Linux has no write that never waits. So a
//! thread that rings leaves word of it; control, which finds it in the same call at two looks, takes it out by a signal, and
//! the descriptor is rung no more ([`Ringing::is_deaf`]): its owner is to be sent away.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use signals::interrupt;

/// No call.
const NONE: u64 = 0;

/// What is known of a thread's calls to one descriptor. One thread at a time rings; any other looks.
#[derive(Default)]
pub(super) struct Ringing {
    /// The call in which a thread is: the thread's number, and that of the call in the lower half.
    call: AtomicU64,
    /// Calls so far, modulo 2^32.
    calls: AtomicU32,
    /// The call that the last look found.
    found: AtomicU64,
    deaf: AtomicBool,
}

impl Ringing {
    /// Rings, if the descriptor's owner has not kept us waiting before.
    pub(super) fn ring(&self, mut bell: &File) {
        if self.is_deaf() {
            return;
        }
        let number = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(number, Ordering::Relaxed);
        let thread = u64::from(interrupt::this_thread().cast_unsigned());
        self.call.store(thread << 32 | u64::from(number), Ordering::Release);
        let rung = bell.write(&1u64.to_ne_bytes());
        self.call.store(NONE, Ordering::Release);
        // A full counter that does not wait rings already. A write that waits ends by a signal alone.
        if rung.is_err_and(|error| error.kind() == ErrorKind::Interrupted) {
            self.deaf.store(true, Ordering::Release);
        }
    }

    /// Whether its owner kept us waiting, until a signal came.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Acquire)
    }

    /// Takes a thread out of a call in which the last look has found it already. Waits for nothing.
    pub(super) fn look(&self) {
        let call = self.call.load(Ordering::Acquire);
        if self.found.swap(call, Ordering::Relaxed) == call && call != NONE {
            interrupt::interrupt((call >> 32) as i32);
        }
    }

    /// The descriptor has another owner from now on.
    pub(super) fn forget(&self) {
        self.deaf.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::thread;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

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
        // Until the signal finds it within the call: one that comes before is lost.
        while !server.is_finished() {
            ringing.look();
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
}
