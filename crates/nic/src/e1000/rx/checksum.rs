//! Verification of checksums of received frames (82540EM manual, "Receive Packet Checksum Offloading").
//!
//! If the driver enables it, the device checks the header of an IPv4 packet, and TCP and UDP in IPv4 that is not a
//! fragment and in IPv6 without extension headers. It reports unchecked checksums by IXSM, checked ones by IPCS and
//! TCPCS, wrong ones by IPE and TCPE. A checksum that was verified or filled in on the way is not computed again. The
//! device reads the frame in place, so the report may be wrong if the sender changes the frame meanwhile; only the
//! sender's own frame is affected.

use frame::checksum;
use port::Frame;
use ring::Bytes;
use ring::e1000::{Received, rx};

use super::super::RxSettings;

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Offset of the checksum in a UDP header.
const UDP_SUM: usize = 6;
/// Lengths in octets of the fixed headers.
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// Bits of an IPv4 header that mark a fragment: more fragments follow, or this one is not the first.
const FRAGMENT: u16 = 0x3fff;
/// Octets that are summed at once; even.
const PIECE: usize = 256;

/// A TCP or UDP packet within a frame.
struct Transport {
    at: usize,
    len: usize,
    protocol: u8,
    /// Sum of the pseudo header.
    pseudo: u16,
}

/// Performs the enabled checks; the packet begins at `at`, after its EtherType.
pub(super) fn check(settings: &RxSettings, frame: Frame<'_>, at: usize, received: &mut Received) {
    let (frame, verified) = (frame.octets(), frame.offload().data_valid());
    let wanted = settings.checksum;
    if !wanted.ip && !wanted.transport {
        received.status |= rx::IXSM;
        return;
    }
    received.checksum = sum(frame, wanted.start.into(), frame.len(), 0);
    let transport = match frame.read::<2>(at.wrapping_sub(2)) {
        Some(IPV4) => ipv4(frame, at, wanted.ip, received),
        Some(IPV6) => ipv6(frame, at),
        _ => None,
    };
    if wanted.transport
        && let Some(transport) = transport
    {
        check_transport(frame, &transport, verified, received);
    }
    if received.status & (rx::IPCS | rx::TCPCS) == 0 {
        received.status |= rx::IXSM;
    }
}

/// Checks an IPv4 header if enabled; returns its transport packet.
fn ipv4(frame: Bytes<'_>, at: usize, wanted: bool, received: &mut Received) -> Option<Transport> {
    let header = frame.read::<IPV4_LEN>(at)?;
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < IPV4_LEN || total < header_len || at + total > frame.len() {
        return None;
    }
    if wanted {
        received.status |= rx::IPCS;
        if sum(frame, at, at + header_len, 0) != 0xffff {
            received.errors |= rx::IPE;
            return None;
        }
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]) & FRAGMENT != 0;
    let (protocol, len) = (header[9], total - header_len);
    let pseudo = sum(frame, at + 12, at + IPV4_LEN, pseudo(protocol, len));
    (!fragment).then_some(Transport { at: at + header_len, len, protocol, pseudo })
}

fn ipv6(frame: Bytes<'_>, at: usize) -> Option<Transport> {
    let header = frame.read::<8>(at)?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || at + IPV6_LEN + len > frame.len() {
        return None;
    }
    let protocol = header[6];
    let pseudo = sum(frame, at + 8, at + IPV6_LEN, pseudo(protocol, len));
    Some(Transport { at: at + IPV6_LEN, len, protocol, pseudo })
}

fn check_transport(frame: Bytes<'_>, transport: &Transport, verified: bool, received: &mut Received) {
    let least = match transport.protocol {
        TCP => 20,
        UDP => 8,
        _ => return,
    };
    if transport.len < least {
        return;
    }
    if transport.protocol == UDP && frame.read::<2>(transport.at + UDP_SUM) == Some([0, 0]) {
        // The UDP checksum is 0: none was sent (RFC 768).
        return;
    }
    received.status |= rx::TCPCS;
    let right = || sum(frame, transport.at, transport.at + transport.len, transport.pseudo) == 0xffff;
    if !verified && !right() {
        received.errors |= rx::TCPE;
    }
}

/// Returns the sum of the pseudo header's fields other than the addresses.
fn pseudo(protocol: u8, len: usize) -> u16 {
    checksum::sum(u16::from(protocol), &(len.min(0xffff) as u16).to_be_bytes())
}

/// Returns the ones' complement sum of a frame's octets from `start` to (not including) `end`.
fn sum(frame: Bytes<'_>, start: usize, end: usize, before: u16) -> u16 {
    let end = end.min(frame.len());
    let mut left = frame.take(end as u32).skip(start.min(end) as u32);
    let (mut total, mut piece) = (before, [0; PIECE]);
    while !left.is_empty() {
        let copied = left.copy_to_slice(&mut piece);
        left = left.skip(copied as u32);
        total = checksum::sum(total, piece.get(..copied).unwrap_or(&[]));
    }
    total
}
