//! The protocol of the ingress queue, without the memory that it guards: who owns which slot, and who wakes whom.
//!
//! ```text
//!            lease                 publish                 take
//!   free ----------> a sender's ------------> ready FIFO ----------> the consumer's --+
//!    ^                                                                                |
//!    +------------------------------------- give back --------------------------------+
//! ```
//!
//! Each arrow is one short lock over a few words; frames are copied, and shown, under none. So a sender that is
//! descheduled in the middle of its copy keeps its own slots from circulating and disturbs nobody else.
//!
//! The wake-up: a publisher makes its frames visible, *then* looks whether the consumer is armed; the consumer arms,
//! *then* looks for frames. A fence between the two steps on either side rules out that both look too early. Who
//! changes the flag exchanges it, so that of several senders exactly one rings for one wish.

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

/// A slot and the octets of the frame in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Number of the slot.
    pub slot: u32,
    /// Octets in it.
    pub len: u32,
    /// What the frame leaves to be done.
    pub offload: Offload,
}

/// Slots that a sender may fill, or that the consumer has shown.
pub type Lease = ArrayVec<u32, BURST>;

/// Keeps what senders write off the line that the consumer writes, and the other way round.
#[derive(Default)]
#[cfg_attr(not(loom), repr(align(128)))]
struct Apart<T>(T);

struct Ready {
    ring: Box<[Filled]>,
    first: usize,
    count: usize,
}

/// The free slots, the ready FIFO and the armed flag.
pub struct Leases {
    free: Apart<Mutex<Vec<u32>>>,
    ready: Apart<Mutex<Ready>>,
    waiting: Apart<AtomicUsize>,
    armed: Apart<AtomicBool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half-way, so a poisoned one still guards a sound value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leases {
    /// `count` free slots, numbered from 0.
    pub fn new(count: u32) -> Self {
        let ring = vec![Filled { slot: 0, len: 0, offload: Offload::NONE }; count as usize].into();
        Self {
            free: Apart(Mutex::new((0..count).rev().collect())),
            ready: Apart(Mutex::new(Ready { ring, first: 0, count: 0 })),
            waiting: Apart(AtomicUsize::new(0)),
            armed: Apart(AtomicBool::new(false)),
        }
    }

    /// Up to `n` (at most [`BURST`]) free slots, the sender's own until it publishes them.
    pub fn lease(&self, n: usize) -> Lease {
        let mut free = lock(&self.free.0);
        let keep = free.len() - n.min(BURST).min(free.len());
        free.drain(keep..).rev().collect()
    }

    /// Appends filled slots to the FIFO, in order. True if the consumer must be rung.
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

    /// The oldest ready frames, up to `budget` (at most [`BURST`]); the consumer's own until it gives them back.
    pub fn take(&self, budget: usize) -> ArrayVec<Filled, BURST> {
        if self.waiting() == 0 {
            return ArrayVec::new();
        }
        let mut ready = lock(&self.ready.0);
        let taken = (0..budget.min(BURST).min(ready.count)).map(|_| ready.pop()).collect();
        self.waiting.0.store(ready.count, Ordering::Release);
        taken
    }

    /// Makes slots free that were taken, or leased and not used.
    pub fn give_back(&self, slots: impl Iterator<Item = u32>) {
        lock(&self.free.0).extend(slots);
    }

    /// The consumer's wish to be rung; true if frames are ready, so that it must not sleep.
    pub fn arm(&self) -> bool {
        self.armed.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.waiting() != 0
    }

    /// Takes the wish back.
    pub fn disarm(&self) {
        self.armed.0.swap(false, Ordering::AcqRel);
    }

    /// Frames in the FIFO.
    pub fn waiting(&self) -> usize {
        self.waiting.0.load(Ordering::Acquire)
    }

    /// Free slots, at this moment.
    pub fn free(&self) -> usize {
        lock(&self.free.0).len()
    }
}

impl Ready {
    /// There are as many places as slots, and no slot is in the FIFO twice: it cannot be full.
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
