//! A guest that changes words of an e1000's ring, status block and frames between two reads of the device. Finds the
//! faults that [`double_fetch`](super) finds, and a head that differs from the device's position.

use std::sync::Arc;

use frame::offload::LARGEST;
use ledger::NicDirection;
use nic::e1000::rx::RxQueue;
use nic::e1000::tx::TxQueue;
use nic::e1000::{Filters, RxChecksum, RxSettings, RxSetup, TxSettings, TxSetup};
use port::{Frame, Offloads, show_completed};
use ring::e1000::{Csb, Descriptor, DeviceRing, HeadTail, Layout, tx};
use ring::{BURST, Bytes, Region};

use super::{LEN, LONGEST, START, STEPS, look_at, plan};

/// Address of the status block.
const BLOCK: u64 = START + 0x800;

/// Guest memory, and the host's state of the ring.
struct World {
    region: Region,
    layout: Layout,
    block: bool,
    ends: Arc<HeadTail>,
}

/// Runs one input.
pub(super) fn run(kind: u8, shape: u8, settings: u8, takes: u8, rest: &[u8]) {
    let (steps, content) = rest.split_at(rest.len().min(STEPS * 12));
    // One cache line more than is used, so that the start can be aligned to 64.
    let mut octets = vec![0u128; LEN as usize / 16 + 4];
    let base = octets.as_mut_ptr().cast::<u8>();
    let base = base.wrapping_add(base.align_offset(64));
    // SAFETY: at most 64 octets were skipped, and the buffer is that much longer; `octets` outlives all uses of the
    // region, and is not referenced otherwise meanwhile.
    let region = unsafe { Region::new(base, START, LEN) };
    let layout = Layout { base: START, entries: 8 * u16::from(1 + shape % 8) };
    let world = World { region, layout, block: kind & 1 != 0, ends: Arc::new(HeadTail::new()) };
    world.fill(content);
    if kind & 2 != 0 {
        world.ends.set_head(u16::from(shape) % layout.entries);
    }
    let steps = steps.as_chunks::<12>().0;
    match kind >> 6 {
        0 => world.bare(kind & 4 != 0, steps),
        1 | 2 => world.transmit(settings, Offloads::from_bits(takes).consistent(), steps),
        _ => world.receive(settings, steps),
    }
}

impl World {
    /// Fills memory with the fuzzer's input; addresses in the ring are moved close to the memory. Context descriptors
    /// have none.
    fn fill(&self, content: &[u8]) {
        self.region.bytes(START, LEN as u32).expect("all of it").copy_from_slice(content);
        for entry in 0..u64::from(self.layout.entries) {
            let at = self.region.bytes(START + 16 * entry, 16).expect("in the ring");
            let [address, rest] = at.read_words(0).expect("16 octets");
            let descriptor = Descriptor { address, rest };
            if descriptor.command() & tx::DEXT == 0 || descriptor.kind() != tx::CONTEXT {
                at.write(0, (START - 8 + address % (LEN + 16)).to_le_bytes());
            }
        }
    }

    /// Actions of the guest before a step, and the stores during it.
    fn mutate(&self, step: &[u8; 12]) {
        if step[0] & 0x40 != 0 {
            let tail = u16::from(step[1]) % self.layout.entries;
            self.ends.set_tail(tail);
            for word in [BLOCK, BLOCK + 64] {
                self.region.bytes(word, 2).expect("in the block").write(0, tail.to_le_bytes());
            }
        }
        plan(step, |low, high| self.region.bytes(self.place(low, high), 2));
    }

    /// Returns a word that the guest may change: a tail or a notification request, a word of a descriptor, or any word.
    fn place(&self, low: u8, high: u8) -> u64 {
        match high >> 6 {
            0 => START + 2 * (u64::from(high & 0x3f) << 8 | u64::from(low)) % LEN,
            1 | 2 => START + 16 * u64::from(u16::from(low) % self.layout.entries) + 2 * u64::from(high & 7),
            _ => BLOCK + [0, 64, 128, 130][usize::from(low & 3)],
        }
    }

    /// Returns the position `n` after another one.
    fn after(&self, position: u16, n: usize) -> u16 {
        ((usize::from(position) + n) % usize::from(self.layout.entries)) as u16
    }

    /// Tests the device side of a ring alone.
    fn bare(&self, transmits: bool, steps: &[[u8; 12]]) {
        let csb = self.block.then(|| Csb::map(&self.region, BLOCK).expect("it lies in memory"));
        let make = if transmits { DeviceRing::transmit } else { DeviceRing::receive };
        let ends: &HeadTail = &self.ends;
        let mut ring = make(self.region, &self.layout, ends, csb).expect("the layout fits");
        for step in steps {
            self.mutate(step);
            let (first, max) = (ring.next(), usize::from(step[1]));
            let waiting = ring.ready(max).unwrap_or(0);
            assert!(waiting < usize::from(self.layout.entries));
            let read: Vec<_> = ring.descriptors(max).collect();
            assert!(read.len() <= waiting.min(max));
            ring.take(read.len());
            for (n, descriptor) in read.iter().enumerate() {
                ring.write_back(first, n, descriptor.done());
            }
            ring.release(read.len());
            ring.publish();
            assert_eq!((ring.next(), ends.head()), (self.after(first, read.len()), ring.next()));
            if step[0] & 0x80 == 0 {
                assert!(!ring.arm() || ring.broken().is_none());
            } else {
                ring.disarm();
            }
        }
    }

