//! Fragmentation: the individual fragments, and that together they make up the packet.

use frame::ipv4;

use crate::world::*;

/// Reassembles the payload of the fragments in `frames`, which must be in order and without gaps.
fn assemble(frames: &[Vec<u8>], mtu: u16) -> Vec<u8> {
    let mut whole = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let (ethernet, packet) = read_ipv4(frame);
        let header = packet.header();
        assert_eq!(ethernet.destination, peer_mac(2));
        assert!(header.total_len <= mtu);
        assert_eq!(usize::from(header.fragment_offset) * 8, whole.len());
        assert_eq!(header.more_fragments, n + 1 < frames.len());
        assert_eq!((header.ttl, header.identification), (63, 77));
        whole.extend_from_slice(packet.payload());
    }
    whole
}

fn large(payload: usize) -> ipv4::Header {
    ipv4::Header { identification: 77, ..udp_header(ip(10, 0, 0, 2), ip(172, 16, 0, 1), payload) }
}

#[test]
fn the_pieces_are_the_packet() {
    for len in [549, 552, 1000, 1096, 1097, 1472] {
        let mut lab = Lab::default();
        let payload = datagram(len);
        lab.push(0, ipv4_frame(0, large(len), &payload));
        let sent = lab.world.sent(2);
        assert_eq!(assemble(&sent, 576), payload);
        // 552 octets of payload fit into a fragment of 576 octets less the header, in units of 8.
        assert_eq!(sent.len(), payload.len().div_ceil(552));
        assert_eq!(lab.counters.forwarded.get(), 1);
        assert_eq!(lab.counters.originated.get(), 6 + sent.len() as u64 - 1);
        lab.only_drop("", 0);
    }
}

#[test]
fn a_fragment_is_cut_again() {
    let mut lab = Lab::default();
    let header = ipv4::Header { fragment_offset: 100, more_fragments: true, ..large(992) };
    lab.push(0, ipv4_frame(0, header, &datagram(992)));
    let sent = lab.world.sent(2);
    let seen: Vec<_> = sent.iter().map(|frame| *read_ipv4(frame).1.header()).collect();
    assert_eq!(seen.iter().map(|h| h.fragment_offset).collect::<Vec<_>>(), [100, 169]);
    assert!(seen.iter().all(|h| h.more_fragments));
}

#[test]
fn options_go_where_they_say() {
    let mut lab = Lab::default();
    // A copied security option, a no-operation, a record route that is not copied.
    let options = [0x82, 4, 1, 2, 1, 7, 7, 4, 0, 0, 0, 0];
    let header = ipv4::Header { header_len: 32, total_len: 32 + 1008, ..large(1000) };
    let mut frame = ipv4_frame(0, header, &datagram(1000));
    frame[34..46].copy_from_slice(&options);
    header.write(&mut frame[14..]).unwrap();
    lab.push(0, frame);
    let sent = lab.world.sent(2);
    let packets: Vec<_> = sent.iter().map(|frame| read_ipv4(frame).1).collect();
    // The record is filled in before.
    assert_eq!(packets[0].options(), [0x82, 4, 1, 2, 1, 7, 7, 8, 10, 0, 2, 1]);
    assert_eq!(packets[1].options(), [0x82, 4, 1, 2]);
    let whole: Vec<u8> = packets.iter().flat_map(|packet| packet.payload().to_vec()).collect();
    assert_eq!(whole, datagram(1000));
}

#[test]
fn without_buffers_nothing_of_the_packet_leaves() {
    let mut lab = Lab::default();
    lab.world.free = 1;
    lab.push(0, ipv4_frame(0, large(1472), &datagram(1472)));
    lab.none_sent();
    lab.only_drop("drop_no_memory", 1);
}

#[test]
fn a_large_packet_waits_as_a_whole() {
    let mut lab = Lab::default();
    let header = ipv4::Header { destination: ip(10, 0, 2, 50), ..large(1000) };
    lab.push(0, ipv4_frame(0, header, &datagram(1000)));
    assert_eq!(lab.router.held(), 1);
    read_arp(&lab.one_sent(2));
    lab.push(2, arp_reply(2, peer_mac(2), ip(10, 0, 2, 50)));
    assert_eq!(assemble(&lab.world.sent(2), 576), datagram(1000));
}
