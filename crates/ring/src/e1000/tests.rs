extern crate std;

mod block;
mod double_fetch;
mod hostile;
mod model;

use core::mem::MaybeUninit;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::Region;

/// Guest-physical address of the test memory.
const START: u64 = 0x10_0000;
/// Address of its status block: after the ring.
const BLOCK: u64 = START + 0x1000;
/// Address of its first buffer.
const BUFFERS: u64 = START + 0x2000;

/// Guest memory for one ring and a status block, and a naive view of both, written only from the manual's tables and
/// the diagram of the block.
struct Memory {
    octets: Vec<u128>,
    entries: u16,
}

impl Memory {
    fn new(entries: u16) -> Self {
        // One more cache line, because the block must lie at a multiple of 64 in this process too.
        Self { octets: vec![0; 0x404], entries }
    }

    fn region(&mut self) -> Region {
        let skew = self.octets.as_ptr().cast::<u8>().align_offset(64);
        let base = self.octets.as_mut_ptr().cast::<u8>().wrapping_add(skew);
        // SAFETY: 0x404 * 16 octets less at most 64; they outlive the rings of the test, which uses them only through
        // regions.
        unsafe { Region::new(base, START, 0x4000) }
    }

    fn layout(&self) -> Layout {
        Layout { base: START, entries: self.entries }
    }

    fn csb(&mut self) -> Csb {
        Csb::map(&self.region(), BLOCK).unwrap()
    }

    fn word(&mut self, offset: u64) -> u16 {
        u16::from_le_bytes(self.region().bytes(BLOCK + offset, 2).unwrap().read(0).unwrap())
    }

    fn set_word(&mut self, offset: u64, value: u16) {
        assert!(self.region().bytes(BLOCK + offset, 2).unwrap().write(0, value.to_le_bytes()));
    }

    fn descriptor(&mut self, position: u16) -> Descriptor {
        let bytes = self.region().bytes(START + 16 * u64::from(position), 16).unwrap();
        let [address, rest] = bytes.read_words(0).unwrap();
        Descriptor { address, rest }
    }

    fn describe(&mut self, position: u16, descriptor: Descriptor) {
        let bytes = self.region().bytes(START + 16 * u64::from(position), 16).unwrap();
        bytes.write(0, descriptor.address.to_le_bytes());
        bytes.write(8, descriptor.rest.to_le_bytes());
    }
}

/// Offsets of the block's words, as in its diagram.
mod at {
    pub(super) const TX_TAIL: u64 = 0;
    pub(super) const RX_TAIL: u64 = 64;
    pub(super) const NO_TX_INTERRUPT: u64 = 128;
    pub(super) const NO_RX_INTERRUPT: u64 = 130;
    pub(super) const TX_HEAD: u64 = 256;
    pub(super) const RX_HEAD: u64 = 320;
    pub(super) const NO_TX_KICK: u64 = 384;
    pub(super) const NO_RX_KICK: u64 = 386;
}

#[test]
fn a_ring_is_as_its_registers_say() {
    assert_eq!(Layout::new(0x1000, 4096), Ok(Layout { base: 0x1000, entries: 256 }));
    assert_eq!(Layout::new(0x10, 128), Ok(Layout { base: 0x10, entries: 8 }));
    assert_eq!(Layout::new(0, MAX_LENGTH).map(|layout| layout.octets()), Ok(MAX_LENGTH));
    for octets in [0, 16, 64, 127, 129, 1000, MAX_LENGTH + 128, u32::MAX] {
        assert_eq!(Layout::new(0, octets), Err(LayoutError::Length(octets)));
    }
    for base in [1, 8, 0x1008, u64::MAX] {
        assert_eq!(Layout::new(base, 4096), Err(LayoutError::Alignment(base)));
    }
}

#[test]
fn bad_layouts_are_refused() {
    let mut memory = Memory::new(16);
    let region = memory.region();
    let good = memory.layout();
    let last = region.start() + region.len();
    let cases = [
        (Layout { entries: 0, ..good }, LayoutError::Length(0)),
        (Layout { entries: 12, ..good }, LayoutError::Length(192)),
        (Layout { base: START + 8, ..good }, LayoutError::Alignment(START + 8)),
        (Layout { base: 0, ..good }, LayoutError::Outside(0)),
        (Layout { base: last - 240, ..good }, LayoutError::Outside(last - 240)),
        (Layout { base: u64::MAX - 15, ..good }, LayoutError::Outside(u64::MAX - 15)),
    ];
    let ends = HeadTail::new();
    for (layout, error) in cases {
        assert_eq!(DeviceRing::transmit(region, &layout, &ends, None).err(), Some(error), "{layout:?}");
        assert_eq!(RxDriver::<u8>::new(region, &layout, None, &mut []).err(), Some(error), "{layout:?}");
        assert_eq!(TxDriver::<u8>::new(region, &layout, None, &mut []).err(), Some(error), "{layout:?}");
    }
    for at in [BLOCK + 16, BLOCK + 32] {
        assert_eq!(Csb::map(&region, at).err(), Some(LayoutError::Alignment(at)));
    }
    for at in [0, last, last - 448, u64::MAX - 63] {
        assert_eq!(Csb::map(&region, at).err(), Some(LayoutError::Outside(at)));
    }
    assert!(Csb::map(&region, last - 512).is_ok());
}

