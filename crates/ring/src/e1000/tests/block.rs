//! Words of the status block: which side reads each, and when.

use super::*;

const ENTRIES: u16 = 16;

struct Ring {
    memory: Memory,
    ends: HeadTail,
    slots: Vec<TxSlot<u8>>,
    tokens: Vec<MaybeUninit<u8>>,
}

impl Ring {
    fn new() -> Self {
        let memory = Memory::new(ENTRIES);
        let (slots, tokens) =
            (vec![TxSlot::EMPTY; ENTRIES.into()], vec![MaybeUninit::uninit(); ENTRIES.into()]);
        Self { memory, ends: HeadTail::new(), slots, tokens }
    }
}

fn frame() -> Descriptor {
    Descriptor::legacy(BUFFERS, 60, tx::EOP)
}

#[test]
fn a_new_block_wants_all_notifications() {
    let Ring { mut memory, ends, mut slots, .. } = Ring::new();
    let (region, layout, csb) = (memory.region(), memory.layout(), memory.csb());
    let mut device = DeviceRing::transmit(region, &layout, &ends, Some(csb)).unwrap();
    let mut driver = TxDriver::new(region, &layout, Some(csb), &mut slots).unwrap();
    assert!(driver.push(frame(), Some(1)) && driver.publish());
    assert_eq!(device.ready(1), Ok(1));
    device.take(1);
    device.release(1);
    assert!(device.publish());
    assert_eq!(driver.reclaim(9, |token| assert_eq!(token, 1)), Ok(1));
}

#[test]
fn who_polls_is_not_notified() {
    let Ring { mut memory, ends, mut slots, .. } = Ring::new();
    let (region, layout, csb) = (memory.region(), memory.layout(), memory.csb());
    let mut device = DeviceRing::transmit(region, &layout, &ends, Some(csb)).unwrap();
    let mut driver = TxDriver::new(region, &layout, Some(csb), &mut slots).unwrap();
    device.disarm();
    driver.disarm();
    assert_eq!((memory.word(at::NO_TX_KICK), memory.word(at::NO_TX_INTERRUPT)), (1, 1));
    assert_eq!((memory.word(at::NO_RX_KICK), memory.word(at::NO_RX_INTERRUPT)), (0, 0));
    assert!(driver.push(frame(), Some(1)) && !driver.publish());
    assert!(device.arm(), "a frame waits: it must not sleep");
    assert_eq!(device.ready(1), Ok(1));
    device.take(1);
    assert!(!device.arm());
    device.release(1);
    assert!(!device.publish());
    assert!(driver.arm(), "a frame was sent: it must not sleep");
    assert!(driver.push(frame(), Some(2)) && driver.publish(), "the device sleeps");
}

#[test]
fn the_receive_ring_has_wishes_of_its_own() {
    let Ring { mut memory, ends, mut tokens, .. } = Ring::new();
    let (region, layout, csb) = (memory.region(), memory.layout(), memory.csb());
    let mut device = DeviceRing::receive(region, &layout, &ends, Some(csb)).unwrap();
    let mut driver = RxDriver::new(region, &layout, Some(csb), &mut tokens).unwrap();
    device.disarm();
    driver.disarm();
    assert_eq!((memory.word(at::NO_RX_KICK), memory.word(at::NO_RX_INTERRUPT)), (1, 1));
    assert_eq!((memory.word(at::NO_TX_KICK), memory.word(at::NO_TX_INTERRUPT)), (0, 0));
    assert!(!device.arm(), "no buffer is posted: it may sleep");
    assert!(driver.push(1, BUFFERS) && driver.publish(), "and is to be kicked");
    assert!(!driver.arm(), "no frame came: it may sleep");
    assert_eq!(device.ready(1), Ok(1));
    device.take(1);
    device.write_back(0, 0, Received { length: 60, ..Received::default() }.rest());
    device.release(1);
    assert!(device.publish(), "and is to be interrupted");
    assert_eq!(driver.pop(9, |token, received| assert_eq!((token, received.length), (1, 60))), Ok(1));
}

#[test]
fn each_line_has_one_writer() {
    use at::*;
    let driver = [TX_TAIL, RX_TAIL, NO_TX_INTERRUPT, NO_RX_INTERRUPT];
    let device = [TX_HEAD, RX_HEAD, NO_TX_KICK, NO_RX_KICK];
    let lines = |words: [u64; 4]| words.map(|offset| offset / 64);
    assert!(lines(driver).iter().all(|line| !lines(device).contains(line)));
    // Each polled word is alone in its cache line.
    for word in [TX_TAIL, RX_TAIL, TX_HEAD, RX_HEAD] {
        let same = driver.into_iter().chain(device).filter(|other| other / 64 == word / 64);
        assert_eq!(same.count(), 1);
    }
    assert!(driver.into_iter().chain(device).all(|offset| offset + 2 <= u64::from(Csb::OCTETS)));
}

#[test]
fn without_a_block_each_publication_is_told_and_a_look_is_all_that_arming_takes() {
    let Ring { mut memory, ends, mut tokens, mut slots } = Ring::new();
    let (region, layout) = (memory.region(), memory.layout());
    let mut device = DeviceRing::receive(region, &layout, &ends, None).unwrap();
    let mut driver = RxDriver::new(region, &layout, None, &mut tokens).unwrap();
    device.disarm();
    driver.disarm();
    assert!(driver.push(1, BUFFERS) && driver.publish() && !driver.publish());
    assert!(!driver.arm() && !device.arm());
    ends.set_tail(driver.tail() as u16);
    assert!(device.arm());
    assert_eq!(device.ready(1), Ok(1));
    device.take(1);
    device.write_back(0, 0, Received { status: rx::DD, ..Received::default() }.rest());
    assert!(driver.arm(), "it shows at once");
    device.release(1);
    assert!(device.publish() && !device.publish());

    let mut sender = TxDriver::new(region, &layout, None, &mut slots).unwrap();
    assert!(sender.push(frame(), Some(1)) && sender.publish() && !sender.publish());
    assert_eq!((sender.arm(), sender.reclaim(9, |_| {})), (false, Ok(0)), "it asks for no report");
    assert!(memory.descriptor(0).rest != 0 && memory.word(at::TX_TAIL) == 0);
}
