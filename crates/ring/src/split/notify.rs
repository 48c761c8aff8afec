//! Notification suppression (virtio 1.2, sections 2.7.7 and 2.7.10): the words by which each end says when it wants a
//! notification.
//!
//! One end publishes an index and then reads the other's suppression word; the other writes its word and then reads the
//! index. Each does a store and then a load of a different word, and a CPU may let the load overtake the store. If both
//! did, the publisher would see no request and the sleeper no new index, and the ring would stall. So each side has a
//! full fence between the two. `tests/wake_loom.rs` runs this very code through every interleaving, and shows that it
//! fails without either fence and without the second look at the index.

use core::sync::atomic::{AtomicU16, Ordering, fence};

/// A 16-bit word that both ends of a ring share.
pub trait Word {
    /// Reads the word; writes made before its value was stored are visible afterwards (acquire).
    fn read(&self) -> u16;
    /// Writes the word after all earlier writes (release).
    fn write(&self, value: u16);
    /// Full fence: keeps later reads behind earlier writes.
    fn full_fence();
}

impl Word for AtomicU16 {
    #[inline(always)]
    fn read(&self) -> u16 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn write(&self, value: u16) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// Suppression word: one end says in it when it wants a notification.
#[derive(Debug)]
pub enum Suppression<'a, W> {
    /// 1: no notifications (VIRTQ_AVAIL_F_NO_INTERRUPT, VIRTQ_USED_F_NO_NOTIFY).
    Flag(&'a W),
    /// With VIRTIO_F_EVENT_IDX: a notification is wanted when the index passes this entry.
    Event(&'a W),
}

/// Returns true if an index that went from `old` to `new` passed entry `event` (section 2.7.10).
#[inline(always)]
pub const fn passed(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

impl<W: Word> Suppression<'_, W> {
    /// Returns true if the other end wants a notification for an index that went from `old` to `new`. Not ordered after
    /// the write of the index: it may miss a request that is written concurrently.
    #[inline(always)]
    pub fn wants(&self, old: u16, new: u16) -> bool {
        match self {
            Self::Flag(word) => word.read() & 1 == 0,
            Self::Event(word) => passed(word.read(), new, old),
        }
    }

    /// Requests a notification for entry `count` after `seen`; returns the entry that will cause one, which is the
    /// first if the word is a flag.
    #[inline(always)]
    fn ask(&self, seen: u16, count: u16) -> u16 {
        match self {
            Self::Flag(word) => {
                word.write(0);
                1
            }
            Self::Event(word) => {
                word.write(seen.wrapping_add(count).wrapping_sub(1));
                count
            }
        }
    }

    /// Declines notifications. With an event index this expires: it has to be renewed before the index has moved by
    /// 65535 from `seen`.
    #[inline(always)]
    pub fn disable(&self, seen: u16) {
        match self {
            Self::Flag(word) => word.write(1),
            Self::Event(word) => word.write(seen.wrapping_sub(1)),
        }
    }
}

/// Publishes an `index` that went from `old` to `new`; returns true if the other end must be notified.
#[inline(always)]
pub fn publish<W: Word>(index: &W, suppression: &Suppression<'_, W>, old: u16, new: u16) -> bool {
    index.write(new);
    W::full_fence();
    suppression.wants(old, new)
}

/// Requests a notification for anything after `seen`; returns true if the index has moved already, in which case the
/// caller must not sleep.
#[inline(always)]
pub fn arm<W: Word>(index: &W, suppression: &Suppression<'_, W>, seen: u16) -> bool {
    arm_after(index, suppression, seen, 1)
}

/// Requests a notification for the last of `count` entries (at least one) after `seen`, and not for the others. The
/// caller must know that this many will come: if fewer do, no notification is sent.
#[inline(always)]
pub fn arm_after<W: Word>(index: &W, suppression: &Suppression<'_, W>, seen: u16, count: u16) -> bool {
    let told = suppression.ask(seen, count);
    W::full_fence();
    index.read().wrapping_sub(seen) >= told
}
