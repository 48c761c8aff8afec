//! Inputs that no regular driver produces.

use super::*;

#[test]
fn a_packet_that_never_ends_takes_no_more_memory_than_a_frame_and_no_call_for_ever() {
    let mut guest = Guest::new(1024);
    let address = guest.store(&[7; 1000]);
    for _ in 0..20 {
        for _ in 0..1000 {
            guest.push(Legacy { address, length: 1000, command: 0, ..Legacy::default() });
        }
        guest.publish();
        for drain in 0..4 {
            let head = guest.ends.head();
            let (shown, drained) = guest.drain(64);
            assert_eq!((shown.len(), drained.frames), (0, 0), "drain {drain}");
            let used = (guest.ends.head() + 1024 - head) % 1024;
            assert!(usize::from(used) <= MOST_DESCRIPTORS);
        }
    }
    guest.legacy(&[7; 100], tx::EOP);
    guest.legacy(&frame(1, 60), tx::EOP);
    assert_eq!(guest.frames(), [frame(1, 60)]);
    assert_eq!((guest.ledger.drop_too_long.get(), guest.queue.broken()), (1, None));
}

#[test]
fn contexts_alone_are_used_up_and_show_nothing() {
    let mut guest = Guest::new(1024);
    for i in 0..1000_u16 {
        guest.push(Context { mss: i, command: i as u8, ..Context::default() });
    }
    guest.publish();
    let mut drains = 0;
    while guest.queue.has_frames() {
        assert_eq!(guest.drain(64).1.frames, 0);
        drains += 1;
    }
    assert_eq!((drains, guest.ends.head()), (1000_usize.div_ceil(MOST_DESCRIPTORS), 1000));
}

#[test]
fn a_buffer_outside_memory_ends_the_ring_after_what_came_before_it() {
    let end = START + LEN as u64;
    for (address, length) in
        [(START - 1, 60), (end - 59, 60), (u64::MAX, 60), (u64::MAX - 59, 60), (1 << 63, 1)]
    {
        for (command, options) in [(tx::EOP, 0), (0, 0), (tx::EOP, tx::IXSM), (tx::TSE | tx::EOP, 0)] {
            let mut guest = Guest::new(64);
            guest.legacy(&frame(1, 60), tx::EOP | tx::RS);
            guest.push(Data { address, length, command: command | tx::RS, options, ..Data::default() });
            guest.legacy(&frame(2, 60), tx::EOP | tx::RS);
            guest.publish();
            let mut frames = Vec::new();
            for drain in 0..4 {
                frames.extend(guest.drain(64).0);
                // The first drain shows the frames before the descriptor; the second one reaches it.
                assert_eq!(guest.ledger.drop_bad_ring.get(), u64::from(drain > 0));
            }
            assert_eq!(frames, [frame(1, 60)]);
            assert!(guest.is_done(0) && !guest.is_done(1) && !guest.is_done(2));
            assert_eq!((guest.queue.broken(), guest.ledger.drop_bad_ring.get()), (Some(Broken::Address), 1));
            assert!(!guest.queue.has_frames() && !guest.queue.arm());
            assert_eq!(guest.ends.head(), 1);
        }
    }
}

#[test]
fn a_context_is_no_buffer_wherever_its_offsets_seem_to_point() {
    let mut guest = Guest::new(64);
    guest.push(Descriptor { address: u64::MAX, rest: u64::from(tx::DEXT | tx::RS) << 24 | 0xf_ffff });
    guest.push(Descriptor { address: u64::MAX, rest: u64::from(tx::DEXT | tx::RS) << 24 | 0xff_ffff });
    guest.legacy(&frame(2, 60), tx::EOP);
    assert_eq!(guest.frames(), [frame(2, 60)]);
    assert_eq!(guest.queue.broken(), None);
}

#[test]
fn a_tail_that_is_no_position_ends_the_ring() {
    for block in [false, true] {
        let mut guest = if block { Guest::with_block(64) } else { Guest::new(64) };
        guest.legacy(&frame(1, 60), tx::EOP);
        guest.next = 64;
        guest.publish();
        for _ in 0..3 {
            assert_eq!(guest.drain(64), (Vec::new(), Drained::default()));
        }
        assert_eq!((guest.queue.broken(), guest.ledger.drop_bad_ring.get()), (Some(Broken::Index), 1));
        assert!(!guest.queue.has_frames());
    }
}

#[test]
fn a_ring_or_block_outside_memory_is_not_taken_over() {
    let guest = Guest::new(64);
    let setup = |base, entries, block| TxSetup {
        layout: Layout { base, entries },
        ends: Arc::new(HeadTail::new()),
        block,
        statistics: Arc::default(),
        settings: SETTINGS,
    };
    let end = START + LEN as u64;
    assert_eq!(
        TxQueue::new(guest.region, &setup(end - 16, 8, None)).err(),
        Some(LayoutError::Outside(end - 16))
    );
    assert_eq!(
        TxQueue::new(guest.region, &setup(START, 64, Some(end))).err(),
        Some(LayoutError::Outside(end))
    );
    let odd = START + 8;
    assert_eq!(
        TxQueue::new(guest.region, &setup(START, 64, Some(odd))).err(),
        Some(LayoutError::Alignment(odd))
    );
}

#[test]
fn a_packet_of_many_megabytes_is_cut_as_far_as_payload_goes() {
    let mut guest = Guest::build(64, SETTINGS, false, 0x20_0000);
    guest.push(Context { command: tx::TSE, payload: 0xf_ffff, header: 14, mss: 1000, ..Context::default() });
    for _ in 0..8 {
        guest.push(Data { address: START, length: 0xf_ffff, command: tx::TSE, ..Data::default() });
    }
    guest.push(Data { address: START, length: 0xf_ffff, command: tx::TSE | tx::EOP, ..Data::default() });
    guest.publish();
    let (mut frames, mut octets) = (0, 0);
    while guest.queue.has_frames() {
        let (shown, drained) = guest.drain(64);
        assert!(shown.len() == drained.frames && shown.iter().all(|frame| frame.len() <= 1014));
        frames += shown.len();
        octets += shown.iter().map(|frame| frame.len() - 14).sum::<usize>();
    }
    assert_eq!((frames, octets), (0xf_ffff_usize.div_ceil(1000), 0xf_ffff));
    assert_eq!(guest.registers.read(0x40fc), Some(1));
}

#[test]
fn a_new_context_in_the_middle_of_a_packet_that_is_cut_is_for_the_next_one() {
    let mut guest = Guest::new(64);
    let first = Context { command: tx::TSE, payload: 200, header: 20, mss: 100, ..Context::default() };
    guest.push(first);
    let whole = frame(1, 220);
    guest.data(&whole[..50], tx::TSE, 0);
    guest.push(Context { header: 255, mss: 0, payload: 0, ..first });
    guest.data(&whole[50..], tx::TSE | tx::EOP, 0);
    let expected = [[&whole[..20], &whole[20..120]].concat(), [&whole[..20], &whole[120..]].concat()];
    assert_eq!(guest.frames(), expected);
}
