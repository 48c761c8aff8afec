//! Pending offload metadata of a frame: a checksum to be filled in, segmentation to be done.
//!
//! A word of metadata accompanies the frame from port to port. It has the information of `struct virtio_net_hdr`
//! (virtio 1.2, section 5.1.6; the same ten octets precede each frame of a TAP with IFF_VNET_HDR), in [`BITS`] bits, so
//! that it fits beside the length of a frame:
//!
//! ```text
//!   46     41 40       33 32        22 21      6     5        4     3     2     1      0
//!  +---------+-----------+------------+---------+----------+-----+-----+------+------+------+
//!  |transport|csum_offset| csum_start | gso_size|data_valid| ECN | USO | TSO6 | TSO4 | CSUM |
//!  +---------+-----------+------------+---------+----------+-----+-----+------+------+------+
//!                                                           \________ Offloads ___________/
//! ```
//!
//! `transport`: length of the transport header in octets, 0 if it is not known; `hdr_len` is `csum_start` plus that
//! length.

mod segments;

use core::fmt;
use core::ops::{BitAnd, BitOr, Not};

use crate::checksum;

pub use segments::{HEADERS, MOST_SEGMENTS, Segments};

/// Length of a `virtio_net_hdr` without `num_buffers`, in octets.
pub const VIRTIO: usize = 10;
/// Length in octets of the largest packet to be segmented (the maximum of its IP length field), with an Ethernet header
/// and two VLAN tags.
pub const LARGEST: usize = 65_535 + 14 + 8;

/// Values of the header's `flags`.
mod flag {
    pub(super) const NEEDS_CSUM: u8 = 1;
    pub(super) const DATA_VALID: u8 = 2;
}

/// Values of the header's `gso_type`.
mod gso_type {
    pub(super) const NONE: u8 = 0;
    pub(super) const TCPV4: u8 = 1;
    pub(super) const TCPV6: u8 = 4;
    pub(super) const UDP_L4: u8 = 5;
    pub(super) const ECN: u8 = 0x80;
}

/// Kind of segments of a frame (GSO type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gso {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams, each with a header of its own (USO), over IPv4 or IPv6.
    Udp,
}

/// Error: the header requests an invalid or unsupported offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOffload;

impl fmt::Display for BadOffload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the header orders what nobody can do")
    }
}

impl core::error::Error for BadOffload {}

/// Pending offload metadata of a frame; usually empty.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Offload(u64);

/// The lowest bits are the offloads that a receiver must support: the OR of several words has the bits needed for all
/// of them.
const NEEDED: u64 = Offloads::ALL.0 as u64;
const NEEDS_CSUM: u64 = Offloads::CSUM.0 as u64;
const ECN: u64 = Offloads::ECN.0 as u64;
const DATA_VALID: u64 = 1 << 5;
const GSO_SIZE: u32 = 6;
const CSUM_START: u32 = 22;
const CSUM_OFFSET: u32 = 33;
const TRANSPORT: u32 = 41;

/// Number of bits of the word that are used.
pub const BITS: u32 = 47;
/// Maximum value of each field.
const MOST_START: u16 = 0x7ff;
const MOST_OFFSET: u16 = 0xff;
const MOST_TRANSPORT: u16 = 0x3f;

impl Offload {
    /// No pending offload, and no information about the checksum.
    pub const NONE: Self = Self(0);
    /// The transport checksum has been verified, or need not be.
    pub const DATA_VALID: Self = Self(DATA_VALID);

    /// Returns the word.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Creates the metadata from [`Offload::bits`].
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Combines two words into one that needs the offloads of both; all other fields are meaningless.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if there is no information at all.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns true if work is needed before a plain wire can carry the frame.
    #[inline(always)]
    pub const fn is_work(self) -> bool {
        self.0 & NEEDED != 0
    }

    /// Creates metadata for a missing checksum: that of the octets from `start` to the end of the packet, to be stored
    /// at `start` + `offset`, where the sum of the pseudo header is already. `None` if they are out of bounds: `start`
    /// is at most 2047, `offset` 255.
    pub const fn checksum(start: u16, offset: u16) -> Option<Self> {
        if start > MOST_START || offset > MOST_OFFSET {
            return None;
        }
        Some(Self(NEEDS_CSUM | (start as u64) << CSUM_START | (offset as u64) << CSUM_OFFSET))
    }

    /// Returns a copy for a frame that is to be segmented, with at most `size` octets of payload in each segment.
    /// `headers`: length of all headers in octets.
    #[must_use]
    pub const fn with_gso(self, gso: Gso, size: u16, headers: u16) -> Self {
        let kind = match gso {
            Gso::Tcp4 => Offloads::TSO4,
            Gso::Tcp6 => Offloads::TSO6,
            Gso::Udp => Offloads::USO,
        };
        let kept =
            self.0 & (NEEDS_CSUM | (MOST_START as u64) << CSUM_START | (MOST_OFFSET as u64) << CSUM_OFFSET);
        Self(kept | kind.0 as u64 | (size as u64) << GSO_SIZE).with_headers(headers)
    }

