//! Selection of one of several queues for a frame: by a hash of its flow, so that the frames of a flow stay in order.
//!
//! A flow is defined as for RSS: by the addresses and the protocol of a packet, and by the ports if the protocol has ports
//! and the packet is not a fragment. Fragments are selected by their addresses alone, because only the first one has the
//! ports; so are IPv6 packets with extension headers. VLAN tags are skipped. Frames that are neither IPv4 nor IPv6 go to
//! queue 0.
//!
//! A burst is read once and distributed by counting: the cost of a frame does not grow with the number of queues.

use ring::{BURST, Bytes};

use crate::boundary::Frame;

/// Maximum number of queues that frames can be spread over.
pub const MOST: usize = 64;

/// Frames that must stay together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hash {
    /// The frames of a flow.
    #[default]
    Flow,
    /// The frames of a flow and those of the opposite direction.
    Symmetric,
}

/// Ethertypes that are followed by another one four octets later: 802.1Q and 802.1ad.
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
/// Maximum number of tags that are skipped.
const MOST_TAGS: usize = 2;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Length of an IPv6 header in octets.
const HEADER6: usize = 40;
/// Offset in an Ethernet frame of its ethertype, or its first tag.
const ETHERTYPE: usize = 12;
/// Bits "more fragments" and the fragment offset.
const FRAGMENT: u16 = 0x3fff;
/// Protocols whose header begins with two ports: TCP, UDP, SCTP.
const PORTED: [u8; 3] = [6, 17, 132];

/// Odd multipliers with half of their bits set, in no regular pattern.
pub const MULTIPLIERS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0xd6e8_feb8_6659_fd93];

/// The two ends of a flow, each an address and a port with the protocol.
#[derive(Clone, Copy, Default)]
struct FlowEndpoints(u64, u64);

impl FlowEndpoints {
    /// Reads the ends of a frame's flow; `None` if it is neither IPv4 nor IPv6.
    #[inline(always)]
    fn of(octets: Bytes<'_>) -> Option<Self> {
        // Usually there are neither tags nor options: all fields are at fixed offsets.
        if let Some(head) = octets.read::<26>(ETHERTYPE)
            && let [8, 0, 0x45, _, _, _, _, _, f0, f1, _, protocol, _, _, addresses @ .., a, b, c, d] = head
        {
            return Some(Self::new((f0, f1), protocol, addresses, [a, b, c, d]));
        }
        if octets.read::<2>(ETHERTYPE) == Some(IPV6) {
            return Self::six(octets, ETHERTYPE + 2);
        }
        Self::search(octets)
    }

    /// Reads the ends of a flow behind tags and options, and those of packets without ports.
    #[cold]
    fn search(octets: Bytes<'_>) -> Option<Self> {
        match network_header(octets)? {
            (IPV4, ip) => Self::four(octets, ip),
            (IPV6, ip) => Self::six(octets, ip),
            _ => None,
        }
    }

    /// Reads the ends of the flow of an IPv4 packet, whose header is at `ip`.
    fn four(octets: Bytes<'_>, ip: usize) -> Option<Self> {
        let [version, _, _, _, _, _, f0, f1] = octets.read(ip)?;
        let [_, protocol, _, _, addresses @ ..] = octets.read::<12>(ip + 8)?;
        if !(0x45..=0x4f).contains(&version) {
            return None;
        }
        let ports = octets.read(ip + usize::from(version & 15) * 4).unwrap_or_default();
        Some(Self::new((f0, f1), protocol, addresses, ports))
    }

    /// Reads the ends of the flow of an IPv6 packet, whose header is at `ip`.
    #[inline(always)]
    fn six(octets: Bytes<'_>, ip: usize) -> Option<Self> {
        let [version, _, _, _, _, _, protocol] = octets.read(ip)?;
        let (source, destination) = (octets.read(ip + 8)?, octets.read(ip + 24)?);
        if version >> 4 != 6 {
            return None;
        }
        let has_ports = PORTED.contains(&protocol);
        let ports = if has_ports { octets.read(ip + HEADER6).unwrap_or_default() } else { [0; 4] };
        let [s0, s1, d0, d1] = ports;
        Some(Self(end6(source, [s0, s1], protocol), end6(destination, [d0, d1], protocol)))
    }

