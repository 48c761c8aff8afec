//! Frames that are sent from guest memory, and frames that are gathered.

use super::*;

#[test]
fn frames_in_one_buffer_are_shown_where_they_lie() {
    for (block, reports) in [(false, tx::RS), (true, 0)] {
        let mut guest = if block { Guest::with_block(64) } else { Guest::new(64) };
        let mut places = Vec::new();
        for i in 0..20 {
            let (address, length) = (guest.store(&frame(i, 60 + i)), 60 + i as u16);
            places.push(guest.region.translate(address, 1).unwrap());
            if i % 2 == 0 {
                let command = tx::EOP | tx::IFCS | reports;
                guest.push(Legacy { address, length, command, cso: 0xff, css: 0xff, ..Legacy::default() });
            } else {
                let command = tx::EOP | tx::IFCS | reports;
                guest.push(Data { address, length: length.into(), command, ..Data::default() });
            }
        }
        guest.publish();
        let mut shown = Vec::new();
        let drained = guest.queue.drain(64, &guest.ledger, &mut |frames| {
            shown = frames.iter().map(|frame| frame.octets().as_ptr()).collect();
            for (i, shown) in frames.iter().enumerate() {
                let mut octets = vec![0; shown.len()];
                shown.octets().copy_to_slice(&mut octets);
                assert_eq!(octets, frame(i, 60 + i));
            }
        });
        assert_eq!(drained.frames, 20);
        assert_eq!(shown, places);
        assert_eq!(guest.ends.head(), 20);
        assert!((0..20).all(|i| guest.is_done(i) != block));
        let bytes = (0..20).map(|i| 60 + i).sum::<u64>();
        let ledger = &guest.ledger;
        assert_eq!((ledger.frames.get(), ledger.bytes.get(), ledger.batches.get()), (20, bytes, 1));
    }
}

#[test]
fn frames_in_any_pieces_and_formats_are_gathered() {
    let mut guest = Guest::new(128);
    let pieces: [&[usize]; 6] = [&[14], &[1; 40], &[12, 2], &[0, 0, 5, 0], &[99], &[100, 0]];
    for (i, pieces) in pieces.into_iter().enumerate() {
        let whole = frame(i, 100);
        let (mut rest, mut command) = (&whole[..], 0);
        for &len in pieces.iter().chain([&usize::MAX]) {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            if len == usize::MAX {
                command = tx::EOP;
            }
            if (i + rest.len()) % 2 == 0 {
                guest.legacy(piece, command)
            } else {
                guest.data(piece, command, 0)
            }
            rest = behind;
        }
    }
    assert_eq!(guest.frames(), (0..6).map(|i| frame(i, 100)).collect::<Vec<_>>());
    assert_eq!(guest.ends.head(), guest.next);
}

#[test]
fn short_frames_are_padded_where_the_driver_asks_for_it() {
    for pad_short in [true, false] {
        let mut guest = Guest::with(64, TxSettings { pad_short, ..SETTINGS });
        for len in [13, 14, 42, 59, 60, 61] {
            guest.legacy(&frame(len, len), tx::EOP);
        }
        let expected: Vec<_> = [14, 42, 59, 60, 61]
            .map(|len| {
                let mut octets = frame(len, len);
                octets.resize(if pad_short { len.max(60) } else { len }, 0);
                octets
            })
            .into();
        assert_eq!(guest.frames(), expected);
        assert_eq!((guest.ledger.drop_too_short.get(), guest.ledger.frames.get()), (1, 5));
    }
}

#[test]
fn lengths_out_of_bounds_are_counted_drops() {
    // In one buffer and in two. An existing tag is part of the longest frame.
    for first in [0, 700] {
        let mut guest = Guest::new(64);
        for len in [0, 13, 1514, 1518, 1519, 9000, 0xffff] {
            let octets = frame(len, len);
            let (first, rest) = octets.split_at(first.min(len));
            if !first.is_empty() {
                guest.legacy(first, 0);
            }
            guest.legacy(rest, tx::EOP);
        }
        assert_eq!(guest.frames(), [frame(1514, 1514), frame(1518, 1518)]);
        let ledger = &guest.ledger;
        assert_eq!((ledger.drop_too_short.get(), ledger.drop_too_long.get(), ledger.frames.get()), (2, 3, 2));
        assert_eq!(guest.ends.head(), guest.next);
    }
}

#[test]
fn a_null_address_has_no_data() {
    let mut guest = Guest::new(64);
    guest.legacy(&frame(1, 60), 0);
    guest.push(Legacy { length: 500, command: tx::RS, ..Legacy::default() });
    guest.push(Data { length: 500, command: tx::EOP | tx::RS, ..Data::default() });
    guest.push(Legacy { length: 500, command: tx::EOP, ..Legacy::default() });
    assert_eq!(guest.frames(), [frame(1, 60)]);
    assert!(guest.is_done(1) && guest.is_done(2));
    assert_eq!(guest.ledger.drop_too_short.get(), 1);
}

