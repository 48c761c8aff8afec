//! Reservations of receive buffers for the frames of one burst.

use arrayvec::ArrayVec;
use ledger::NicDirection;
use port::Frame;
use ring::{BURST, Bytes};

use super::super::{BurstCounts, Statistics};

/// Maximum number of descriptors of one lease, chosen so that a byte can count them: enough for a burst of frames that
/// fill almost four buffers each. Further frames are left for the next lease.
pub(super) const BUFFERS: usize = 4 * BURST - 1;
/// Length of a VLAN tag in octets, and its offset in a frame.
pub(super) const TAG: u32 = 4;
pub(super) const TAG_AT: u32 = 12;

/// Buffers of one ring, reserved for certain frames by one thread. Reused for each burst.
#[derive(Debug, Default)]
pub struct Lease {
    /// Frames stored unchanged in one buffer each: usually all.
    pub(super) plain: ArrayVec<UnchangedFrame, BURST>,
    /// All other frames, and their buffers.
    pub(super) shaped: ArrayVec<GeneralFrame, BURST>,
    pub(super) buffers: ArrayVec<Bytes<'static>, BUFFERS>,
    /// Position of the first descriptor, and the number of descriptors.
    pub(super) first: u16,
    pub(super) descriptors: u16,
    /// Identifier of the ring that the lease was reserved from.
    pub(super) ring: u64,
    /// Total length in octets of all frames that have a place.
    pub(super) octets: u64,
    pub(super) drops: Drops,
    /// Number of frames for which there was no buffer.
    pub(super) missed: u64,
    /// True if the lease had too few places for all frames.
    pub(super) full: bool,
    /// Counts for the statistics registers, if the driver does not use the status block.
    pub(super) tally: BurstCounts,
}

/// A frame stored unchanged in one buffer, with only its length reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnchangedFrame {
    pub(super) buffer: Bytes<'static>,
    /// Length of the frame in octets.
    pub(super) len: u32,
    /// Index of the frame in the slice.
    pub(super) frame: u8,
    /// Index of its descriptor, counted from the first of the lease.
    pub(super) descriptor: u8,
}

/// Any other frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct GeneralFrame {
    /// Write-back word of its last descriptor, without the length.
    pub(super) word: u64,
    /// Octets to store.
    pub(super) len: u32,
    /// True if its VLAN tag is removed.
    pub(super) untagged: bool,
    /// Index of the frame in the slice.
    pub(super) frame: u8,
    /// Index of its first descriptor, counted from the first of the lease.
    pub(super) descriptor: u8,
    /// Index of its first buffer in the list, and the number of buffers that it fills.
    pub(super) buffer: u8,
    pub(super) count: u8,
}

impl Lease {
    #[inline(always)]
    pub(super) fn clear(&mut self, ring: u64, first: u16) {
        self.plain.clear();
        self.shaped.clear();
        self.buffers.clear();
        (self.ring, self.first, self.descriptors, self.octets, self.missed) = (ring, first, 0, 0, 0);
        (self.drops, self.full) = (Drops::default(), false);
    }

    /// Returns the counts for the statistics registers, and clears them.
    #[inline(always)]
    pub(super) fn take_tally(&mut self, by_block: bool) -> BurstCounts {
        if !by_block {
            return std::mem::take(&mut self.tally);
        }
        let mut tally = BurstCounts::default();
        tally.frames(self.frames(), self.octets);
        tally
    }

    /// Returns true if the lease had too few places for all frames.
    pub const fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the number of frames that have a place.
    #[inline(always)]
    pub(super) const fn frames(&self) -> u64 {
        (self.plain.len() + self.shaped.len()) as u64
    }

    /// Copies the frames for which the lease was reserved; `frames` must be the same slice.
    #[inline]
    pub fn copy(&self, frames: &[Frame<'_>]) {
        for plain in &self.plain {
            if let Some(frame) = frames.get(usize::from(plain.frame)) {
                frame.octets().take(plain.len).copy_into(&plain.buffer, 0);
            }
        }
        for shaped in &self.shaped {
            if let Some(frame) = frames.get(usize::from(shaped.frame)) {
                self.scatter(shaped, frame.octets());
            }
        }
    }

    /// Scatters a frame over its buffers, padded with zeros to the length that is stored.
    #[cold]
    fn scatter(&self, shaped: &GeneralFrame, frame: Bytes<'_>) {
        let mut pieces = match shaped.untagged {
            true => [frame.take(TAG_AT), frame.skip(TAG_AT + TAG)],
            false => [frame, frame.skip(u32::MAX)],
        };
        for buffer in self.buffers_of(shaped) {
            let mut room = *buffer;
            for piece in &mut pieces {
                let copied = piece.copy_to(&room) as u32;
                (*piece, room) = (piece.skip(copied), room.skip(copied));
            }
            clear(room);
        }
    }

    /// Returns the buffers of a frame, each as long as the octets stored in it.
    pub(super) fn buffers_of(&self, shaped: &GeneralFrame) -> &[Bytes<'static>] {
        let first = usize::from(shaped.buffer);
        self.buffers.get(first..first + usize::from(shaped.count)).unwrap_or(&[])
    }
}

/// Fills with zeros.
fn clear(room: Bytes<'_>) {
    let mut left = room;
    while !left.is_empty() {
        let cleared = left.copy_from_slice(&[0; 64]);
        left = left.skip(cleared as u32);
    }
}

/// Reason why a frame is not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drop {
    Filtered,
    TooShort,
    TooLong,
}

/// Counts of the frames of a burst that are not received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drops {
    filtered: u64,
    too_short: u64,
    too_long: u64,
}

impl Drops {
    pub(super) fn add(&mut self, why: Drop) {
        *match why {
            Drop::Filtered => &mut self.filtered,
            Drop::TooShort => &mut self.too_short,
            Drop::TooLong => &mut self.too_long,
        } += 1;
    }

    #[inline(always)]
    pub(super) const fn any(&self) -> bool {
        self.filtered + self.too_short + self.too_long > 0
    }

    #[cold]
    pub(super) fn count(&self, ledger: &NicDirection, statistics: &Statistics) {
        ledger.drop_filtered.add(self.filtered);
        ledger.drop_too_short.add(self.too_short);
        ledger.drop_too_long.add(self.too_long);
        statistics.too_long(self.too_long);
    }
}
