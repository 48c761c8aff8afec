//! Notification suppression (virtio 1.2, sections 2.7.7 and 2.7.10): words by which both ends say when they want to be notified.
//!
//! One end publishes an index and then looks at the other's wish; the other writes its wish and then looks at the
//! index. Each does a store and then a load of a different word, and a CPU may let the load overtake the store. If
//! both did, the publisher would see no wish and the sleeper no news, and the ring would stand still. So each side
//! has a full fence between the two. `tests/wake_loom.rs` runs this very code through every interleaving, and shows
//! that it fails without either fence and without the second look.

use core::sync::atomic::{AtomicU16, Ordering, fence};

/// A 16-bit word that both ends of a ring share.
pub trait Word {
    /// Reads the word; what was written before it was is then visible (acquire).
    fn read(&self) -> u16;
    /// Writes the word after all that was written before (release).
    fn write(&self, value: u16);
    /// Keeps later reads behind earlier writes.
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

/// The word by which one end says when it wants to be notified.
#[derive(Debug)]
pub enum Wish<'a, W> {
    /// 1: do not notify me (VIRTQ_AVAIL_F_NO_INTERRUPT, VIRTQ_USED_F_NO_NOTIFY).
    Flag(&'a W),
    /// With VIRTIO_F_EVENT_IDX: notify me when your index passes this entry.
    Event(&'a W),
}

/// Whether an index that went from `old` to `new` passed entry `event` (section 2.7.10).
#[inline(always)]
pub const fn passed(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

impl<W: Word> Wish<'_, W> {
    /// Whether the other end wants to hear that the index went from `old` to `new`. Not ordered after the write of
    /// the index: a wish that is written at the same time may be missed.
    #[inline(always)]
    pub fn wants(&self, old: u16, new: u16) -> bool {
        match self {
            Self::Flag(word) => word.read() & 1 == 0,
            Self::Event(word) => passed(word.read(), new, old),
        }
    }

    /// Writes the wish to hear of entry `count` after `seen`; returns which one will be told of: a flag only says the first.
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

    /// Writes the wish to hear nothing. With events it fades: it has to be renewed before the index has moved by
    /// 65535 from `seen`.
    #[inline(always)]
    pub fn decline(&self, seen: u16) {
        match self {
            Self::Flag(word) => word.write(1),
            Self::Event(word) => word.write(seen.wrapping_sub(1)),
        }
    }
}

/// Publishes that `index` went from `old` to `new`; returns whether the other end must be notified.
#[inline(always)]
pub fn publish<W: Word>(index: &W, wish: &Wish<'_, W>, old: u16, new: u16) -> bool {
    index.write(new);
    W::full_fence();
    wish.wants(old, new)
}

/// Asks to be notified of anything after `seen`; returns true if there is something already, in which case the
/// caller must not sleep.
#[inline(always)]
pub fn arm<W: Word>(index: &W, wish: &Wish<'_, W>, seen: u16) -> bool {
    arm_after(index, wish, seen, 1)
}

/// Asks to be notified of the last of `count` entries (at least one) after `seen`, and not of the others. Whoever asks knows
/// that so many will come: if fewer do, nobody tells.
#[inline(always)]
pub fn arm_after<W: Word>(index: &W, wish: &Wish<'_, W>, seen: u16, count: u16) -> bool {
    let told = wish.ask(seen, count);
    W::full_fence();
    index.read().wrapping_sub(seen) >= told
}
