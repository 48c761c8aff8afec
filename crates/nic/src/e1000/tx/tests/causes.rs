//! Reports to the driver: write-back, interrupts, the block.

use super::*;

#[test]
fn only_descriptors_that_ask_for_it_are_written_back_and_nothing_else_of_them_changes() {
    let mut guest = Guest::new(64);
    let address = guest.store(&frame(1, 200));
    let commands = [tx::EOP, tx::EOP | tx::RS, tx::RS, tx::EOP | tx::IDE, tx::EOP | tx::RS | tx::IDE];
    for command in commands {
        guest.push(Legacy { address, length: 100, cso: 9, command, status: 6, css: 7, special: 0xabcd });
    }
    guest.push(Context { command: tx::RS, header: 9, mss: 77, ..Context::default() });
    guest.push(Context { command: 0, ..Context::default() });
    // An undefined DTYP, with and without RS.
    guest.push(Descriptor { address: 5, rest: 0x2f << 20 | u64::from(tx::DEXT | tx::RS | tx::EOP) << 24 });
    guest.push(Descriptor { address: 5, rest: 0x2f << 20 | u64::from(tx::DEXT | tx::EOP) << 24 });
    let before: Vec<_> = (0..9).map(|i| guest.word(i)).collect();
    assert_eq!(guest.frames().len(), 4);
    for (i, reports) in [false, true, true, false, true, true, false, true, false].into_iter().enumerate() {
        let expected = before[i] | u64::from(reports) << 32;
        assert_eq!(guest.word(i as u16), expected, "descriptor {i}");
    }
    assert_eq!((guest.ends.head(), guest.ends.tail()), (9, 9));
}

#[test]
fn causes_follow_from_what_is_written_back_and_what_is_left() {
    let cases = [
        (&[0, 0][..], 0),
        (&[tx::RS, 0], cause::TXDW),
        (&[tx::RS | tx::IDE, 0], cause::TXDW_DELAYED),
        (&[tx::RS | tx::IDE, tx::RS], cause::TXDW),
        (&[tx::RS, tx::RS | tx::IDE], cause::TXDW),
        (&[tx::IDE, tx::IDE], 0),
    ];
    for (commands, expected) in cases {
        let mut guest = Guest::new(64);
        for command in commands {
            guest.legacy(&frame(1, 60), tx::EOP | command);
        }
        guest.legacy(&frame(1, 60), tx::EOP);
        guest.publish();
        assert_eq!(guest.drain(2).1, Drained { frames: 2, causes: expected });
        assert_eq!(guest.drain(2).1, Drained { frames: 1, causes: cause::TXQE | cause::TXD_LOW });
        assert_eq!(guest.drain(2).1, Drained::default());
        let suppressed = u64::from(expected == 0);
        let ledger = &guest.ledger;
        assert_eq!(
            (ledger.interrupts.get(), ledger.interrupts_suppressed.get()),
            (2 - suppressed, suppressed)
        );
    }
}

#[test]
fn few_descriptors_are_told_of_once_when_their_number_falls_to_the_threshold() {
    let mut guest = Guest::with(64, TxSettings { low: 8, ..SETTINGS });
    for i in 0..20 {
        guest.legacy(&frame(i, 60), tx::EOP);
    }
    guest.publish();
    let causes: Vec<_> = (0..5).map(|_| guest.drain(4).1.causes).collect();
    assert_eq!(causes, [0, 0, cause::TXD_LOW, 0, cause::TXQE]);
}

#[test]
fn with_a_block_its_word_decides_and_no_descriptor_is_written() {
    let mut guest = Guest::with_block(64);
    let wish = guest.region.bytes(BLOCK + 128, 2).unwrap();
    for (declined, expected) in [(1_u16, 0), (0, cause::TXDW), (1, 0)] {
        wish.write(0, declined.to_le_bytes());
        let position = guest.next;
        guest.legacy(&frame(1, 60), tx::EOP);
        guest.publish();
        assert_eq!(guest.drain(64).1, Drained { frames: 1, causes: expected });
        assert!(!guest.is_done(position));
        let head = guest.region.bytes(BLOCK + 256, 2).unwrap().read(0).unwrap();
        assert_eq!(
            (u16::from_le_bytes(head), guest.ends.head(), guest.ends.tail()),
            (guest.next, guest.next, guest.next)
        );
    }
}

#[test]
fn kicks_are_asked_for_and_news_is_seen() {
    let mut guest = Guest::with_block(64);
    let wish = guest.region.bytes(BLOCK + 384, 2).unwrap();
    guest.queue.disarm();
    assert_eq!(wish.read(0), Some([1, 0]));
    assert!(!guest.queue.arm());
    assert_eq!(wish.read(0), Some([0, 0]));
    guest.legacy(&frame(1, 60), tx::EOP);
    guest.publish();
    assert!(guest.queue.arm() && guest.queue.has_frames());
    assert_eq!(guest.frames().len(), 1);
    assert!(!guest.queue.arm());
}

#[test]
fn a_packet_that_is_not_yet_cut_to_its_end_keeps_its_descriptor_and_the_thread_awake() {
    let mut guest = Guest::new(64);
    guest.push(Context { payload: 100, header: 14, mss: 1, command: tx::TSE | tx::RS, ..Context::default() });
    guest.data(&frame(1, 114), tx::EOP | tx::TSE | tx::RS, 0);
    guest.publish();
    let (frames, drained) = guest.drain(64);
    assert_eq!((frames.len(), drained), (64, Drained { frames: 64, causes: cause::TXDW }));
    assert_eq!((guest.ends.head(), guest.is_done(0), guest.is_done(1)), (1, true, false));
    assert!(guest.queue.arm() && guest.queue.has_frames());
    let (frames, drained) = guest.drain(64);
    let causes = cause::TXDW | cause::TXQE | cause::TXD_LOW;
    assert_eq!((frames.len(), drained), (36, Drained { frames: 36, causes }));
    assert_eq!((guest.ends.head(), guest.is_done(1), guest.queue.arm()), (2, true, false));
}