    #[inline(always)]
    fn new(fragment: (u8, u8), protocol: u8, addresses: [u8; 8], ports: [u8; 4]) -> Self {
        let whole = u16::from_be_bytes([fragment.0, fragment.1]) & FRAGMENT == 0;
        let ports = if whole && PORTED.contains(&protocol) { ports } else { [0; 4] };
        let [s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
        let end = |address, port| {
            u64::from(u32::from_be_bytes(address)) << 16 | u64::from(u16::from_be_bytes(port))
        };
        let source = end([s0, s1, s2, s3], [ports[0], ports[1]]);
        let destination = end([d0, d1, d2, d3], [ports[2], ports[3]]);
        Self(source, destination).with_protocol(protocol)
    }

    #[inline(always)]
    const fn with_protocol(self, protocol: u8) -> Self {
        Self(self.0 | (protocol as u64) << 48, self.1 | (protocol as u64) << 48)
    }

    /// Returns the ends in an order that is equal for both directions.
    #[inline(always)]
    fn sorted(self) -> Self {
        Self(self.0.min(self.1), self.0.max(self.1))
    }

    /// Returns a 32-bit hash.
    #[inline(always)]
    const fn hash(self) -> u32 {
        let first = self.0.wrapping_mul(MULTIPLIERS[0]);
        let both = ((first ^ first >> 32) ^ self.1).wrapping_mul(MULTIPLIERS[1]);
        ((both ^ both >> 29).wrapping_mul(MULTIPLIERS[2]) >> 32) as u32
    }
}

/// Returns one end of an IPv6 flow: an address and a port with the protocol, in 64 bits.
#[inline(always)]
fn end6(address: [u8; 16], port: [u8; 2], protocol: u8) -> u64 {
    let address = u128::from_be_bytes(address);
    let network = ((address >> 64) as u64).wrapping_mul(MULTIPLIERS[2]);
    let rest = u64::from(protocol) << 16 | u64::from(u16::from_be_bytes(port));
    network ^ network >> 32 ^ address as u64 ^ rest.wrapping_mul(MULTIPLIERS[0])
}

/// Returns the ethertype behind Ethernet addresses and tags, and the offset of the header that follows; `None` if there is none.
#[inline(always)]
fn network_header(octets: Bytes<'_>) -> Option<([u8; 2], usize)> {
    let mut at = ETHERTYPE;
    let mut ethertype: [u8; 2] = octets.read(at)?;
    for _ in 0..MOST_TAGS {
        if TAGS.contains(&ethertype) {
            at += 4;
            ethertype = octets.read(at)?;
        }
    }
    Some((ethertype, at + 2))
}

/// Returns the queue of one frame.
#[inline(always)]
fn queue(octets: Bytes<'_>, queues: u64, hash: Hash) -> u8 {
    let Some(ends) = FlowEndpoints::of(octets) else { return 0 };
    let ends = if hash == Hash::Symmetric { ends.sorted() } else { ends };
    // The hash as a fraction of 2^32, times the number of queues.
    ((u64::from(ends.hash()) * queues) >> 32) as u8
}

/// Calls `deliver` with each queue's frames of a burst, in their order. Queues are numbered from 0 to `queues` - 1;
/// there are at most [`MOST`].
#[inline]
pub fn by_flow<'a>(
    frames: &[Frame<'a>],
    queues: usize,
    hash: Hash,
    mut deliver: impl FnMut(usize, &[Frame<'a>]),
) {
    let queues = queues.clamp(1, MOST);
    for burst in frames.chunks(BURST) {
        let mut choices = [0; BURST];
        for (choice, frame) in choices.iter_mut().zip(burst) {
            *choice = queue(frame.octets(), queues as u64, hash);
        }
        deal(burst, &choices, &mut deliver);
    }
}

/// As [`by_flow`], but frames are dealt out one by one, whatever flows they are of: the first one to queue `first`, or as far as
/// that goes round. Frames of a flow may overtake each other then.
pub fn one_by_one<'a>(
    frames: &[Frame<'a>],
    queues: usize,
    first: usize,
    mut deliver: impl FnMut(usize, &[Frame<'a>]),
) {
    let queues = queues.clamp(1, MOST);
    let mut next = first % queues;
    for burst in frames.chunks(BURST) {
        let mut choices = [0; BURST];
        for choice in &mut choices[..burst.len()] {
            *choice = next as u8;
            next = if next + 1 < queues { next + 1 } else { 0 };
        }
        deal(burst, &choices, &mut deliver);
    }
}

/// Buckets that flows are told apart by where who gets a frame is looked up in a table.
pub const BUCKETS: usize = 256;

/// The bucket of a frame's flow. Frames that are neither IPv4 nor IPv6 are in bucket 0.
#[inline]
pub fn bucket(octets: Bytes<'_>, hash: Hash) -> u8 {
    queue(octets, BUCKETS as u64, hash)
}

/// Calls `deliver` with each receiver's frames of a burst, in their order. The burst is one of at most [`BURST`], and `choices` says
/// for each frame who receives it: a number below [`MOST`].
#[inline]
pub fn by_choice<'a>(
    burst: &[Frame<'a>],
    choices: &[u8; BURST],
    mut deliver: impl FnMut(usize, &[Frame<'a>]),
) {
    deal(&burst[..burst.len().min(BURST)], choices, &mut deliver);
}

/// Distributes a burst by counting: counts the frames of each queue, computes where each queue's frames begin, then
/// puts each frame at its place.
#[inline(always)]
fn deal<'a>(burst: &[Frame<'a>], choices: &[u8; BURST], deliver: &mut impl FnMut(usize, &[Frame<'a>])) {
    let Some(first) = burst.first() else { return };
    let place = |choice: u8| usize::from(choice) % MOST;
    let mut counts = [0u8; MOST];
    let mut used = 0u64;
    for choice in &choices[..burst.len()] {
        counts[place(*choice)] += 1;
        used |= 1 << place(*choice);
    }
    if used.is_power_of_two() {
        return deliver(place(choices[0]), burst);
    }
    let (mut begins, mut begin) = ([0u8; MOST], 0);
    each_bit(used, |queue| {
        begins[queue] = begin;
        begin += counts[queue];
    });
    let mut dealt = [*first; BURST];
    for (frame, choice) in burst.iter().zip(choices) {
        let next = &mut begins[place(*choice)];
        dealt[usize::from(*next) % BURST] = *frame;
        *next += 1;
    }
    // Each queue's frames end where the next one's begin.
    let mut begin = 0;
    each_bit(used, |queue| {
        let end = begin + usize::from(counts[queue]);
        deliver(queue, &dealt[begin..end]);
        begin = end;
    });
}

/// Calls `act` with the number of each bit that is set, lowest first.
#[inline(always)]
fn each_bit(mut bits: u64, mut act: impl FnMut(usize)) {
    while bits != 0 {
        act(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests;
