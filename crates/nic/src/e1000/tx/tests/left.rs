//! Offloads left to the receiving port have the same final result.

use frame::checksum;

use super::segments::large;
use super::*;

/// Returns all frames of a guest as they are shown to a sink that accepts these offloads.
fn shown(guest: &mut Guest, takes: Offloads) -> Vec<(Vec<u8>, Offload)> {
    guest.publish();
    guest.queue.set_sink_offloads(takes);
    let mut all = Vec::new();
    for _ in 0..200 {
        guest.queue.drain(BURST, &guest.ledger, &mut |frames| {
            all.extend(frames.iter().map(|frame| {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                (octets, frame.offload())
            }));
        });
    }
    all
}

/// Returns the frames as a plain wire carries them in the end.
fn plain(frames: Vec<(Vec<u8>, Offload)>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (mut octets, left) in frames {
        port::show_completed(&[Frame::with_offload(Bytes::from_slice(&mut octets), left)], &mut |frames| {
            all.extend(frames.iter().map(|frame| {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                octets
            }));
        });
    }
    all
}

#[test]
fn a_large_packet_leaves_as_one_frame_and_comes_to_the_same_segments() {
    for (v4, payload, piece) in
        [(true, 20_000, 4096), (false, 20_000, 1000), (true, 64_000, 16_000), (true, 1428, 9000)]
    {
        let packet = large(v4, payload, 1428);
        let expected = packet.send(&mut Guest::build(64, SETTINGS, false, 0x20_0000), piece);
        let mut guest = Guest::build(64, SETTINGS, false, 0x20_0000);
        packet.push(&mut guest, piece);
        let frames = shown(&mut guest, Offloads::ALL);
        assert_eq!(frames.len(), 1, "one frame");
        assert_eq!(frames[0].0.len(), packet.header.len() + payload);
        assert!(plain(frames) == expected, "v4: {v4}, {payload} octets in {piece}");
        assert_eq!((guest.ledger.left_segments.get(), guest.ledger.left_checksum.get()), (1, 1));
        // GPTC counts the frames on the wire.
        let mut registers = guest.registers;
        assert_eq!(registers.read(0x4080), Some(expected.len() as u32));
    }
}

#[test]
fn large_packets_one_after_the_other_keep_their_order() {
    let mut guest = Guest::build(64, SETTINGS, false, 0x20_0000);
    let mut expected = Vec::new();
    for payload in [30_000, 5_000, 1_428, 9_000] {
        let packet = large(true, payload, 1428);
        expected.extend(packet.send(&mut Guest::build(64, SETTINGS, false, 0x20_0000), 4096));
        packet.push(&mut guest, 4096);
        guest.legacy(&frame(1, 100), tx::EOP | tx::RS);
        expected.push(frame(1, 100));
    }
    let frames = shown(&mut guest, Offloads::ALL);
    assert_eq!(frames.len(), 8);
    assert!(plain(frames) == expected);
}

#[test]
fn a_tag_moves_what_is_left() {
    let packet = large(true, 8_000, 1428);
    let send = |guest: &mut Guest| {
        guest.push(packet.context);
        let octets = [&packet.header[..], &octets(9, 8_000)].concat();
        let address = guest.store(&octets);
        let command = tx::TSE | tx::EOP | tx::RS | tx::VLE;
        let length = octets.len() as u32;
        guest.push(Data {
            address,
            length,
            command,
            options: tx::TXSM | tx::IXSM,
            special: 5,
            ..Data::default()
        });
    };
    let (mut here, mut left) = (Guest::new(64), Guest::new(64));
    send(&mut here);
    send(&mut left);
    let here = shown(&mut here, Offloads::NONE);
    let left = shown(&mut left, Offloads::ALL);
    assert_eq!((here.len(), left.len()), (6, 1));
    assert_eq!(left[0].0[12..16], [0x81, 0, 0, 5]);
    assert!(plain(left) == plain(here));
}

#[test]
fn a_checksum_alone_is_left() {
    for takes in [Offloads::CSUM, Offloads::NONE] {
        let mut guest = Guest::new(64);
        let mut sent = frame(1, 200);
        sent[50..52].copy_from_slice(&[0x12, 0x34]);
        guest.push(Context { tcp_start: 34, tcp_offset: 50, ..Context::default() });
        guest.data(&sent, tx::EOP | tx::RS, tx::TXSM);
        let frames = shown(&mut guest, takes);
        let expected =
            if takes == Offloads::CSUM { Offload::checksum(34, 16).unwrap() } else { Offload::NONE };
        assert_eq!(frames[0].1, expected);
        // The value that the driver left in the checksum field is part of the sum.
        let sum = checksum::sum(0x1234, &plain(frames)[0][34..]);
        assert_eq!(sum, 0xffff);
    }
}

#[test]
fn what_could_not_be_left_is_done_here() {
    // A sink that does not support TCP over IPv4; CWR, for which the sink lacks ECN; a sum that ends before
    // the end of the packet.
    for takes in [Offloads::CSUM | Offloads::TSO6, Offloads::CSUM | Offloads::TSO4] {
        let packet = large(true, 5_000, 1428);
        let mut guest = Guest::new(64);
        packet.push(&mut guest, 4096);
        assert_eq!(shown(&mut guest, takes).len(), 4);
    }
    let mut packet = large(true, 5_000, 1428);
    packet.context.tcp_end = 900;
    let mut guest = Guest::new(64);
    packet.push(&mut guest, 4096);
    assert_eq!(shown(&mut guest, Offloads::ALL).len(), 4);
}

#[test]
fn less_or_more_payload_than_was_promised_does_no_harm() {
    for (promised, given) in [(8_000, 5_000), (5_000, 8_000), (5_000, 0)] {
        let packet = large(true, promised, 1428);
        let mut guest = Guest::new(64);
        guest.push(packet.context);
        guest.data(
            &[&packet.header[..], &octets(9, given)].concat(),
            tx::TSE | tx::EOP | tx::RS,
            tx::TXSM | tx::IXSM,
        );
        guest.legacy(&frame(1, 100), tx::EOP | tx::RS);
        let frames = shown(&mut guest, Offloads::ALL);
        let lengths: Vec<_> = frames.iter().map(|(octets, _)| octets.len()).collect();
        let came = packet.header.len() + promised.min(given);
        let expected = if given == 0 { vec![100] } else { vec![came, 100] };
        assert_eq!(lengths, expected);
    }
}
