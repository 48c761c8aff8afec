//! Where frames are put together that do not leave as they lie.
//!
//! ```text
//!           a frame that is done           the frame that is being put together
//!  | spare | octets ........... | spare | octets .... | free ..........................|
//!                               ^ start
//! ```
//!
//! The spare octets before each frame are for its VLAN tag: the addresses move into them, and the tag takes their place.

use std::ops::Range;

use ring::BURST;

/// Octets for the frames of one burst: as many as there are in one, of the usual size. One of the largest always fits.
const BURST_ROOM: usize = BURST * 1536;
/// Octets of a VLAN tag, with its EtherType.
pub(super) const TAG: usize = 4;
/// Octets of the two addresses, behind which the tag lies.
const ADDRESSES: usize = 12;
/// Octets of the shortest frame on the wire, without FCS.
pub(super) const PADDED: usize = 60;

/// Room for the frames of one burst, and for one that goes on with the next burst.
#[derive(Debug)]
pub(super) struct Room {
    /// Empty until it is needed.
    octets: Vec<u8>,
    /// Octets of the largest frame.
    longest: usize,
    start: usize,
    /// Octets of the frame that is being put together.
    len: usize,
}

impl Room {
    pub(super) const fn new(longest: usize) -> Self {
        Self { octets: Vec::new(), longest, start: 0, len: 0 }
    }

    /// Forgets the frames that are done. What is being put together moves to the front.
    pub(super) fn begin_burst(&mut self) {
        if self.octets.is_empty() {
            self.octets.resize(BURST_ROOM.max(self.largest()), 0);
        }
        let begun = self.start + TAG..self.start + TAG + self.len;
        if self.start > 0 && begun.end <= self.octets.len() {
            self.octets.copy_within(begun, TAG);
        }
        self.start = 0;
    }

    /// Octets that a frame takes at most.
    fn largest(&self) -> usize {
        TAG + self.longest.max(PADDED)
    }

    /// Whether a frame of any size can be begun.
    pub(super) fn has_place(&self) -> bool {
        self.octets.len() - self.start >= self.largest()
    }

    /// Octets of the frame that is being put together.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Where its next octets go; empty once it is as long as a frame may be.
    pub(super) fn free(&mut self) -> &mut [u8] {
        let first = self.start + TAG;
        self.octets.get_mut(first + self.len..first + self.longest).unwrap_or_default()
    }

    /// `n` octets were put where the next ones go.
    pub(super) fn add(&mut self, n: usize) {
        self.len = (self.len + n).min(self.longest);
    }

    /// The frame as it is by now.
    pub(super) fn frame(&mut self) -> &mut [u8] {
        let first = self.start + TAG;
        self.octets.get_mut(first..first + self.len).unwrap_or_default()
    }

    /// The frame is done: with this tag (EtherType, then tag) between addresses and type, and, if it is to be padded,
    /// with zeros behind it. Says where it lies.
    pub(super) fn finish(&mut self, tag: Option<[u8; TAG]>, pad: bool) -> Range<usize> {
        let end = self.start + TAG + self.len;
        let first = match tag {
            Some(tag) if self.len >= ADDRESSES => {
                self.octets.copy_within(self.start + TAG..self.start + TAG + ADDRESSES, self.start);
                let place = self.start + ADDRESSES;
                self.octets[place..place + TAG].copy_from_slice(&tag);
                self.start
            }
            _ => self.start + TAG,
        };
        let mut until = end;
        if pad && end - first < PADDED {
            until = first + PADDED;
            self.octets[end..until].fill(0);
        }
        (self.start, self.len) = (until, 0);
        first..until
    }

    /// Forgets the frame that is being put together.
    pub(super) const fn discard(&mut self) {
        self.len = 0;
    }

    /// All octets: frames that are done lie where [`Self::finish`] said.
    pub(super) fn octets(&mut self) -> &mut [u8] {
        &mut self.octets
    }
}

#[cfg(test)]
mod tests;
