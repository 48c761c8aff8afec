//! Recognisable frames.

use port::Frame;
use ring::{Bytes, Slots};

/// Octets that identify a frame: Ethernet header, sender, number. Shorter frames cannot be recognised.
pub const HEADER: usize = 14 + 1 + 4;
/// An ethertype for experiments (IEEE 802, 9.2.3).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Parameters for the suite's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Destination address of all frames.
    pub destination: [u8; 6],
    /// Source address of all frames.
    pub source: [u8; 6],
    /// Length in octets of the shortest frame that the port passes on unchanged; at least [`HEADER`].
    pub shortest: usize,
    /// Length in octets of the longest one.
    pub longest: usize,
}

impl Default for Pattern {
    /// Frames of any recognisable length up to 1514 octets between two stations.
    fn default() -> Self {
        let (destination, source) = ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
        Self { destination, source, shortest: HEADER, longest: 1514 }
    }
}

/// Identity of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) sender: u8,
    pub(crate) number: u32,
}

impl Pattern {
    /// Returns a length that varies from frame to frame and includes both ends of the range.
    pub(crate) fn length(&self, number: u32) -> usize {
        match number % 4 {
            0 => self.shortest,
            1 => self.longest,
            _ => self.shortest + (number as usize).wrapping_mul(97) % (self.longest - self.shortest + 1),
        }
    }

    /// Returns the octets of a frame of this length.
    pub fn octets(&self, sender: u8, number: u32, length: usize) -> Vec<u8> {
        assert!(length >= HEADER, "a frame of {length} octets cannot carry its number");
        let mut octets = Vec::with_capacity(length);
        octets.extend(self.destination);
        octets.extend(self.source);
        octets.extend(ETHERTYPE);
        octets.push(sender);
        octets.extend(number.to_le_bytes());
        octets.extend((HEADER..length).map(|at| body(sender, number, at)));
        octets
    }

    /// Identifies a frame of the suite; `None` for any other frame.
    pub(crate) fn recognise(&self, octets: &[u8]) -> Option<Mark> {
        let [sender, a, b, c, d] = *octets.get(14..HEADER)? else { return None };
        if octets[..6] != self.destination || octets[6..12] != self.source || octets[12..14] != ETHERTYPE {
            return None;
        }
        let mark = Mark { sender, number: u32::from_le_bytes([a, b, c, d]) };
        for (at, &octet) in octets.iter().enumerate().skip(HEADER) {
            assert_eq!(octet, body(sender, mark.number, at), "octet {at} of {mark:?} was changed on its way");
        }
        Some(mark)
    }
}

fn body(sender: u8, number: u32, at: usize) -> u8 {
    (u32::from(sender).wrapping_mul(31) ^ number.wrapping_mul(7)).wrapping_add(at as u32) as u8
}

/// Numbered frames, as a sender shows them.
pub(crate) struct Shown {
    slots: Slots,
    lengths: Vec<usize>,
}

impl Shown {
    /// Creates `count` frames of a sender, numbered from `first`.
    pub(crate) fn new(pattern: &Pattern, sender: u8, first: u32, count: usize) -> Self {
        let slots = Slots::new(count, pattern.longest);
        let lengths: Vec<_> = (first..).take(count).map(|number| pattern.length(number)).collect();
        for (i, (&length, number)) in lengths.iter().zip(first..).enumerate() {
            let octets = pattern.octets(sender, number, length);
            slots.get(i, length).map(|slot| slot.copy_from_slice(&octets));
        }
        Self { slots, lengths }
    }

    pub(crate) fn frames(&self) -> Vec<Frame<'_>> {
        let slot = |(i, &length)| Frame::new(self.slots.get(i, length).unwrap_or(Bytes::EMPTY));
        self.lengths.iter().enumerate().map(slot).collect()
    }
}
