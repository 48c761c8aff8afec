//! Layout and decoding of the records that the programs write for traced packets.
//!
//! ```text
//!   octets:  0 arrived | 8 ended | 16 number | 20 NIC | 24 state | 28 detail | 32 length | 40 head, 64 octets | 104 tail, 32 octets
//! ```
//!
//! Times are nanoseconds of CLOCK_MONOTONIC. The detail is the NIC by which the packet left, or its drop reason. The tail is the
//! beginning of the frame as it left.

/// Maximum number of packets under way; a power of two.
pub(super) const ROOM: u32 = 256;
pub(super) const ARRIVED: i16 = 0;
pub(super) const ENDED: i16 = 8;
pub(super) const NUMBER: i16 = 16;
pub(super) const NIC: i16 = 20;
pub(super) const STATE: i16 = 24;
pub(super) const DETAIL: i16 = 28;
pub(super) const LEN: i16 = 32;
pub(super) const HEAD: i16 = 40;
pub(super) const HEAD_LEN: usize = 64;
pub(super) const TAIL: i16 = 104;
pub(super) const TAIL_LEN: usize = 32;
/// Octets of a record.
pub(super) const OCTETS: usize = TAIL as usize + TAIL_LEN;

/// Fate of a packet.
pub(super) mod state {
    /// The record is being written.
    pub(in super::super) const NONE: i32 = 0;
    /// It has arrived; its fate is not known yet.
    pub(in super::super) const ARRIVED: i32 = 1;
    /// It left by a NIC.
    pub(in super::super) const LEFT: i32 = 2;
    /// The kernel dropped it.
    pub(in super::super) const DROPPED: i32 = 3;
    /// The kernel freed it without a drop.
    pub(in super::super) const CONSUMED: i32 = 4;
}

/// Fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketFate {
    /// It left by a NIC.
    Left {
        /// Number of the NIC.
        nic: u32,
        /// The first octets of the frame as it left: the next hop's address, and what the router has changed.
        head: Vec<u8>,
        /// Nanoseconds since its arrival.
        after_ns: u64,
    },
    /// The kernel dropped it.
    Dropped {
        /// Drop reason ([`crate::Reasons`]).
        reason: u32,
        /// Nanoseconds since its arrival.
        after_ns: u64,
    },
    /// The router itself consumed it: a process, ARP, or the kernel's echo reply.
    Consumed {
        /// Nanoseconds since its arrival; `None`: the moment was not seen.
        after_ns: Option<u64>,
    },
    /// It was not seen again in time; it may be waiting for neighbour resolution.
    Unseen,
}

/// A traced packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    /// Number in this trace, from 1.
    pub number: u64,
    /// Arrival time: nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Frame length in octets; larger than the MTU allows if the kernel has still to segment it (GRO, TSO).
    pub len: u32,
    /// Number of the NIC at which it arrived.
    pub nic: u32,
    /// The first octets of the frame as it arrived: 64, or all of a shorter frame.
    pub head: Vec<u8>,
    /// Fate of the packet.
    pub end: PacketFate,
}

/// Decodes the record of packet `number`, which counts from 0. `None`: its fate is not known yet.
pub(super) fn read(
    octets: &[u8; OCTETS],
    number: u64,
    now_ns: u64,
    patience_ns: Option<u64>,
) -> Option<TracedPacket> {
    let word = |at: i16| octets.get(at as usize..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets));
    let time = |at: i16| octets.get(at as usize..)?.first_chunk().map(|octets| u64::from_ne_bytes(*octets));
    // The record holds the low 32 bits of the number.
    (word(NUMBER)? == number as u32).then_some(())?;
    let (at_ns, len, detail) = (time(ARRIVED)?, word(LEN)?, word(DETAIL)?);
    let after_ns = time(ENDED)?.saturating_sub(at_ns);
    let head = octets.get(HEAD as usize..)?.get(..HEAD_LEN.min(len as usize))?.to_vec();
    let tail = octets.get(TAIL as usize..)?;
    let end = match word(STATE)?.cast_signed() {
        state::LEFT if is_same(&head, tail) => {
            PacketFate::Left { nic: detail, head: tail.to_vec(), after_ns }
        }
        // The memory was reused for another packet: the traced one was freed without a tracepoint.
        state::LEFT => PacketFate::Consumed { after_ns: None },
        state::DROPPED => PacketFate::Dropped { reason: detail, after_ns },
        state::CONSUMED => PacketFate::Consumed { after_ns: Some(after_ns) },
        state::ARRIVED if patience_ns.is_none_or(|patience| now_ns.saturating_sub(at_ns) > patience) => {
            PacketFate::Unseen
        }
        _ => return None,
    };
    Some(TracedPacket { number: number + 1, at_ns, len, nic: word(NIC)?, head, end })
}

/// Returns true if a departing frame carries the packet that arrived: one of the same ethertype, with the same octets that a router does
/// not change.
fn is_same(came: &[u8], left: &[u8]) -> bool {
    came.get(12..14) == left.get(12..14) && lasting(came) == lasting(left)
}

/// The octets of a frame that a router does not change, as far as the tail has them: of IPv4 identification, protocol and addresses; of
/// IPv6 the end of the flow label, the protocol, and the source.
fn lasting(frame: &[u8]) -> Option<Vec<u8>> {
    let places: &[(usize, usize)] = match frame.get(12..14)? {
        [8, 0] => &[(18, 20), (23, 24), (26, TAIL_LEN)],
        [0x86, 0xdd] => &[(16, 18), (20, 21), (22, TAIL_LEN)],
        _ => &[],
    };
    let parts: Option<Vec<&[u8]>> = places.iter().map(|(from, to)| frame.get(*from..*to)).collect();
    parts.map(|parts| parts.concat())
}
