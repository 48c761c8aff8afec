//! Checksum reports in descriptors (82540EM manual, "Receive Packet Checksum Offloading").

use ::frame::checksum;

use super::*;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Offsets of the IPv4 and the transport header.
const IP: usize = 14;
const TRANSPORT: usize = 34;

/// Returns an IPv4 packet with correct checksums and an odd number of octets.
fn ipv4(protocol: u8) -> Vec<u8> {
    let (header, at) = if protocol == TCP { (20, 16) } else { (8, 6) };
    let mut packet = frame(1, TRANSPORT + header + 101);
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    let len = (packet.len() - IP) as u16;
    packet[IP..TRANSPORT].copy_from_slice(&[
        0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    ]);
    packet[IP + 2..IP + 4].copy_from_slice(&len.to_be_bytes());
    let sum = checksum::of(&packet[IP..TRANSPORT]);
    packet[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    close(&mut packet, TRANSPORT, at, protocol, IP + 12..TRANSPORT);
    packet
}

fn ipv6(protocol: u8) -> Vec<u8> {
    let mut packet = frame(1, IP + 40 + 20 + 33);
    packet[12..14].copy_from_slice(&[0x86, 0xdd]);
    packet[IP] = 0x60;
    packet[IP + 4..IP + 6].copy_from_slice(&53_u16.to_be_bytes());
    packet[IP + 6] = protocol;
    close(&mut packet, IP + 40, if protocol == TCP { 16 } else { 6 }, protocol, IP + 8..IP + 40);
    packet
}

/// Writes the transport checksum.
fn close(packet: &mut [u8], start: usize, at: usize, protocol: u8, addresses: std::ops::Range<usize>) {
    packet[start + at..start + at + 2].fill(0);
    let len = ((packet.len() - start) as u16).to_be_bytes();
    let pseudo = [&packet[addresses], &[0, protocol], &len].concat();
    let sum = checksum::sum(checksum::sum(0, &pseudo), &packet[start..]);
    packet[start + at..start + at + 2].copy_from_slice(&(!sum).to_be_bytes());
}

/// Returns the device's status and errors for a frame with these checksums enabled.
fn told(ip: bool, transport: bool, frame: &[u8]) -> (u8, u8) {
    let mut guest = Guest::new(16, false);
    let checksum = RxChecksum { start: 14, ip, transport };
    let mut queue = guest.queue(RxSettings { checksum, ..plain() });
    guest.post(8);
    assert_eq!(fill(&mut queue, &NicDirection::default(), &[frame.to_vec()]).taken, 1);
    let (octets, received) = guest.back().remove(0);
    assert_eq!(octets[..frame.len()], *frame);
    assert_eq!(received.status & (rx::DD | rx::EOP), rx::DD | rx::EOP);
    if ip || transport {
        assert_eq!(received.checksum, checksum::sum(0, &frame[14..]));
    }
    (received.status & (rx::IXSM | rx::IPCS | rx::TCPCS), received.errors)
}

#[test]
fn right_checksums_are_told_as_right() {
    for protocol in [TCP, UDP] {
        assert_eq!(told(true, true, &ipv4(protocol)), (rx::IPCS | rx::TCPCS, 0));
        assert_eq!(told(true, false, &ipv4(protocol)), (rx::IPCS, 0));
        assert_eq!(told(false, true, &ipv4(protocol)), (rx::TCPCS, 0));
        assert_eq!(told(false, false, &ipv4(protocol)), (rx::IXSM, 0));
        assert_eq!(told(true, true, &ipv6(protocol)), (rx::TCPCS, 0));
        assert_eq!(told(true, false, &ipv6(protocol)), (rx::IXSM, 0));
    }
}

#[test]
fn wrong_checksums_are_told_as_wrong() {
    for protocol in [TCP, UDP] {
        let mut packet = ipv4(protocol);
        *packet.last_mut().unwrap() ^= 1;
        assert_eq!(told(true, true, &packet), (rx::IPCS | rx::TCPCS, rx::TCPE));
        let mut packet = ipv4(protocol);
        packet[IP + 8] -= 1;
        assert_eq!(told(true, true, &packet), (rx::IPCS, rx::IPE));
        let mut packet = ipv6(protocol);
        packet[IP + 8] ^= 4;
        assert_eq!(told(true, true, &packet), (rx::TCPCS, rx::TCPE));
    }
}

#[test]
fn what_cannot_be_checked_is_not() {
    let mut fragment = ipv4(UDP);
    fragment[IP + 6] = 0x20;
    assert_eq!(told(false, true, &fragment), (rx::IXSM, 0));
    let mut without = ipv4(UDP);
    without[TRANSPORT + 6..TRANSPORT + 8].fill(0);
    assert_eq!(told(true, true, &without), (rx::IPCS, 0), "no UDP checksum");
    let mut icmp = ipv4(UDP);
    icmp[IP + 9] = 1;
    assert_eq!(told(false, true, &icmp), (rx::IXSM, 0));
    assert_eq!(told(true, true, &frame(1, 100)), (rx::IXSM, 0), "no IP");
    assert_eq!(told(true, true, &ipv6(0)), (rx::IXSM, 0), "an extension header");
}

#[test]
fn lengths_without_sense_are_not_believed() {
    let cases: [(usize, u8); 6] = [
        (IP, 0x44),       // a header of 16 octets
        (IP, 0x4f),       // of 60, which leaves too little behind it
        (IP, 0x65),       // no IPv4
        (IP + 2, 0x40),   // longer than the frame
        (IP + 3, 19),     // shorter than its header
        (IP + 3, 20 + 7), // shorter than the transport's
    ];
    for (at, octet) in cases {
        let mut packet = ipv4(UDP);
        packet.truncate(TRANSPORT + 30);
        packet[IP + 2..IP + 4].copy_from_slice(&50_u16.to_be_bytes());
        packet[at] = octet;
        assert_eq!(told(false, true, &packet), (rx::IXSM, 0), "{octet:#x} at {at}");
    }
    for cut in [14, 15, 33, 34, 41] {
        let (status, _) = told(true, true, &ipv4(UDP)[..cut]);
        assert_eq!(status, rx::IXSM, "{cut} octets");
    }
}

#[test]
fn octets_behind_the_packet_do_not_count_and_a_tag_does_not_hide_it() {
    let mut packet = ipv4(TCP);
    packet.extend([1, 2, 3, 4, 5]);
    assert_eq!(told(true, true, &packet), (rx::IPCS | rx::TCPCS, 0));
    let packet = ipv4(UDP);
    let tagged = [&packet[..12], &[0x81, 0, 0, 5], &packet[12..]].concat();
    assert_eq!(told(true, true, &tagged), (rx::IPCS | rx::TCPCS, 0));
}