    /// Returns a copy with this length of all headers, if it can be represented.
    const fn with_headers(self, headers: u16) -> Self {
        match headers.checked_sub(self.csum_start()) {
            Some(transport) if transport <= MOST_TRANSPORT => Self(self.0 | (transport as u64) << TRANSPORT),
            _ => self,
        }
    }

    /// Returns a copy that requires that only the first TCP segment has CWR (RFC 3168).
    #[must_use]
    pub const fn with_ecn(self) -> Self {
        Self(self.0 | ECN)
    }

    /// Returns true if a checksum is missing.
    #[inline(always)]
    pub const fn needs_csum(self) -> bool {
        self.0 & NEEDS_CSUM != 0
    }

    /// Returns true if the checksum was verified.
    #[inline(always)]
    pub const fn data_valid(self) -> bool {
        self.0 & DATA_VALID != 0
    }

    /// Returns the kind of segments, if the frame is to be segmented.
    #[inline(always)]
    pub const fn gso(self) -> Option<Gso> {
        let needed = self.needed();
        if needed.has(Offloads::TSO4) {
            Some(Gso::Tcp4)
        } else if needed.has(Offloads::TSO6) {
            Some(Gso::Tcp6)
        } else if needed.has(Offloads::USO) {
            Some(Gso::Udp)
        } else {
            None
        }
    }

    /// Returns true if CWR must be set in the first segment only.
    pub const fn ecn(self) -> bool {
        self.0 & ECN != 0
    }

    /// Returns the length of the payload in each segment but the last, in octets.
    #[inline(always)]
    pub const fn gso_size(self) -> u16 {
        (self.0 >> GSO_SIZE) as u16
    }

    /// Returns the offset from the start of the frame at which the checksum's range begins.
    #[inline(always)]
    pub const fn csum_start(self) -> u16 {
        (self.0 >> CSUM_START) as u16 & MOST_START
    }

    /// Returns the offset of the checksum field from there.
    #[inline(always)]
    pub const fn csum_offset(self) -> u16 {
        (self.0 >> CSUM_OFFSET) as u16 & MOST_OFFSET
    }

    /// Returns the length of all headers in octets: a hint, 0 if it is not known.
    pub const fn hdr_len(self) -> u16 {
        match (self.0 >> TRANSPORT) as u16 {
            0 => 0,
            transport => self.csum_start() + transport,
        }
    }

    /// Returns a copy for a frame that became `octets` longer, or shorter, before its network header, such as by a VLAN
    /// tag. `None` if that cannot be represented.
    pub const fn moved(self, octets: i16) -> Option<Self> {
        if !self.needs_csum() {
            return Some(self);
        }
        match self.csum_start().checked_add_signed(octets) {
            Some(start) if start <= MOST_START => {
                Some(Self(self.0 & !((MOST_START as u64) << CSUM_START) | (start as u64) << CSUM_START))
            }
            _ => None,
        }
    }

    /// Returns true if the checksum field lies in a frame of `len` octets.
    #[inline]
    pub const fn fits(self, len: usize) -> bool {
        !self.needs_csum() || self.csum_start() as usize + self.csum_offset() as usize + 2 <= len
    }

    /// Fills in the checksum of a frame; returns false, and does nothing, if it does not lie in the frame.
    pub fn complete(self, frame: &mut [u8]) -> bool {
        if !self.needs_csum() {
            return true;
        }
        let start = usize::from(self.csum_start());
        let Some(packet) = frame.get_mut(start..) else { return false };
        let sum = match checksum::of(packet) {
            // In UDP a zero means that there is no checksum (RFC 768); elsewhere both representations are equivalent.
            0 => 0xffff,
            sum => sum,
        };
        let place = packet.get_mut(usize::from(self.csum_offset())..).and_then(<[u8]>::first_chunk_mut);
        place.is_some_and(|place| {
            *place = sum.to_be_bytes();
            true
        })
    }

    /// Decodes the first ten octets of a `virtio_net_hdr`. Ignores unknown flags (virtio 1.2, section 5.1.6.2.2).
    ///
    /// # Errors
    /// If it requests segmentation of an unsupported or inconsistent kind: UFO, no size, no checksum.
    #[inline]
    pub const fn from_virtio(header: [u8; VIRTIO]) -> Result<Self, BadOffload> {
        let word = u64::from_le_bytes([
            header[0], header[1], header[2], header[3], header[4], header[5], header[6], header[7],
        ]);
        if word as u16 & 0xff00 == 0 && word as u8 & flag::NEEDS_CSUM == 0 {
            // No work: the remaining fields are meaningless then.
            return Ok(if word as u8 & flag::DATA_VALID != 0 { Self::DATA_VALID } else { Self::NONE });
        }
        Self::parse(word, u16::from_le_bytes([header[8], header[9]]))
    }

