//! Number of queue pairs in use, and whether the NIC takes frames at all.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use port::steer::Hash;
use port::{Clock, Offloads};

use super::{ONE, cable};

/// State that all threads read for each burst and that is rarely written.
#[repr(align(128))]
pub(super) struct Pairs {
    /// Number of pairs that the driver uses.
    pub(super) active: AtomicUsize,
    /// Maximum that it has used since it started: frames that it sent by the other pairs must still go out.
    pub(super) served: AtomicUsize,
    /// Microseconds of `clock` until which the NIC takes no frames; 0: it takes frames.
    pub(super) closed_until: AtomicU64,
    /// Number of frames that had arrived when the driver started.
    pub(super) came_before: AtomicU64,
    pub(super) symmetric: AtomicBool,
    /// True if the cable is unplugged: closed until it is plugged in.
    pub(super) unplugged: AtomicBool,
    /// Offloads that frames may leave to the driver: bits of [`Offloads`].
    pub(super) takes: AtomicU8,
    pub(super) clock: Clock,
    pub(super) settle: Duration,
}

impl Pairs {
    pub(super) fn new(settle: Duration, clock: Clock) -> Self {
        Self {
            active: AtomicUsize::new(ONE),
            served: AtomicUsize::new(ONE),
            closed_until: AtomicU64::new(0),
            came_before: AtomicU64::new(0),
            symmetric: AtomicBool::new(false),
            unplugged: AtomicBool::new(false),
            takes: AtomicU8::new(0),
            clock,
            settle,
        }
    }

    /// Returns how many pairs frames are spread over now; `None` while the NIC is closed.
    #[inline(always)]
    pub(super) fn open(&self) -> Option<usize> {
        // In this order: a thread that sees the new number also sees that the NIC is closed.
        let active = self.active.load(Ordering::Acquire);
        let closed_until = self.closed_until.load(Ordering::Acquire);
        if closed_until != 0 && !self.opens(closed_until) {
            return None;
        }
        Some(active)
    }

    #[cold]
    pub(super) fn opens(&self, closed_until: u64) -> bool {
        let over = closed_until == cable::UNTIL_PLUGGED || self.clock.now() / 1000 >= closed_until;
        if self.is_unplugged() || !over {
            return false;
        }
        // Fails if the NIC has just been closed for longer.
        let _ = self.closed_until.compare_exchange(closed_until, 0, Ordering::AcqRel, Ordering::Relaxed);
        self.closed_until.load(Ordering::Acquire) == 0
    }

    pub(super) fn close(&self) {
        let until = Duration::from_nanos(self.clock.now()) + self.settle;
        self.closed_until.store(until.as_micros() as u64, Ordering::Release);
    }

    /// Handles the end of the driver; `came` frames had arrived until then.
    pub(super) fn reset(&self, came: u64) {
        self.takes.store(0, Ordering::Release);
        self.came_before.store(came, Ordering::Relaxed);
        self.active.store(ONE, Ordering::Release);
        self.served.store(ONE, Ordering::Release);
        self.closed_until.store(0, Ordering::Release);
        self.stay_closed();
    }

    #[inline(always)]
    pub(super) fn takes(&self) -> Offloads {
        Offloads::from_bits(self.takes.load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(super) fn hash(&self) -> Hash {
        if self.symmetric.load(Ordering::Relaxed) { Hash::Symmetric } else { Hash::Flow }
    }
}
