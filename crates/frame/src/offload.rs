//! What a frame leaves for the next one to do: a checksum to be filled in, segments to be cut.
//!
//! The word goes with the frame from port to port, and says what `struct virtio_net_hdr` says (virtio 1.2, section
//! 5.1.6; the same ten octets before each frame of a TAP with IFF_VNET_HDR), in [`BITS`] bits, so that it fits beside the
//! length of a frame:
//!
//! ```text
//!   46     41 40       33 32        22 21      6     5        4     3     2     1      0
//!  +---------+-----------+------------+---------+----------+-----+-----+------+------+------+
//!  |transport|csum_offset| csum_start | gso_size|data_valid| ECN | USO | TSO6 | TSO4 | CSUM |
//!  +---------+-----------+------------+---------+----------+-----+-----+------+------+------+
//!                                                           \________ Offloads ___________/
//! ```
//!
//! `transport`: octets of the transport header, 0 where they are not known; `hdr_len` is that behind `csum_start`.

mod segments;

use core::fmt;
use core::ops::{BitAnd, BitOr, Not};

use crate::checksum;

pub use segments::{HEADERS, MOST_SEGMENTS, Segments};

/// Octets of the part of a `virtio_net_hdr` that says it, without `num_buffers`.
pub const VIRTIO: usize = 10;
/// Octets of the largest packet that is to be segmented (its IP length field ends there), with an Ethernet header and
/// two VLAN tags.
pub const LARGEST: usize = 65_535 + 14 + 8;

/// `flags` of the header.
mod flag {
    pub(super) const NEEDS_CSUM: u8 = 1;
    pub(super) const DATA_VALID: u8 = 2;
}

/// `gso_type` of the header.
mod gso_type {
    pub(super) const NONE: u8 = 0;
    pub(super) const TCPV4: u8 = 1;
    pub(super) const TCPV6: u8 = 4;
    pub(super) const UDP_L4: u8 = 5;
    pub(super) const ECN: u8 = 0x80;
}

/// What the segments of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gso {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams, each with a header of its own (USO), over either.
    Udp,
}

/// Why ten octets are not an order that can be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOffload;

impl fmt::Display for BadOffload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the header orders what nobody can do")
    }
}

impl core::error::Error for BadOffload {}

/// What a frame leaves to be done; nothing, as a rule.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Offload(u64);

/// The lowest bits say what somebody must be able to do: of several words, their OR says it for all.
const NEEDED: u64 = Offloads::ALL.0 as u64;
const NEEDS_CSUM: u64 = Offloads::CSUM.0 as u64;
const ECN: u64 = Offloads::ECN.0 as u64;
const DATA_VALID: u64 = 1 << 5;
const GSO_SIZE: u32 = 6;
const CSUM_START: u32 = 22;
const CSUM_OFFSET: u32 = 33;
const TRANSPORT: u32 = 41;

/// Bits of the word that are used.
pub const BITS: u32 = 47;
/// Most that each of its parts has room for.
const MOST_START: u16 = 0x7ff;
const MOST_OFFSET: u16 = 0xff;
const MOST_TRANSPORT: u16 = 0x3f;

impl Offload {
    /// Nothing is left to be done, and nothing is known of the checksum.
    pub const NONE: Self = Self(0);
    /// The transport checksum has been verified, or need not be.
    pub const DATA_VALID: Self = Self(DATA_VALID);

    /// The word.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// From [`Offload::bits`].
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A word that needs all that both do; nothing else is to be read from it.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether nothing is said at all.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether there is something to do before a plain wire can have the frame.
    #[inline(always)]
    pub const fn is_work(self) -> bool {
        self.0 & NEEDED != 0
    }

    /// A checksum is to be filled in: that of the octets from `start` to the end of the packet, at `start` + `offset`,
    /// where the sum of the pseudo header stands already. None if they are out of bounds: `start` is at most 2047, `offset`
    /// 255.
    pub const fn checksum(start: u16, offset: u16) -> Option<Self> {
        if start > MOST_START || offset > MOST_OFFSET {
            return None;
        }
        Some(Self(NEEDS_CSUM | (start as u64) << CSUM_START | (offset as u64) << CSUM_OFFSET))
    }

    /// A copy that says that the frame is to be cut into segments with at most `size` octets of payload each. `headers`: octets
    /// of all headers.
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

    /// A copy that says so many octets of headers, as far as that can be.
    const fn with_headers(self, headers: u16) -> Self {
        match headers.checked_sub(self.csum_start()) {
            Some(transport) if transport <= MOST_TRANSPORT => Self(self.0 | (transport as u64) << TRANSPORT),
            _ => self,
        }
    }

