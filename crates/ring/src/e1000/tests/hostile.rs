//! Other ends that break every rule: the ring stops, or it yields garbage of their own making; never a panic, an
//! endless loop, or an access outside of the ring.

use proptest::prelude::*;

use super::*;

const ENTRIES: u16 = 16;

#[test]
fn a_tail_beyond_the_ring_stops_it() {
    for by_block in [false, true] {
        for tail in [ENTRIES, ENTRIES + 1, 0x8000, 0xffff] {
            let (mut memory, ends) = (Memory::new(ENTRIES), HeadTail::new());
            let csb = by_block.then(|| memory.csb());
            let mut device = DeviceRing::transmit(memory.region(), &memory.layout(), &ends, csb).unwrap();
            ends.set_tail(tail);
            memory.set_word(at::TX_TAIL, tail);
            assert_eq!(device.ready(1), Err(Broken::Index));
            // It stays broken, whatever comes.
            ends.set_tail(3);
            memory.set_word(at::TX_TAIL, 3);
            assert_eq!((device.ready(1), device.broken()), (Err(Broken::Index), Some(Broken::Index)));
            assert_eq!((device.arm(), device.publish()), (false, false));
            assert_eq!(device.descriptors(9).count(), 0);
        }
    }
}

#[test]
fn a_tail_that_runs_over_what_the_device_has_stops_the_ring() {
    let (mut memory, ends) = (Memory::new(ENTRIES), HeadTail::new());
    let mut device = DeviceRing::receive(memory.region(), &memory.layout(), &ends, None).unwrap();
    ends.set_tail(10);
    assert_eq!(device.ready(1), Ok(10));
    device.take(10);
    ends.set_tail(4);
    assert_eq!(device.ready(1), Err(Broken::Index));
    // Descriptors already taken can still be completed.
    device.write_back(0, 9, 1);
    device.release(10);
    assert!(device.publish());
    assert_eq!((ends.head(), memory.descriptor(9).rest), (10, 1));
}

#[test]
fn a_tail_that_goes_back_is_a_whole_round_at_most() {
    let (mut memory, ends) = (Memory::new(ENTRIES), HeadTail::new());
    let mut device = DeviceRing::transmit(memory.region(), &memory.layout(), &ends, None).unwrap();
    ends.set_tail(10);
    assert_eq!(device.ready(1), Ok(10));
    device.take(10);
    device.release(10);
    device.publish();
    ends.set_tail(9);
    assert_eq!(device.ready(1), Ok(15));
    assert_eq!(device.descriptors(usize::MAX).count(), 15);
}

#[test]
fn a_head_that_is_written_while_the_ring_runs_is_overwritten() {
    let (mut memory, ends) = (Memory::new(ENTRIES), HeadTail::new());
    let mut device = DeviceRing::transmit(memory.region(), &memory.layout(), &ends, None).unwrap();
    ends.set_tail(10);
    for head in [0xffff, 7, ENTRIES] {
        ends.set_head(head);
        assert_eq!(device.ready(1).map(|ready| ready > 0), Ok(true));
        device.take(1);
        device.release(1);
        assert!(device.publish());
        assert_eq!(ends.head(), device.next());
    }
}

#[test]
fn a_write_back_at_no_position_of_the_ring_changes_no_other_memory() {
    let (mut memory, ends) = (Memory::new(ENTRIES), HeadTail::new());
    let mut device = DeviceRing::receive(memory.region(), &memory.layout(), &ends, None).unwrap();
    for (position, n) in [(ENTRIES, 0), (0xffff, 0), (0, 0xffff), (0xffff, usize::MAX), (3, usize::MAX)] {
        device.write_back(position, n, u64::MAX);
        device.write_each_back(position, [(n, u64::MAX)].into_iter());
    }
    let behind = memory.region().bytes(START + 16 * u64::from(ENTRIES), 0x1000).unwrap();
    let mut octets = [0; 0x1000];
    behind.copy_to_slice(&mut octets);
    assert!(octets.iter().all(|&octet| octet == 0));
}

