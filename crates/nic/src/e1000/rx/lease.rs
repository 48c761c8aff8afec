//! Where the frames of one burst go.

use arrayvec::ArrayVec;
use ledger::NicDirection;
use ring::e1000::rx;
use ring::{BURST, Bytes};
use switch::Frame;

use super::super::{Statistics, Tally};
use super::accept::Stored;

/// Buffers of one lease: a burst of frames that fill four each. What needs more is left for the next lease.
pub(super) const BUFFERS: usize = 4 * BURST;
/// Octets of a VLAN tag, and where it lies in a frame.
pub(super) const TAG: u32 = 4;
pub(super) const TAG_AT: u32 = 12;

/// Buffers of one ring, reserved for certain frames by one thread. Reused for each burst.
#[derive(Debug, Default)]
pub struct Lease {
    pub(super) buffers: ArrayVec<Bytes<'static>, BUFFERS>,
    pub(super) places: ArrayVec<Place, BURST>,
    /// Position of the first descriptor.
    pub(super) first: u16,
    /// The ring that it was reserved from.
    pub(super) ring: u64,
    /// Octets of all frames that have a place.
    pub(super) octets: u64,
    pub(super) drops: Drops,
    /// Frames for which there was no buffer.
    pub(super) missed: u64,
    /// What the statistics registers are to say, where the driver does not work by the status block.
    pub(super) tally: Tally,
}

/// Where one frame goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// What its last descriptor says, without the length.
    pub(super) word: u64,
    /// Octets that are stored.
    pub(super) len: u32,
    /// Its number in the slice.
    frame: u8,
    /// Its first buffer, and how many it fills.
    pub(super) first: u8,
    pub(super) count: u8,
    shape: Shape,
}

/// What is stored of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// All of it, in one buffer, and nothing else.
    Plain,
    /// All of it.
    Whole,
    /// All but its tag.
    Untagged,
}

impl Place {
    /// A frame that is stored as it is in one buffer.
    #[inline(always)]
    pub(super) const fn plain(frame: u8, first: u8, len: u32) -> Self {
        let word = (rx::DD | rx::EOP | rx::IXSM) as u64;
        Self { word: word << 32, len, frame, first, count: 1, shape: Shape::Plain }
    }

    /// Any frame.
    pub(super) fn shaped(frame: u8, first: u8, count: u8, stored: &Stored) -> Self {
        let shape = if stored.untagged { Shape::Untagged } else { Shape::Whole };
        Self { word: stored.received.rest(), len: stored.len, frame, first, count, shape }
    }
}

impl Lease {
    #[inline(always)]
    pub(super) fn clear(&mut self, ring: u64, first: u16) {
        self.buffers.clear();
        self.places.clear();
        (self.ring, self.first, self.octets, self.missed) = (ring, first, 0, 0);
        (self.drops, self.tally) = (Drops::default(), Tally::default());
    }

    /// What the statistics registers are to say.
    #[inline(always)]
    pub(super) fn tally(&self, by_block: bool) -> Tally {
        if !by_block {
            return self.tally;
        }
        let mut tally = Tally::default();
        tally.frames(self.places.len() as u64, self.octets);
        tally
    }

    /// Copies the frames for which the lease was reserved: the same slice again.
    #[inline]
    pub fn copy(&self, frames: &[Frame<'_>]) {
        for place in &self.places {
            let Some(frame) = frames.get(usize::from(place.frame)) else { continue };
            match self.buffers.get(usize::from(place.first)) {
                Some(buffer) if place.shape == Shape::Plain => {
                    frame.octets().take(place.len).copy_into(buffer, 0);
                }
                _ => self.scatter(place, frame.octets()),
            }
        }
    }

    /// Spreads a frame over its buffers, with zeros behind it up to the length that is stored.
    #[cold]
    fn scatter(&self, place: &Place, frame: Bytes<'_>) {
        let (head, tail) = match place.shape {
            Shape::Untagged => (frame.take(TAG_AT), frame.skip(TAG_AT + TAG)),
            Shape::Plain | Shape::Whole => (frame, frame.skip(u32::MAX)),
        };
        let (mut pieces, mut piece) = ([tail].into_iter(), head);
        for buffer in self.buffers_of(place) {
            let mut room = *buffer;
            while !room.is_empty() {
                if piece.is_empty() {
                    let Some(next) = pieces.next() else {
                        clear(room);
                        break;
                    };
                    piece = next;
                }
                let copied = piece.copy_to(&room) as u32;
                (piece, room) = (piece.skip(copied), room.skip(copied));
            }
        }
    }

    /// The buffers of a frame, each as long as what is stored in it.
    pub(super) fn buffers_of(&self, place: &Place) -> &[Bytes<'static>] {
        let first = usize::from(place.first);
        self.buffers.get(first..first + usize::from(place.count)).unwrap_or(&[])
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

/// Why a frame is not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drop {
    Filtered,
    TooShort,
    TooLong,
}

/// Frames of a burst that are not received.
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
