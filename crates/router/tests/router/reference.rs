//! A straightforward reference router that handles one packet at a time. It shares no code with the real one.

use router::{NextHop, Routes};

use crate::world::{ROUTES, ip, own_mac, peer_mac};

/// Expected outcome of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// These frames leave by this NIC: one, or its fragments.
    Leaves(usize, Vec<Vec<u8>>),
    /// It is dropped, or answered.
    Ends,
}

/// Returns the expected outcome of `frame`, which arrived at NIC `nic`.
pub(crate) fn fate(nic: u8, frame: &[u8]) -> Fate {
    checked(nic, frame).unwrap_or(Fate::Ends)
}

fn checked(nic: u8, frame: &[u8]) -> Option<Fate> {
    let ours = frame.get(..6)? == own_mac(nic).0 && frame.get(6)? & 1 == 0;
    if !ours || frame.get(12..14)? != [8, 0] {
        return None;
    }
    let packet = &frame[14..];
    let header_len = usize::from(packet.first()? & 15) * 4;
    let total = usize::from(word(packet, 2)?);
    let valid = packet[0] >> 4 == 4 && header_len >= 20 && total >= header_len && packet.len() >= total;
    if !valid || sum(&packet[..header_len]) != 0xffff {
        return None;
    }
    let long = |at| Some(u32::from(word(packet, at)?) << 16 | u32::from(word(packet, at + 2)?));
    let (source, destination) = (long(12)?, long(16)?);
    let martian = |a: u32| [0, 127].contains(&(a >> 24)) || a >> 24 >= 224;
    if martian(source) || martian(destination) || is_own(source) || packet[8] <= 1 || is_own(destination) {
        return None;
    }
    let (out, gateway) = match ROUTES.next_hop(ROUTES.second(destination)) {
        NextHop::Connected { nic } => (nic, destination),
        NextHop::Gateway { nic, gateway } => (nic, gateway),
        // The IPv6 gateways are the same stations.
        NextHop::Gateway6 { nic, .. } => (nic, ip(10, 0, nic, 2)),
        NextHop::None | NextHop::Local | NextHop::Refused(_) | NextHop::Group => return None,
    };
    if out > 2 || gateway != ip(10, 0, out, 2) {
        return None;
    }
    let mut packet = packet[..total].to_vec();
    packet[8] -= 1;
    let mtu = if out == 2 { 576 } else { 1500 };
    if total <= mtu {
        return Some(Fate::Leaves(usize::from(out), vec![link(out, renew(packet, header_len), frame.len())]));
    }
    if packet[6] & 0x40 != 0 {
        return None;
    }
    Some(Fate::Leaves(usize::from(out), fragments(out, &packet, header_len, mtu)))
}

/// Returns the fragments of a packet whose options, if any, are all zeros: none is copied.
fn fragments(out: u8, packet: &[u8], header_len: usize, mtu: usize) -> Vec<Vec<u8>> {
    let (header, mut payload) = packet.split_at(header_len);
    let mut offset = u16::from_be_bytes([header[6], header[7]]);
    let mut frames = Vec::new();
    let mut header = header.to_vec();
    while !payload.is_empty() {
        let room = (mtu - header.len()) / 8 * 8;
        let (piece, rest) = payload.split_at(room.min(payload.len()));
        let more = if rest.is_empty() { 0 } else { 0x2000 };
        header[0] = 0x40 | (header.len() / 4) as u8;
        let total = (header.len() + piece.len()) as u16;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].copy_from_slice(&(offset | more).to_be_bytes());
        frames.push(link(out, renew([&header, piece].concat(), header.len()), 0));
        offset += (piece.len() / 8) as u16;
        payload = rest;
        header.truncate(20);
    }
    frames
}

/// Returns the frame of a packet on the link of NIC `out`. A frame that arrived with padding, up to the shortest frame,
/// keeps it.
fn link(out: u8, packet: Vec<u8>, came: usize) -> Vec<u8> {
    let mut frame = [&peer_mac(out).0[..], &own_mac(out).0, &[8, 0], &packet].concat();
    let least = if came == 0 { 60 } else { came.min(60) };
    frame.resize(frame.len().max(least), 0);
    frame
}

/// Recomputes the header checksum.
fn renew(mut packet: Vec<u8>, header_len: usize) -> Vec<u8> {
    packet[10..12].fill(0);
    let checksum = !sum(&packet[..header_len]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn is_own(address: u32) -> bool {
    let [a, b, nic, host] = address.to_be_bytes();
    a == 10 && b == 0 && nic <= 2 && [0, 1, 255].contains(&host)
}

fn word(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]))
}

fn sum(octets: &[u8]) -> u16 {
    let mut total = 0u32;
    for pair in octets.chunks(2) {
        total += u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0));
        total = total % 0x1_0000 + total / 0x1_0000;
    }
    total as u16
}
