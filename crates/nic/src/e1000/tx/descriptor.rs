//! What a transmit descriptor says (82540EM manual, "Transmit Descriptor Ring Structure" and what follows it).
//!
//! ```text
//!            63     48 47   40 39 36 35 32 31   24 23   20 19 16 15        0
//! legacy     | special |  CSS  |     | STA |  CMD  |    CSO     |  length  |
//! context    |   MSS   |HDRLEN |     | STA | TUCMD | DTYP 0 |   PAYLEN     |
//! data       | special | POPTS |     | STA | DCMD  | DTYP 1 |   DTALEN     |
//! ```
//!
//! The word before it is the buffer's address; in a context descriptor it holds the places of two checksums. The bits
//! of the three commands lie at the same places wherever they mean the same.
//!
//! IFCS is not looked at: no frame here has an FCS, and none is ever asked for.

/// The last descriptor of a packet.
const EOP: u64 = 1 << 24;
/// Legacy: insert a checksum.
const IC: u64 = 1 << 26;
/// Data and context: segmentation.
const TSE: u64 = 1 << 26;
/// Report status: DD is to be written back.
const RS: u64 = 1 << 27;
/// Not a legacy descriptor.
const DEXT: u64 = 1 << 29;
/// Insert a VLAN tag.
const VLE: u64 = 1 << 30;
/// The interrupt of this descriptor may be delayed.
const IDE: u64 = 1 << 31;
/// DTYP, and its values.
const DTYP: u64 = 0xf << 20;
const DTYP_CONTEXT: u64 = 0;
const DTYP_DATA: u64 = 1 << 20;
/// POPTS of a data descriptor: insert the IP checksum, insert the TCP or UDP checksum.
const IXSM: u64 = 1 << 40;
const TXSM: u64 = 1 << 41;
/// Status: the descriptor is done.
const DD: u64 = 1 << 32;

/// A descriptor as it was read, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) word: u64,
}

/// Which of the formats it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Legacy,
    Context,
    Data,
    /// A DTYP that means nothing: no data, but its status can be asked for.
    Reserved,
}

/// Where a checksum goes that a legacy descriptor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LegacySum {
    /// CSS: first octet under it.
    pub(super) start: u8,
    /// CSO: where it is stored.
    pub(super) at: u8,
}

impl Descriptor {
    /// Whether it is a whole frame that leaves as it lies: one buffer, nothing to insert.
    #[inline(always)]
    pub(super) const fn is_plain(self) -> bool {
        let legacy = self.word & (EOP | DEXT | IC | VLE) == EOP;
        let data = self.word & (EOP | DEXT | TSE | VLE | DTYP | IXSM | TXSM) == EOP | DEXT | DTYP_DATA;
        legacy | data
    }

    /// Octets of its buffer, if it has data: 20 bits in a data descriptor, 16 in a legacy one.
    #[inline(always)]
    pub(super) const fn len(self) -> u32 {
        let mask = if self.word & DEXT == 0 { 0xffff } else { 0xf_ffff };
        (self.word & mask) as u32
    }

    pub(super) const fn kind(self) -> Kind {
        match (self.word & DEXT, self.word & DTYP) {
            (0, _) => Kind::Legacy,
            (_, DTYP_CONTEXT) => Kind::Context,
            (_, DTYP_DATA) => Kind::Data,
            _ => Kind::Reserved,
        }
    }

    pub(super) const fn ends_packet(self) -> bool {
        self.word & EOP != 0
    }

    /// Whether its status is to be written back.
    #[inline(always)]
    pub(super) const fn reports(self) -> bool {
        self.word & RS != 0
    }

    /// Whether the interrupt for its status may be delayed.
    #[inline(always)]
    pub(super) const fn delays(self) -> bool {
        self.word & IDE != 0
    }

    /// The second word as it is written back.
    #[inline(always)]
    pub(super) const fn done(self) -> u64 {
        self.word | DD
    }

    pub(super) const fn segments(self) -> bool {
        self.word & TSE != 0
    }

    pub(super) const fn inserts_ip_sum(self) -> bool {
        self.word & IXSM != 0
    }

    pub(super) const fn inserts_transport_sum(self) -> bool {
        self.word & TXSM != 0
    }

    /// The tag that it asks for (the octets behind the EtherType).
    pub(super) const fn tag(self) -> Option<u16> {
        if self.word & VLE != 0 { Some((self.word >> 48) as u16) } else { None }
    }

    /// The checksum that a legacy descriptor asks for.
    pub(super) const fn legacy_sum(self) -> Option<LegacySum> {
        if self.word & IC == 0 {
            return None;
        }
        Some(LegacySum { start: (self.word >> 40) as u8, at: (self.word >> 16) as u8 })
    }
}

#[cfg(test)]
mod tests;
