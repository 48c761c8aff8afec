//! Buffer in which frames are assembled that cannot be sent from guest memory.
//!
//! ```text
//!           a frame that is complete      the frame being assembled
//!  | spare | octets ........... | spare | octets .... | free ..........................|
//!                               ^ start
//! ```
//!
//! The spare octets before each frame are for its VLAN tag: the addresses move into them, and the tag takes their
//! place.

use std::ops::Range;

use ring::BURST;

/// Size in octets for the frames of one burst of the usual frame size. At least one frame of the largest size fits.
const BURST_ROOM: usize = BURST * 1536;
/// Length of a VLAN tag with its EtherType, in octets.
pub(super) const TAG: usize = 4;
/// Length of the two addresses in octets; the tag follows them.
const ADDRESSES: usize = 12;
/// Length of the shortest frame on the wire in octets, without FCS.
pub(super) const PADDED: usize = 60;

/// Buffer for the frames of one burst, and for one that continues in the next burst.
#[derive(Debug)]
pub(super) struct AssemblyBuffer {
    /// Empty until first used.
    octets: Vec<u8>,
    /// Length of the largest frame in octets.
    longest: usize,
    start: usize,
    /// Length of the frame being assembled, in octets.
    len: usize,
}

impl AssemblyBuffer {
    pub(super) const fn new(longest: usize) -> Self {
        Self { octets: Vec::new(), longest, start: 0, len: 0 }
    }

    /// Frees the complete frames. Moves the frame being assembled to the front.
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

    /// Returns the maximum number of octets that a frame takes.
    fn largest(&self) -> usize {
        TAG + self.longest.max(PADDED)
    }

    /// Returns true if there is room for a frame of any size.
    pub(super) fn has_place(&self) -> bool {
        self.octets.len() - self.start >= self.largest()
    }

    /// Returns the length of the frame being assembled.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the space for its next octets; empty once the frame has reached the maximum length.
    pub(super) fn free(&mut self) -> &mut [u8] {
        let first = self.start + TAG;
        self.octets.get_mut(first + self.len..first + self.longest).unwrap_or_default()
    }

    /// Adds `n` octets that were written into the free space.
    pub(super) fn add(&mut self, n: usize) {
        self.len = (self.len + n).min(self.longest);
    }

    /// Returns the frame so far.
    pub(super) fn frame(&mut self) -> &mut [u8] {
        let first = self.start + TAG;
        self.octets.get_mut(first..first + self.len).unwrap_or_default()
    }

    /// Completes the frame, with this tag (EtherType, then tag) between addresses and type, and with zeros behind it if
    /// it is to be padded. Returns its place.
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

    /// Discards the frame being assembled.
    pub(super) const fn discard(&mut self) {
        self.len = 0;
    }

    /// Returns all octets: complete frames lie where [`Self::finish`] said.
    pub(super) fn octets(&mut self) -> &mut [u8] {
        &mut self.octets
    }
}

#[cfg(test)]
mod tests;