#[test]
fn a_head_outside_of_the_ring_is_refused() {
    let mut memory = Memory::new(16);
    let ends = HeadTail::new();
    for (head, error) in
        [(15, None), (16, Some(LayoutError::Head(16))), (0xffff, Some(LayoutError::Head(0xffff)))]
    {
        ends.set_head(head);
        assert_eq!(DeviceRing::receive(memory.region(), &memory.layout(), &ends, None).err(), error);
    }
}

#[test]
fn a_driver_needs_a_place_for_each_entry() {
    let mut memory = Memory::new(16);
    let (region, layout) = (memory.region(), memory.layout());
    let mut tokens = vec![MaybeUninit::<u8>::uninit(); 8];
    let mut slots = vec![TxSlot::<u8>::EMPTY; 24];
    assert_eq!(RxDriver::new(region, &layout, None, &mut tokens).err(), Some(LayoutError::Storage(8)));
    assert_eq!(TxDriver::new(region, &layout, None, &mut slots).err(), Some(LayoutError::Storage(24)));
}

#[test]
fn a_ring_starts_where_its_head_is_and_tells_the_driver() {
    let mut memory = Memory::new(16);
    let ends = HeadTail::new();
    ends.set_head(13);
    memory.set_word(at::RX_TAIL, 2);
    let csb = memory.csb();
    let mut device = DeviceRing::receive(memory.region(), &memory.layout(), &ends, Some(csb)).unwrap();
    assert_eq!((memory.word(at::RX_HEAD), device.next(), device.ready(1)), (13, 13, Ok(5)));
    assert_eq!(ends.tail(), 2, "the register reads what the block says");
    let addresses = [13, 14, 15, 0, 1].map(|position| {
        let address = BUFFERS + u64::from(position) * 64;
        memory.describe(position, Descriptor::buffer(address));
        address
    });
    assert_eq!(device.descriptors(9).map(|d| d.address).collect::<Vec<_>>(), addresses);
    assert_eq!(device.descriptors_from(3, 9).map(|d| d.address).collect::<Vec<_>>(), addresses[3..]);
    assert_eq!(device.descriptors_from(6, 9).count(), 0);
}

#[test]
fn several_takes_are_released_in_order() {
    let mut memory = Memory::new(16);
    let ends = HeadTail::new();
    ends.set_tail(12);
    let mut device = DeviceRing::receive(memory.region(), &memory.layout(), &ends, None).unwrap();
    assert_eq!(device.ready(1), Ok(12));
    device.take(5);
    device.take(4);
    assert_eq!((device.next(), device.ready(1), device.publish()), (9, Ok(3), false));
    device.release(5);
    assert!(device.publish());
    assert_eq!(ends.head(), 5);
    device.release(100);
    assert!(device.publish());
    assert_eq!(ends.head(), 9, "no more than was taken");
    device.take(100);
    device.release(3);
    assert!(device.publish());
    assert_eq!((ends.head(), device.ready(1)), (12, Ok(0)));
}

#[test]
fn descriptors_are_written_as_the_manual_has_them() {
    let legacy = Legacy {
        address: 0x1122_3344_5566_7788,
        length: 0x05dc,
        cso: 0x32,
        command: tx::EOP | tx::IFCS | tx::RS,
        status: 0,
        css: 0x22,
        special: 0x2064,
    };
    let written = Descriptor { address: 0x1122_3344_5566_7788, rest: 0x2064_2200_0b32_05dc };
    assert_eq!((Descriptor::from(legacy), Legacy::from(written)), (written, legacy));
    assert_eq!(Descriptor::legacy(8, 60, tx::EOP), Descriptor { address: 8, rest: 0x0100_003c });

    let data = Data {
        address: 0x1000,
        length: 0xf_1234,
        command: tx::EOP | tx::DEXT | tx::RS,
        status: 0,
        options: tx::IXSM | tx::TXSM,
        special: 0,
    };
    let written = Descriptor { address: 0x1000, rest: 0x0000_0300_291f_1234 };
    assert_eq!((Descriptor::from(data), Data::from(written)), (written, data));
    assert_eq!((written.kind(), written.command()), (tx::DATA, tx::EOP | tx::DEXT | tx::RS));
    assert_eq!(written.done(), 0x0000_0301_291f_1234);

    let context = Context {
        ip_start: 14,
        ip_offset: 24,
        ip_end: 33,
        tcp_start: 34,
        tcp_offset: 50,
        tcp_end: 0,
        payload: 15000,
        command: tx::TCP | tx::IP | tx::TSE | tx::DEXT,
        status: 0,
        header: 54,
        mss: 1460,
    };
    let written = Descriptor { address: 0x0000_3222_0021_180e, rest: 0x05b4_3600_2700_3a98 };
    assert_eq!((Descriptor::from(context), Context::from(written)), (written, context));
    assert_eq!(written.kind(), tx::CONTEXT);

    let received = Received {
        length: 60,
        checksum: 0xabcd,
        status: rx::DD | rx::EOP | rx::VP,
        errors: rx::IPE,
        special: 7,
    };
    assert_eq!(received.rest(), 0x0007_400b_abcd_003c);
    assert_eq!(Received::from_rest(received.rest()), received);
}