    fn transmit(&self, settings: u8, takes: Offloads, steps: &[[u8; 12]]) {
        let setup = TxSetup {
            layout: self.layout,
            ends: self.ends.clone(),
            block: self.block.then_some(BLOCK),
            statistics: Arc::default(),
            settings: sending(settings),
        };
        let mut queue = TxQueue::new(self.region, &setup).expect("the layout fits");
        queue.set_sink_offloads(takes);
        let (ledger, mut returned) = (NicDirection::default(), 0);
        for step in steps {
            self.mutate(step);
            let (mut shown, budget) = (0, usize::from(step[0] & 0x3f));
            let drained = queue.drain(budget, &ledger, &mut |frames| {
                assert!(shown == 0 && frames.len() <= budget.min(BURST));
                shown = frames.len();
                // Including a VLAN tag.
                let longest =
                    |frame: &Frame<'_>| 4 + if frame.offload().gso().is_some() { LARGEST } else { LONGEST };
                frames.iter().for_each(|frame| look_at(frame, longest(frame)));
                show_completed(frames, &mut |frames| frames.iter().for_each(|frame| look_at(frame, LARGEST)));
            });
            assert!(shown <= drained.frames);
            returned += drained.frames as u64;
            assert!(self.ends.head() < self.layout.entries);
            match step[0] & 0x80 {
                0 => assert!(!queue.arm() || queue.broken().is_none() || queue.has_frames()),
                _ => queue.disarm(),
            }
        }
        let dropped = [&ledger.drop_too_long, &ledger.drop_too_short, &ledger.drop_bad_offload];
        let out = ledger.frames.get() + dropped.map(|counter| counter.get()).iter().sum::<u64>();
        assert_eq!(out, returned, "in = out + named drops");
    }

    fn receive(&self, settings: u8, steps: &[[u8; 12]]) {
        let setup = RxSetup {
            layout: self.layout,
            ends: self.ends.clone(),
            block: self.block.then_some(BLOCK),
            statistics: Arc::default(),
            settings: receiving(settings),
        };
        let mut queue = RxQueue::new(self.region, &setup).expect("the layout fits");
        let (ledger, mut given) = (NicDirection::default(), 0);
        let mut octets = [0x5a; LONGEST];
        let all = Bytes::from_slice(&mut octets);
        for step in steps {
            self.mutate(step);
            let frame = Frame::new(all.take(u32::from(step[1]) * 5));
            let frames = vec![frame; usize::from(step[0] & 0x3f)];
            let filled = queue.fill(&frames, &ledger);
            assert!(filled.taken <= frames.len());
            given += filled.taken as u64;
            assert!(self.ends.head() < self.layout.entries);
            if step[0] & 0x80 == 0 {
                assert!(!queue.arm() || queue.broken().is_none());
            } else {
                queue.disarm();
            }
        }
        let drops =
            [&ledger.drop_filtered, &ledger.drop_too_long, &ledger.drop_too_short, &ledger.drop_bad_ring];
        let dropped: u64 = drops.iter().map(|counter| counter.get()).sum();
        assert_eq!(ledger.frames.get() + dropped, given, "in = out + named drops");
    }
}

fn sending(byte: u8) -> TxSettings {
    TxSettings {
        pad_short: byte & 1 != 0,
        vlan: byte & 2 != 0,
        vlan_type: 0x8100,
        longest: LONGEST,
        low: u16::from(byte >> 3),
        loopback: false,
    }
}

/// Settings with which most frames pass the filters; the checks before that vary.
fn receiving(byte: u8) -> RxSettings {
    let bit = |n: u8| byte & 1 << n != 0;
    let filters = Filters {
        unicast: !bit(0),
        multicast: true,
        broadcast: true,
        hash: 0,
        addresses: [None; 16],
        hashes: [0; 128],
        vlans: bit(1).then(|| Box::new([0x5555_5555; 128])),
        canonical: None,
    };
    RxSettings {
        buffer_len: 256 << (byte >> 6),
        longest: if bit(2) { 1518 } else { 16384 },
        fcs: bit(3),
        vlan: bit(4),
        vlan_type: 0x8100,
        filters: Arc::new(filters),
        checksum: RxChecksum { start: 14, ip: bit(5), transport: bit(5) },
        threshold: 2,
        loopback: false,
    }
}