#[test]
fn a_burst_goes_on_where_the_last_one_ended() {
    let mut guest = Guest::new(256);
    for i in 0..100 {
        guest.legacy(&frame(i, 60), if i % 3 == 2 { 0 } else { tx::EOP });
        if i % 3 == 2 {
            guest.legacy(&frame(i, 40), tx::EOP);
        }
    }
    guest.publish();
    let expected: Vec<_> = (0..100)
        .map(|i| if i % 3 == 2 { [frame(i, 60), frame(i, 40)].concat() } else { frame(i, 60) })
        .collect();
    let mut shown = Vec::new();
    for budget in (1..=64).cycle() {
        let (frames, drained) = guest.drain(budget);
        assert_eq!(frames.len(), drained.frames);
        shown.extend(frames);
        if !guest.queue.has_frames() {
            break;
        }
    }
    assert_eq!(shown, expected);
}

#[test]
fn an_empty_ring_is_an_empty_poll() {
    let mut guest = Guest::new(8);
    assert_eq!(guest.drain(64), (Vec::new(), Drained::default()));
    assert_eq!(
        (guest.ledger.polls_empty.get(), guest.queue.has_frames(), guest.queue.arm()),
        (1, false, false)
    );
}

#[test]
fn a_packet_that_has_not_ended_waits() {
    let mut guest = Guest::new(8);
    guest.legacy(&frame(1, 70), tx::RS);
    assert_eq!(guest.frames(), Vec::<Vec<u8>>::new());
    assert!(guest.is_done(0) && !guest.queue.has_frames());
    guest.legacy(&frame(2, 70), tx::EOP);
    assert_eq!(guest.frames(), [[frame(1, 70), frame(2, 70)].concat()]);
}

#[test]
fn jumbo_frames_are_gathered_over_several_bursts() {
    const LONGEST: usize = 9014;
    let mut guest = Guest::with(64, TxSettings { longest: LONGEST, ..SETTINGS });
    for i in 0..20 {
        let octets = frame(i, LONGEST);
        guest.legacy(&octets[..100], 0);
        guest.legacy(&octets[100..], tx::EOP);
    }
    guest.publish();
    let (first, drained) = guest.drain(64);
    assert_eq!((first.len(), drained.frames), (10, 10));
    let mut shown = first;
    shown.extend(guest.drain(64).0);
    assert_eq!(shown, (0..20).map(|i| frame(i, LONGEST)).collect::<Vec<_>>());
    assert!(!guest.queue.has_frames());
}

#[test]
fn frames_are_counted_by_size_and_destination_unless_a_block_makes_them_cheap() {
    for block in [false, true] {
        let mut guest = if block { Guest::with_block(64) } else { Guest::new(64) };
        for (len, to) in [
            (60, [0x02, 0, 0, 0, 0, 1]),
            (200, [0xff; 6]),
            (1514, [0x01, 0, 0x5e, 0, 0, 1]),
            (600, [0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]),
        ] {
            let mut octets = frame(len, len);
            octets[..6].copy_from_slice(&to);
            guest.legacy(&octets, tx::EOP);
        }
        assert_eq!(guest.frames().len(), 4);
        // GPTC, GOTCL; MPTC, BPTC, and the sizes from PTC64 on.
        let all = [0x4080, 0x4090].map(|register| guest.registers.read(register).unwrap());
        assert_eq!(all, [4, 60 + 200 + 1514 + 600 + 4 * 4]);
        let kinds = [0x40f0, 0x40f4].map(|register| guest.registers.read(register).unwrap());
        let sizes = [0, 1, 2, 3, 4, 5].map(|class| guest.registers.read(0x40d8 + 4 * class).unwrap());
        let expected = if block { ([0, 0], [0; 6]) } else { ([2, 1], [1, 0, 1, 0, 1, 1]) };
        assert_eq!((kinds, sizes), expected);
    }
}

#[test]
fn settings_change_between_bursts() {
    let mut guest = Guest::new(64);
    guest.legacy(&frame(1, 42), tx::EOP);
    assert_eq!(guest.frames()[0].len(), 60);
    guest.queue.change(TxSettings { pad_short: false, longest: 1_000_000, ..SETTINGS });
    guest.legacy(&frame(1, 42), tx::EOP);
    guest.legacy(&frame(2, 1519), tx::EOP);
    assert_eq!(guest.frames(), [frame(1, 42)]);
    assert_eq!(guest.ledger.drop_too_long.get(), 1);
}
