//! Reassembly of what is for the router itself (RFC 791, 3.2; RFC 1812, 4.2.2.7; RFC 8200, 4.5), of bounded size.
//!
//! Fragments stay in their own buffers until all are there. A datagram is never copied together: an echo request is
//! answered fragment by fragment, of everything else only the first fragment matters.

use arrayvec::ArrayVec;

use crate::ip::Ip;

/// Maximum number of datagrams that are being reassembled; a further one takes the place of the oldest.
const MOST_DATAGRAMS: usize = 8;
/// Maximum number of fragments in all.
pub(crate) const MOST_PARTS: usize = 64;
/// Largest datagram in octets, without headers: the length field of IPv4 includes its header (RFC 791, 3.1), that of IPv6 does
/// not.
const LARGEST: u32 = LARGEST6 - frame::ipv4::HEADER as u32;
const LARGEST6: u32 = 65_535;
/// Milliseconds after its first fragment in which a datagram must be complete: as Linux does for IPv4, and RFC 8200, 4.5.
const LIFE: u64 = 30_000;
const LIFE6: u64 = 60_000;

/// What the fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) nic: u8,
    pub(crate) source: Ip,
    pub(crate) destination: Ip,
    /// Protocol of IPv4; the fragments of an IPv6 packet may name different ones (RFC 8200, 4.5).
    pub(crate) protocol: Option<u8>,
    pub(crate) identification: u32,
}

/// A fragment.
pub(crate) struct Part<B> {
    pub(crate) buffer: B,
    /// Offset of its data in the data of the datagram, and their length, in octets.
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// Offset of its data in the frame.
    pub(crate) place: u32,
    /// True if it is not the last one.
    pub(crate) more: bool,
}

impl<B> Part<B> {
    /// Returns where its data are in the frame.
    pub(crate) const fn range(&self) -> core::ops::Range<usize> {
        self.place as usize..(self.place + self.len) as usize
    }
}

/// Fragments of one datagram, in their order if it is complete.
pub(crate) type Parts<B> = ArrayVec<Part<B>, MOST_PARTS>;

/// Outcome of a fragment.
pub(crate) enum Collected<B> {
    /// It waits for others.
    Waits,
    /// The datagram is complete.
    Whole(Parts<B>),
    /// It does not fit, and so these are lost.
    Lost(Parts<B>),
}

struct Datagram {
    key: Key,
    due: u64,
    /// Number that its parts have, and its length once the last fragment is there.
    number: u32,
    total: Option<u32>,
}

/// All datagrams that one router is reassembling.
pub(crate) struct Reassembly<B> {
    /// The oldest one first.
    datagrams: ArrayVec<Datagram, MOST_DATAGRAMS>,
    parts: ArrayVec<(u32, Part<B>), MOST_PARTS>,
    last: u32,
}

impl<B> Reassembly<B> {
    pub(crate) const fn new() -> Self {
        Self { datagrams: ArrayVec::new_const(), parts: ArrayVec::new_const(), last: 0 }
    }

    /// Returns the number of fragments that wait.
    pub(crate) fn held(&self) -> usize {
        self.parts.len()
    }

    /// Returns when the oldest datagram must be complete, in milliseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.datagrams.iter().map(|datagram| datagram.due).min()
    }

    /// Removes a datagram whose time is over, and returns its NIC and its fragments.
    pub(crate) fn expired(&mut self, now: u64) -> Option<(u8, Parts<B>)> {
        let at = self.datagrams.iter().position(|datagram| datagram.due <= now)?;
        let nic = self.datagrams[at].key.nic;
        Some((nic, self.take(at)))
    }

    /// Makes room for a fragment of this datagram: returns the fragments of another one, if there has to be.
    /// There is always one to be removed if the fragments are too many, because each belongs to a datagram.
    pub(crate) fn make_room(&mut self, key: &Key) -> Option<Parts<B>> {
        let is_new = self.datagrams.iter().all(|datagram| datagram.key != *key);
        let full = is_new && self.datagrams.is_full() || self.parts.is_full();
        full.then(|| self.take(0))
    }

    /// Adds a fragment at time `now`, in milliseconds; [`Reassembly::make_room`] was called before.
    pub(crate) fn add(&mut self, key: Key, part: Part<B>, now: u64) -> Collected<B> {
        let known = self.datagrams.iter().position(|datagram| datagram.key == key);
        let at = known.unwrap_or_else(|| self.begin(key, now));
        let number = self.datagrams[at].number;
        // A copy that a network has made says nothing new (RFC 8200, 4.5).
        let same = |other: &Part<B>| (other.at, other.len, other.more) == (part.at, part.len, part.more);
        if self.parts_of(number).any(same) {
            let mut copy = Parts::new();
            copy.push(part);
            return Collected::Lost(copy);
        }
        let fits = self.fits(at, &part);
        if fits && !part.more {
            self.datagrams[at].total = Some(part.at + part.len);
        }
        self.parts.push((number, part));
        if !fits {
            return Collected::Lost(self.take(at));
        }
        let there = self.parts_of(number).map(|part| part.len).sum::<u32>();
        if self.datagrams[at].total != Some(there) {
            return Collected::Waits;
        }
        let mut parts = self.take(at);
        parts.sort_unstable_by_key(|part| part.at);
        Collected::Whole(parts)
    }

    fn begin(&mut self, key: Key, now: u64) -> usize {
        self.last = self.last.wrapping_add(1);
        let life = if key.source.as_v4().is_some() { LIFE } else { LIFE6 };
        self.datagrams.push(Datagram { key, due: now.saturating_add(life), number: self.last, total: None });
        self.datagrams.len() - 1
    }

    /// Returns true if a fragment overlaps no other one (RFC 5722), and lies before the end.
    fn fits(&self, at: usize, part: &Part<B>) -> bool {
        let datagram = &self.datagrams[at];
        let end = part.at + part.len;
        let largest = if datagram.key.source.as_v4().is_some() { LARGEST } else { LARGEST6 };
        let aligned = !part.more || part.len.is_multiple_of(8) && part.len > 0;
        let apart = |other: &Part<B>| end <= other.at || other.at + other.len <= part.at;
        let before_end = match datagram.total {
            Some(total) => part.more && end <= total,
            None => part.more || self.parts_of(datagram.number).all(|other| other.at + other.len <= end),
        };
        aligned && end <= largest && before_end && self.parts_of(datagram.number).all(apart)
    }

    fn parts_of(&self, number: u32) -> impl Iterator<Item = &Part<B>> {
        self.parts.iter().filter(move |(other, _)| *other == number).map(|(_, part)| part)
    }

    /// Removes a datagram and returns its fragments.
    fn take(&mut self, at: usize) -> Parts<B> {
        let number = self.datagrams.remove(at).number;
        let mut taken = Parts::new();
        while let Some(at) = self.parts.iter().position(|(other, _)| *other == number) {
            taken.push(self.parts.remove(at).1);
        }
        taken
    }
}

#[cfg(test)]
mod tests;