#[test]
fn a_driver_does_not_believe_a_head_that_was_never_given() {
    for head in [3, ENTRIES, 0xffff] {
        let mut memory = Memory::new(ENTRIES);
        let (region, layout, csb) = (memory.region(), memory.layout(), memory.csb());
        let mut slots = vec![TxSlot::EMPTY; ENTRIES.into()];
        let mut sender = TxDriver::new(region, &layout, Some(csb), &mut slots).unwrap();
        assert_eq!(sender.push_frames((0..2).map(|n| (Descriptor::legacy(BUFFERS, 60, tx::EOP), n))), 2);
        sender.publish();
        memory.set_word(at::TX_HEAD, head);
        assert_eq!(sender.reclaim(9, |_| panic!("nothing came back")), Err(Broken::Index));
        memory.set_word(at::TX_HEAD, 1);
        assert_eq!((sender.reclaim(9, |_| {}), sender.arm()), (Err(Broken::Index), false));

        let mut memory = Memory::new(ENTRIES);
        let (region, layout, csb) = (memory.region(), memory.layout(), memory.csb());
        let mut tokens = vec![MaybeUninit::uninit(); ENTRIES.into()];
        let mut receiver = RxDriver::new(region, &layout, Some(csb), &mut tokens).unwrap();
        assert_eq!(receiver.push_buffers((0..2).map(|n| (n, BUFFERS))), 2);
        receiver.publish();
        memory.set_word(at::RX_HEAD, head);
        assert_eq!(receiver.pop(9, |_, _| panic!("nothing came back")), Err(Broken::Index));
        assert_eq!((receiver.broken(), receiver.arm()), (Some(Broken::Index), false));
    }
}

/// Action of a hostile driver on the ring, or of the device.
#[derive(Clone, Debug)]
enum Op {
    Tail(u16),
    Head(u16),
    Rewrite(u16, u64, u64),
    Ready(usize),
    Read(usize, usize),
    Take(usize),
    WriteBack(u16, usize, u64),
    Release(usize),
    Publish,
    Arm(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let near = prop_oneof![4 => 0..ENTRIES, 1 => any::<u16>()];
    let count = prop_oneof![8 => 0..40usize, 1 => any::<usize>()];
    prop_oneof![
        6 => near.clone().prop_map(Op::Tail),
        1 => near.clone().prop_map(Op::Head),
        2 => (0..ENTRIES, any::<u64>(), any::<u64>()).prop_map(|(at, a, b)| Op::Rewrite(at, a, b)),
        4 => count.clone().prop_map(Op::Ready),
        4 => (count.clone(), count.clone()).prop_map(|(skip, n)| Op::Read(skip, n)),
        4 => count.clone().prop_map(Op::Take),
        2 => (near, count.clone(), any::<u64>()).prop_map(|(at, n, word)| Op::WriteBack(at, n, word)),
        4 => count.prop_map(Op::Release),
        4 => Just(Op::Publish),
        1 => any::<bool>().prop_map(Op::Arm),
    ]
}

proptest! {
    #[test]
    fn nothing_that_a_driver_does_leaves_the_ring(by_block: bool, ops in prop::collection::vec(op(), 0..200)) {
        let (mut memory, ends) = (Memory::new(ENTRIES), HeadTail::new());
        let csb = by_block.then(|| memory.csb());
        let mut device = DeviceRing::transmit(memory.region(), &memory.layout(), &ends, csb).unwrap();
        for op in ops {
            match op {
                Op::Tail(tail) => {
                    ends.set_tail(tail);
                    memory.set_word(at::TX_TAIL, tail);
                }
                Op::Head(head) => ends.set_head(head),
                Op::Rewrite(at, address, rest) => memory.describe(at, Descriptor { address, rest }),
                Op::Ready(wanted) => {
                    let ready = device.ready(wanted);
                    prop_assert!(ready.is_err() || ready.is_ok_and(|n| n < usize::from(ENTRIES)));
                    prop_assert!(ready.is_ok() || ready.err() == device.broken());
                }
                Op::Read(skip, n) => prop_assert!(device.descriptors_from(skip, n).count() < ENTRIES.into()),
                Op::Take(n) => device.take(n),
                Op::WriteBack(at, n, word) => device.write_back(at, n, word),
                Op::Release(n) => device.release(n),
                Op::Publish => {
                    device.publish();
                }
                Op::Arm(true) => {
                    device.arm();
                }
                Op::Arm(false) => device.disarm(),
            }
            prop_assert!(device.next() < ENTRIES);
        }
        let behind = memory.region().bytes(BUFFERS, 0x2000).unwrap();
        let mut octets = vec![0; 0x2000];
        behind.copy_to_slice(&mut octets);
        prop_assert!(octets.iter().all(|&octet| octet == 0));
    }
}