    /// A copy that says that of the TCP segments only the first one has CWR (RFC 3168).
    #[must_use]
    pub const fn with_ecn(self) -> Self {
        Self(self.0 | ECN)
    }

    /// Whether a checksum is to be filled in.
    #[inline(always)]
    pub const fn needs_csum(self) -> bool {
        self.0 & NEEDS_CSUM != 0
    }

    /// Whether the checksum was verified.
    #[inline(always)]
    pub const fn data_valid(self) -> bool {
        self.0 & DATA_VALID != 0
    }

    /// What the segments are, if there are any.
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

    /// Whether the segments are CWR's business.
    pub const fn ecn(self) -> bool {
        self.0 & ECN != 0
    }

    /// Octets of payload in each segment but the last.
    #[inline(always)]
    pub const fn gso_size(self) -> u16 {
        (self.0 >> GSO_SIZE) as u16
    }

    /// Where the octets under the checksum begin, from the start of the frame.
    #[inline(always)]
    pub const fn csum_start(self) -> u16 {
        (self.0 >> CSUM_START) as u16 & MOST_START
    }

    /// Where the checksum is, from there on.
    #[inline(always)]
    pub const fn csum_offset(self) -> u16 {
        (self.0 >> CSUM_OFFSET) as u16 & MOST_OFFSET
    }

    /// Octets of all headers: a hint, 0 where it is not known.
    pub const fn hdr_len(self) -> u16 {
        match (self.0 >> TRANSPORT) as u16 {
            0 => 0,
            transport => self.csum_start() + transport,
        }
    }

    /// A copy for a frame that became so many octets longer, or shorter, before its network header: a VLAN tag. None
    /// if that cannot be.
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

    /// Whether the checksum lies in a frame of `len` octets.
    #[inline]
    pub const fn fits(self, len: usize) -> bool {
        !self.needs_csum() || self.csum_start() as usize + self.csum_offset() as usize + 2 <= len
    }

    /// Fills the checksum of a frame in; false, and nothing is done, if it does not lie in the frame.
    pub fn complete(self, frame: &mut [u8]) -> bool {
        if !self.needs_csum() {
            return true;
        }
        let start = usize::from(self.csum_start());
        let Some(packet) = frame.get_mut(start..) else { return false };
        let sum = match checksum::of(packet) {
            // In UDP a zero says that there is no checksum (RFC 768); elsewhere the two are equal.
            0 => 0xffff,
            sum => sum,
        };
        let place = packet.get_mut(usize::from(self.csum_offset())..).and_then(<[u8]>::first_chunk_mut);
        place.is_some_and(|place| {
            *place = sum.to_be_bytes();
            true
        })
    }

    /// What the first ten octets of a `virtio_net_hdr` say. Flags that are not known are not looked at (virtio 1.2,
    /// section 5.1.6.2.2).
    ///
    /// # Errors
    /// If segments are ordered of a kind or in a way that is not known: UFO, no size, no checksum.
    #[inline]
    pub const fn from_virtio(header: [u8; VIRTIO]) -> Result<Self, BadOffload> {
        let word = u64::from_le_bytes([
            header[0], header[1], header[2], header[3], header[4], header[5], header[6], header[7],
        ]);
        if word as u16 & 0xff00 == 0 && word as u8 & flag::NEEDS_CSUM == 0 {
            // Nothing to do: the rest has no meaning then.
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

    /// The first ten octets of a `virtio_net_hdr` that says the same.
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

    /// What somebody must be able to do, to take the frame as it is.
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

/// What frames may leave to somebody: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offloads(u8);

impl Offloads {
    /// Nothing: each frame is to be ready for a plain wire.
    pub const NONE: Self = Self(0);
    /// Checksums to be filled in.
    pub const CSUM: Self = Self(1);
    /// TCP over IPv4 to be segmented.
    pub const TSO4: Self = Self(1 << 1);
    /// TCP over IPv6 to be segmented.
    pub const TSO6: Self = Self(1 << 2);
    /// UDP to be segmented, over either.
    pub const USO: Self = Self(1 << 3);
    /// TCP to be segmented that has CWR in its first segment.
    pub const ECN: Self = Self(1 << 4);
    /// Everything.
    pub const ALL: Self = Self(0x1f);

    /// The set as a number, for who keeps it.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From [`Offloads::bits`]; bits without a meaning are left out.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Whether all of `others` are in the set.
    #[inline(always)]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether nothing is in the set.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The set without `others`.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether any kind of segments is in the set.
    #[inline(always)]
    pub const fn segments(self) -> bool {
        self.0 & (Self::TSO4.0 | Self::TSO6.0 | Self::USO.0) != 0
    }

    /// Without what makes no sense alone: segments need checksums, and ECN a kind of TCP.
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
