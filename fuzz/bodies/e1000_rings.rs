//! A guest that writes arbitrary data into the rings and the status block of its e1000, at any time, against the device
//! side of a ring and the data paths on it. Finds panics, hangs, and accesses outside guest memory.

use std::sync::Arc;

use ledger::NicDirection;
use nic::e1000::rx::{Lease, RxQueue};
use nic::e1000::tx::TxQueue;
use nic::e1000::{Filters, RxChecksum, RxSettings, RxSetup, TxSettings, TxSetup};
use port::Frame;
use ring::e1000::{Csb, DeviceRing, HeadTail, Layout};
use ring::{BURST, Bytes, Region};

/// Guest-physical address of the memory: the ring, the status block, the rest.
const START: u64 = 0x1000;
const BLOCK: u64 = START + 0x800;
/// Length of the memory in octets.
const LEN: u64 = 0x3000;
/// Largest frame that the transmit ring accepts.
const LONGEST: usize = 9014;
/// Length of the longest received frame in octets.
const INCOMING: usize = 4096;

/// Guest memory, and the host's state of the ring.
struct Guest {
    region: Region,
    layout: Layout,
    block: Option<u64>,
    ends: Arc<HeadTail>,
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&[kind, shape, settings], rest)) = input.split_first_chunk() else { return };
    let (orders, content) = rest.split_at(rest.len().min(96));
    // One cache line more than is used, so that the start can be aligned to 64.
    let mut octets = vec![0u128; LEN as usize / 16 + 4];
    let base = octets.as_mut_ptr().cast::<u8>();
    let base = base.wrapping_add(base.align_offset(64));
    // SAFETY: at most 64 octets were skipped, and the buffer is that much longer; `octets` outlives all uses of the
    // region, and is not referenced otherwise meanwhile.
    let region = unsafe { Region::new(base, START, LEN) };
    let layout = Layout { base: START, entries: 8 * u16::from(1 + shape % 16) };
    let block = (kind & 1 != 0).then_some(BLOCK);
    let guest = Guest { region, layout, block, ends: Arc::new(HeadTail::new()) };
    guest.fill(content);
    if kind & 2 != 0 {
        guest.ends.set_head(u16::from(shape) % layout.entries);
    }
    match kind >> 6 {
        0 => bare(&guest, kind & 4 != 0, orders),
        1 | 2 => transmit(&guest, settings, orders),
        _ => receive(&guest, settings, orders),
    }
}

impl Guest {
    /// Fills memory with the fuzzer's input; the addresses in the ring are moved close to the memory, because otherwise
    /// nothing would pass the first check.
    fn fill(&self, content: &[u8]) {
        let all = self.region.bytes(START, LEN as u32).expect("all of it");
        all.copy_from_slice(content);
        for entry in 0..u64::from(self.layout.entries) {
            let at = self.region.bytes(START + 16 * entry, 8).expect("in the ring");
            let address = u64::from_le_bytes(at.read(0).expect("8 octets"));
            // Context descriptors have no address: some are left unchanged.
            if address >> 62 == 0 {
                at.write(0, (START - 8 + address % (LEN + 16)).to_le_bytes());
            }
        }
    }

    fn write(&self, address: u64, octets: [u8; 2]) {
        if let Some(bytes) = self.region.bytes(address, 2) {
            bytes.write(0, octets);
        }
    }

    /// Actions of the guest between two steps of the device.
    fn mutate(&self, order: u8, operand: u8) {
        let value = u16::from(operand);
        match order >> 5 {
            0 | 1 => {}
            // Both tails, most often within the ring.
            2..=4 => {
                let tail = if operand < 250 { value % self.layout.entries } else { value << 8 };
                self.ends.set_tail(tail);
                self.write(BLOCK, tail.to_le_bytes());
                self.write(BLOCK + 64, tail.to_le_bytes());
            }
            5 => {
                self.write(START + u64::from(operand) * 2, u16::from(order).wrapping_mul(value).to_le_bytes())
            }
            // A command, and the octet before it.
            6 => self.write(START + u64::from(operand) * 16 + 10, [operand, order << 3]),
            _ => self.ends.set_head(value),
        }
    }
}

/// Tests the device side of a ring alone.
fn bare(guest: &Guest, transmits: bool, orders: &[u8]) {
    let csb = guest.block.map(|at| Csb::map(&guest.region, at).expect("it lies in memory"));
    let make = if transmits { DeviceRing::transmit } else { DeviceRing::receive };
    let ends: &HeadTail = &guest.ends;
    let mut ring = make(guest.region, &guest.layout, ends, csb).expect("the layout fits");
    for order in orders.chunks_exact(2) {
        let (what, n) = (order[0], usize::from(order[1]));
        guest.mutate(what, order[1]);
        match what & 7 {
            0 => assert!(ring.ready(n).is_ok() || ring.broken().is_some()),
            1 => assert!(ring.descriptors_from(n / 2, n).count() < usize::from(guest.layout.entries)),
            2 => ring.take(n),
            3 => ring.write_back(ring.next(), n, u64::MAX),
            4 => ring.release(n),
            5 => {
                ring.publish();
            }
            6 => {
                ring.arm();
            }
            _ => ring.disarm(),
        }
        assert!(ring.next() < guest.layout.entries);
    }
}

