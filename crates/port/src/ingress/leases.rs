//! The protocol of the ingress queue, without the memory that it guards: which party owns which slot, and which one
//! wakes which.
//!
//! ```text
//!            lease                 publish                 take
//!   free ----------> a sender's ------------> ready FIFO ----------> the consumer's --+
//!    ^                                                                                |
//!    +------------------------------------- give back --------------------------------+
//! ```
//!
//! Each arrow takes one short lock over a few words; frames are copied, and shown, without a lock. So a sender that is
//! descheduled in the middle of its copy keeps its own slots from circulating, and delays no other thread.
//!
//! Wake-up: a publisher makes its frames visible, *then* checks whether the consumer is armed; the consumer arms,
//! *then* checks for frames. A fence between the two steps on either side rules out that both check too early. The flag
//! is changed by an atomic exchange, so that of several senders exactly one rings for one request.

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};

use arrayvec::ArrayVec;
use frame::offload::Offload;
use ring::BURST;

/// A slot, and the length of the frame in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Number of the slot.
    pub slot: u32,
    /// Length of the frame in octets.
    pub len: u32,
    /// Pending offload metadata of the frame.
    pub offload: Offload,
}

/// Slots that a sender may fill, or that the consumer has shown.
pub type Lease = ArrayVec<u32, BURST>;

/// Aligned wrapper: separates the cache lines that senders write from those that the consumer writes.
#[derive(Default)]
#[cfg_attr(not(loom), repr(align(128)))]
struct CachePadded<T>(T);

struct Ready {
    ring: Box<[Filled]>,
    first: usize,
    count: usize,
}

/// The free slots, the ready FIFO and the armed flag.
pub struct Leases {
    free: CachePadded<Mutex<Vec<u32>>>,
    ready: CachePadded<Mutex<Ready>>,
    waiting: CachePadded<AtomicUsize>,
    armed: CachePadded<AtomicBool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Code under these locks cannot panic half-way, so a poisoned lock still guards a valid value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leases {
    /// Creates `count` free slots, numbered from 0.
    pub fn new(count: u32) -> Self {
        let ring = vec![Filled { slot: 0, len: 0, offload: Offload::NONE }; count as usize].into();
        Self {
            free: CachePadded(Mutex::new((0..count).rev().collect())),
            ready: CachePadded(Mutex::new(Ready { ring, first: 0, count: 0 })),
            waiting: CachePadded(AtomicUsize::new(0)),
            armed: CachePadded(AtomicBool::new(false)),
        }
    }

    /// Returns up to `n` (at most [`BURST`]) free slots, which the sender owns until it publishes them.
    pub fn lease(&self, n: usize) -> Lease {
        let mut free = lock(&self.free.0);
        let keep = free.len() - n.min(BURST).min(free.len());
        free.drain(keep..).rev().collect()
    }

    /// Appends filled slots to the FIFO, in order. Returns true if the consumer must be rung.
    #[must_use = "the consumer may be asleep"]
    pub fn publish(&self, filled: &[Filled]) -> bool {
        if filled.is_empty() {
            return false;
        }
        let mut ready = lock(&self.ready.0);
        for frame in filled {
            ready.append(*frame);
        }
        self.waiting.0.store(ready.count, Ordering::Release);
        drop(ready);
        fence(Ordering::SeqCst);
        self.armed.0.load(Ordering::Relaxed) && self.armed.0.swap(false, Ordering::AcqRel)
    }

    /// Returns the oldest ready frames, up to `budget` (at most [`BURST`]); the consumer owns them until it gives them
    /// back.
    pub fn take(&self, budget: usize) -> ArrayVec<Filled, BURST> {
        if self.waiting() == 0 {
            return ArrayVec::new();
        }
        let mut ready = lock(&self.ready.0);
        let taken = (0..budget.min(BURST).min(ready.count)).map(|_| ready.pop()).collect();
        self.waiting.0.store(ready.count, Ordering::Release);
        taken
    }

    /// Frees slots that were taken, or leased and not used.
    pub fn give_back(&self, slots: impl Iterator<Item = u32>) {
        lock(&self.free.0).extend(slots);
    }

    /// The consumer requests to be rung; returns true if frames are ready, in which case it must not sleep.
    pub fn arm(&self) -> bool {
        self.armed.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.waiting() != 0
    }

    /// Withdraws the request.
    pub fn disarm(&self) {
        self.armed.0.swap(false, Ordering::AcqRel);
    }

    /// Returns the number of frames in the FIFO.
    pub fn waiting(&self) -> usize {
        self.waiting.0.load(Ordering::Acquire)
    }

    /// Returns the current number of free slots.
    pub fn free(&self) -> usize {
        lock(&self.free.0).len()
    }
}

impl Ready {
    /// Appends a frame. There are as many places as slots, and no slot is in the FIFO twice, so it cannot be full.
    fn append(&mut self, frame: Filled) {
        let mut at = self.first + self.count;
        if at >= self.ring.len() {
            at -= self.ring.len();
        }
        self.ring[at] = frame;
        self.count += 1;
    }

    fn pop(&mut self) -> Filled {
        let frame = self.ring[self.first];
        self.first = if self.first + 1 == self.ring.len() { 0 } else { self.first + 1 };
        self.count -= 1;
        frame
    }
}
