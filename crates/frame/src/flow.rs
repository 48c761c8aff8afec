//! Hash of a packet's flow, by which one of several next hops is chosen: the packets of a flow stay in order.
//!
//! A flow is defined as for RSS: by the addresses and the protocol, and by the ports if the protocol has ports and the packet
//! is not a fragment. Of an IPv6 packet with extension headers or of another protocol the flow label counts instead of ports
//! (RFC 6438).

use crate::{Mac, ethernet, ipv4, ipv6};

/// Octets of a frame that are looked at; those behind a shorter frame do not matter.
pub const LOOK: usize = 64;
/// Protocol number of SCTP, whose header begins with two ports as well.
const SCTP: u8 = 132;
/// Offset in a frame of the IP header.
const AT: usize = ethernet::HEADER;
/// Bits "more fragments" and the fragment offset of an IPv4 header.
const FRAGMENT: u16 = 0x3fff;
/// Odd multipliers with half of their bits set, in no regular pattern.
const MULTIPLIERS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0xd6e8_feb8_6659_fd93];
const _: () = assert!(AT + ipv6::HEADER + 4 <= LOOK);

/// Returns the hash of the flow of an untagged IPv4 or IPv6 frame that begins with these octets. Routers with different seeds
/// choose independently of each other.
#[inline]
pub fn hash(head: &[u8; LOOK], seed: u64) -> u32 {
    if u16::from_be_bytes([head[12], head[13]]) == ethernet::IPV6 {
        hash6(head, seed)
    } else {
        hash4(head, seed)
    }
}

/// Returns a hash of the flow of an untagged IPv4 or IPv6 frame that begins with these octets, which is the same for both directions;
/// 0 for any other frame.
#[inline]
pub fn symmetric(head: &[u8; LOOK]) -> u32 {
    match u16::from_be_bytes([head[12], head[13]]) {
        ethernet::IPV4 => symmetric4(head),
        ethernet::IPV6 => symmetric6(head),
        _ => 0,
    }
}

#[inline]
fn symmetric4(head: &[u8; LOOK]) -> u32 {
    let protocol = head[AT + 9];
    let whole = u16::from_be_bytes([head[AT + 6], head[AT + 7]]) & FRAGMENT == 0;
    let ports = if whole { ports(head, protocol, AT + usize::from(head[AT] & 15) * 4) } else { 0 };
    let source = word(head, AT + 12) << 16 | ports >> 16;
    let destination = word(head, AT + 16) << 16 | ports & 0xffff;
    mix(u64::from(protocol), source.min(destination), source.max(destination))
}

#[inline]
fn symmetric6(head: &[u8; LOOK]) -> u32 {
    let protocol = head[AT + 6];
    let ports = ports(head, protocol, AT + ipv6::HEADER);
    let end = |at: usize, port: u64| {
        let network = long(head, at).wrapping_mul(MULTIPLIERS[2]);
        network ^ network >> 32 ^ long(head, at + 8) ^ port.wrapping_mul(MULTIPLIERS[0])
    };
    let (source, destination) = (end(AT + 8, ports >> 16), end(AT + 24, ports & 0xffff));
    mix(u64::from(protocol), source.min(destination), source.max(destination))
}

/// Returns the seed of a router whose interfaces have these addresses, in the order of their numbers.
pub fn seed(interfaces: impl IntoIterator<Item = Mac>) -> u64 {
    let bits = |mac: Mac| mac.0.iter().fold(0, |bits, octet| bits << 8 | u64::from(*octet));
    interfaces.into_iter().zip(7_u32..).fold(1, |seed, (mac, turn)| seed ^ bits(mac).rotate_left(turn))
}

#[inline]
fn hash4(head: &[u8; LOOK], seed: u64) -> u32 {
    let protocol = head[AT + 9];
    let whole = u16::from_be_bytes([head[AT + 6], head[AT + 7]]) & FRAGMENT == 0;
    let ports = if whole { ports(head, protocol, AT + usize::from(head[AT] & 15) * 4) } else { 0 };
    mix(seed, word(head, AT + 12) << 32 | word(head, AT + 16), ports << 8 | u64::from(protocol))
}

#[inline]
fn hash6(head: &[u8; LOOK], seed: u64) -> u32 {
    let protocol = head[AT + 6];
    let ports = match ports(head, protocol, AT + ipv6::HEADER) {
        0 => word(head, AT) & 0xf_ffff,
        ports => ports,
    };
    let source = long(head, AT + 8).rotate_left(17) ^ long(head, AT + 16);
    let destination = long(head, AT + 24).rotate_left(31) ^ long(head, AT + 32);
    mix(seed ^ source, destination, ports << 8 | u64::from(protocol))
}

/// Returns the ports of a packet as one number; 0 if its protocol has none, or they lie too far behind options.
#[inline]
fn ports(head: &[u8; LOOK], protocol: u8, at: usize) -> u64 {
    if !matches!(protocol, ipv4::TCP | ipv4::UDP | SCTP) || at + 4 > LOOK {
        return 0;
    }
    word(head, at)
}

/// Reads four octets at `at`, which is at most [`LOOK`] less 4.
#[inline(always)]
fn word(head: &[u8; LOOK], at: usize) -> u64 {
    let at = at.min(LOOK - 4);
    u64::from(u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]))
}

/// Reads eight octets at `at`.
#[inline(always)]
fn long(head: &[u8; LOOK], at: usize) -> u64 {
    word(head, at) << 32 | word(head, at + 4)
}

#[inline(always)]
const fn mix(seed: u64, one: u64, other: u64) -> u32 {
    let first = (seed ^ one).wrapping_mul(MULTIPLIERS[0]);
    let both = ((first ^ first >> 32) ^ other).wrapping_mul(MULTIPLIERS[1]);
    ((both ^ both >> 29).wrapping_mul(MULTIPLIERS[2]) >> 32) as u32
}