    #[inline(never)]
    const fn parse(word: u64, csum_offset: u16) -> Result<Self, BadOffload> {
        let (flags, kind) = (word as u8, (word >> 8) as u8);
        let (hdr_len, gso_size, csum_start) = ((word >> 16) as u16, (word >> 32) as u16, (word >> 48) as u16);
        if flags & flag::NEEDS_CSUM == 0 {
            return Err(BadOffload);
        }
        let Some(checksum) = Self::checksum(csum_start, csum_offset) else { return Err(BadOffload) };
        let gso = match kind & !gso_type::ECN {
            gso_type::NONE if kind == gso_type::NONE => {
                return Ok(checksum.with_headers(hdr_len));
            }
            gso_type::TCPV4 => Gso::Tcp4,
            gso_type::TCPV6 => Gso::Tcp6,
            gso_type::UDP_L4 if kind == gso_type::UDP_L4 => Gso::Udp,
            _ => return Err(BadOffload),
        };
        if gso_size == 0 {
            return Err(BadOffload);
        }
        let word = checksum.with_gso(gso, gso_size, hdr_len);
        Ok(if kind & gso_type::ECN != 0 { word.with_ecn() } else { word })
    }

    /// Encodes the first ten octets of a `virtio_net_hdr`.
    #[inline]
    pub const fn to_virtio(self) -> [u8; VIRTIO] {
        if !self.needs_csum() {
            let flags = if self.data_valid() { flag::DATA_VALID } else { 0 };
            return [flags, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        }
        let kind = match self.gso() {
            None => gso_type::NONE,
            Some(Gso::Tcp4) => gso_type::TCPV4,
            Some(Gso::Tcp6) => gso_type::TCPV6,
            Some(Gso::Udp) => gso_type::UDP_L4,
        };
        let kind = if self.ecn() { kind | gso_type::ECN } else { kind };
        let [hdr_len, gso_size, start, offset] = [
            self.hdr_len().to_le_bytes(),
            self.gso_size().to_le_bytes(),
            self.csum_start().to_le_bytes(),
            self.csum_offset().to_le_bytes(),
        ];
        [
            flag::NEEDS_CSUM,
            kind,
            hdr_len[0],
            hdr_len[1],
            gso_size[0],
            gso_size[1],
            start[0],
            start[1],
            offset[0],
            offset[1],
        ]
    }

    /// Returns the offloads that a receiver must support to take the frame unchanged.
    #[inline(always)]
    pub const fn needed(self) -> Offloads {
        Offloads((self.0 & NEEDED) as u8)
    }
}

impl fmt::Debug for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.needs_csum() {
            return f.write_str(if self.data_valid() { "data_valid" } else { "none" });
        }
        write!(f, "checksum at {} + {}", self.csum_start(), self.csum_offset())?;
        match self.gso() {
            None => Ok(()),
            Some(gso) => {
                let ecn = if self.ecn() { " with ECN" } else { "" };
                write!(f, ", {gso:?}{ecn} of {} behind {}", self.gso_size(), self.hdr_len())
            }
        }
    }
}

/// A set of offloads that frames may leave to a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offloads(u8);

impl Offloads {
    /// The empty set: each frame must be ready for a plain wire.
    pub const NONE: Self = Self(0);
    /// Filling in checksums.
    pub const CSUM: Self = Self(1);
    /// Segmentation of TCP over IPv4.
    pub const TSO4: Self = Self(1 << 1);
    /// Segmentation of TCP over IPv6.
    pub const TSO6: Self = Self(1 << 2);
    /// Segmentation of UDP, over IPv4 or IPv6.
    pub const USO: Self = Self(1 << 3);
    /// Segmentation of TCP that has CWR in its first segment.
    pub const ECN: Self = Self(1 << 4);
    /// All offloads.
    pub const ALL: Self = Self(0x1f);

    /// Returns the set as a number.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Creates a set from [`Offloads::bits`]; ignores undefined bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Returns true if all of `others` are in the set.
    #[inline(always)]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns true if the set is empty.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the set without `others`.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns true if any kind of segmentation is in the set.
    #[inline(always)]
    pub const fn segments(self) -> bool {
        self.0 & (Self::TSO4.0 | Self::TSO6.0 | Self::USO.0) != 0
    }

    /// Returns the set without members that require absent ones: segmentation needs checksums, and ECN a kind of TCP.
    #[must_use]
    pub const fn consistent(self) -> Self {
        if !self.has(Self::CSUM) {
            return Self::NONE;
        }
        let tcp = self.0 & (Self::TSO4.0 | Self::TSO6.0) != 0;
        if tcp { self } else { Self(self.0 & !Self::ECN.0) }
    }
}

impl BitOr for Offloads {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Offloads {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Offloads {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0 & Self::ALL.0)
    }
}

#[cfg(test)]
mod tests;