fn transmit(guest: &Guest, settings: u8, orders: &[u8]) {
    let bit = |n: u8| settings & 1 << n != 0;
    let settings = TxSettings {
        pad_short: bit(0),
        vlan: bit(1),
        vlan_type: 0x8100,
        longest: LONGEST,
        low: u16::from(settings >> 3),
        loopback: false,
    };
    let setup = TxSetup {
        layout: guest.layout,
        ends: guest.ends.clone(),
        block: guest.block,
        statistics: Arc::default(),
        settings,
    };
    let mut queue = TxQueue::new(guest.region, &setup).expect("the layout fits");
    let ledger = NicDirection::default();
    for order in orders.chunks_exact(2) {
        guest.mutate(order[0], order[1]);
        let mut shown = 0;
        let drained = queue.drain(usize::from(order[0] & 31) * 3, &ledger, &mut |frames| {
            shown = frames.len();
            for frame in frames {
                let mut copy = [0; LONGEST + 4];
                assert!((14..=LONGEST + 4).contains(&frame.len()));
                assert_eq!(frame.octets().copy_to_slice(&mut copy), frame.len());
            }
        });
        assert!(shown <= BURST && shown <= drained.frames);
        if order[1] & 1 != 0 {
            queue.arm();
        } else {
            queue.disarm();
        }
    }
}

/// Varied receive settings.
fn settings(byte: u8) -> RxSettings {
    let bit = |n: u8| byte & 1 << n != 0;
    let filters = Filters {
        unicast: bit(0),
        multicast: bit(1),
        broadcast: bit(2),
        hash: byte >> 6,
        addresses: std::array::from_fn(|i| (i == 1).then_some([2; 6])),
        hashes: [u32::from(byte) << 7; 128],
        vlans: bit(3).then(|| Box::new([0x5555_5555; 128])),
        canonical: bit(4).then_some(false),
    };
    RxSettings {
        buffer_len: 256 << (byte >> 6),
        longest: if bit(5) { 1518 } else { 16384 },
        fcs: bit(4),
        vlan: bit(2),
        vlan_type: 0x8100,
        filters: Arc::new(filters),
        checksum: RxChecksum { start: byte, ip: bit(6), transport: bit(7) },
        threshold: 2 << (byte & 3).min(2),
        loopback: false,
    }
}

fn receive(guest: &Guest, byte: u8, orders: &[u8]) {
    let setup = RxSetup {
        layout: guest.layout,
        ends: guest.ends.clone(),
        block: guest.block,
        statistics: Arc::default(),
        settings: settings(byte),
    };
    let mut queue = RxQueue::new(guest.region, &setup).expect("the layout fits");
    let ledger = NicDirection::default();
    let (mut given, mut leases) = (0, [Lease::default(), Lease::default()]);
    for order in orders.chunks_exact(2) {
        guest.mutate(order[0], order[1]);
        let mut octets = incoming(order[0], order[1]);
        let frames = vec![Frame::new(Bytes::from_slice(&mut octets)); usize::from(order[0] & 31) * 2];
        match order[1] & 7 {
            0 => queue.change(settings(order[1])),
            // Two threads with a burst each, committed in either order.
            1 | 2 => {
                let [first, second] = &mut leases;
                let half = frames.len() / 2;
                given += deliver(&mut queue, first, &frames[..half], &ledger);
                given += deliver(&mut queue, second, &frames[half..], &ledger);
                let both = if order[1] & 1 != 0 { [first, second] } else { [second, first] };
                for lease in both {
                    queue.commit(lease, &ledger);
                }
            }
            3 => {
                queue.arm();
            }
            4 => queue.disarm(),
            _ => given += queue.fill(&frames, &ledger).taken as u64,
        }
    }
    let drops = [&ledger.drop_filtered, &ledger.drop_too_long, &ledger.drop_too_short, &ledger.drop_bad_ring];
    let dropped: u64 = drops.iter().map(|counter| counter.get()).sum();
    assert_eq!(ledger.frames.get() + dropped, given);
}

fn deliver(queue: &mut RxQueue, lease: &mut Lease, frames: &[Frame<'_>], ledger: &NicDirection) -> u64 {
    let taken = queue.plan(frames, lease, ledger);
    lease.copy(frames);
    assert!(taken <= frames.len());
    taken as u64
}

/// Returns a frame of varying shape: to any address, with a VLAN tag, with an IPv4 or IPv6 header of any length.
fn incoming(a: u8, b: u8) -> Vec<u8> {
    let len = usize::from(a) * usize::from(b) / 4 % INCOMING;
    let mut octets = vec![b; len];
    let kinds: [&[u8]; 4] =
        [&[0x81, 0, a, b, 8, 0, 0x45], &[8, 0, 0x40 | a & 0xf], &[0x86, 0xdd, 0x60], &[0x88, 0xb5]];
    if let Some(rest) = octets.get_mut(..32) {
        rest[..6].fill([2, 1, 0xff, a][usize::from(b & 3)]);
        let kind = kinds[usize::from(a & 3)];
        rest[12..12 + kind.len()].copy_from_slice(kind);
        rest[23] = [6, 17, 0, b][usize::from(a >> 6)];
    }
    octets
}
