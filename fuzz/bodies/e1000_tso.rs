//! A driver that writes arbitrary data into the e1000's transmit ring: contexts with any values, packets without an
//! end, buffers anywhere, all of it changed while the device works. Finds panics, hangs, accesses outside guest
//! memory, frames that are too long, and more frames than the descriptors account for.
//!
//! The input consists of three octets with the initial configuration, then steps of 18 octets: the action, the amount,
//! and a descriptor.

use std::sync::Arc;

use ledger::NicDirection;
use nic::e1000::tx::{SHORTEST, TxQueue};
use nic::e1000::{Statistics, TxSettings, TxSetup};
use ring::e1000::{DESCRIPTOR, HeadTail, Layout};
use ring::{BURST, Region};

/// Guest-physical address of the memory, and its length in octets.
const START: u64 = 0x1_0000;
const LEN: u64 = 0x2_0000;
/// More than the longest frame.
const LONGEST: usize = 0x8000;
/// Address of the status block.
const BLOCK: u64 = START + 0x1000;
/// Most bursts for which one step waits until the ring is empty; a packet segmented into single octets takes more.
const MOST_DRAINS: usize = 8;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&[kind, size, longest], steps)) = input.split_first_chunk() else { return };
    let mut lines = vec![Line([0; 64]); LEN as usize / 64];
    // SAFETY: `lines` outlives all that uses the region, which nothing else refers to meanwhile.
    let region = unsafe { Region::new(lines.as_mut_ptr().cast(), START, LEN) };
    let mut guest = Guest::new(region, kind, size, longest);
    for step in steps.as_chunks::<18>().0 {
        guest.step(step);
    }
    guest.drain(BURST);
}

/// Cache line of memory, aligned as a status block requires.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "reached through the region alone")] [u8; 64]);

struct Guest {
    region: Region,
    layout: Layout,
    ends: Arc<HeadTail>,
    block: bool,
    settings: TxSettings,
    /// Position of the next descriptor to write.
    next: u16,
    queue: TxQueue,
    ledger: NicDirection,
}

impl Guest {
    fn new(region: Region, kind: u8, size: u8, longest: u8) -> Self {
        let layout = Layout::new(START, 128 * (1 + u32::from(size % 16))).expect("a good ring");
        let (ends, block) = (Arc::new(HeadTail::new()), kind & 1 != 0);
        let settings = TxSettings {
            pad_short: kind & 2 != 0,
            vlan: kind & 4 != 0,
            vlan_type: 0x8100,
            longest: 14 + 68 + 64 * usize::from(longest),
            low: u16::from(kind >> 4),
            loopback: false,
        };
        let setup = TxSetup {
            layout,
            ends: ends.clone(),
            block: block.then_some(BLOCK),
            statistics: Arc::new(Statistics::default()),
            settings,
        };
        let queue = TxQueue::new(region, &setup).expect("the ring lies in memory");
        Self { region, layout, ends, block, settings, next: 0, queue, ledger: NicDirection::default() }
    }

    fn step(&mut self, step: &[u8; 18]) {
        let [what, amount, descriptor @ ..] = step;
        match what & 0xf {
            0..=5 => self.push(descriptor),
            6 | 7 => self.push(&context(descriptor)),
            8 | 9 => self.publish(self.next),
            10 => self.publish(u16::from(*amount)),
            11 => self.write(START + u64::from(*amount) * 8, &descriptor[..8]),
            12 => {
                let (vlan, pad_short) = (amount & 1 != 0, amount & 2 != 0);
                self.queue.change(TxSettings { vlan, pad_short, ..self.settings });
            }
            13 => {
                let waits = self.queue.arm();
                assert!(!waits || self.queue.broken().is_none());
                self.queue.disarm();
            }
            _ => self.drain(usize::from(*amount)),
        }
    }

    fn write(&self, address: u64, octets: &[u8]) {
        if let Some(bytes) = self.region.bytes(address, octets.len() as u32) {
            bytes.copy_from_slice(octets);
        }
    }

    /// Adds a descriptor whose buffer is moved close to the memory, because otherwise nothing would pass the first
    /// check.
    fn push(&mut self, descriptor: &[u8; 16]) {
        let mut descriptor = *descriptor;
        let address = u64::from_le_bytes(*descriptor.first_chunk().expect("8 octets"));
        if address >> 63 == 0 {
            let near = START + address % (LEN - 0x2000);
            descriptor[..8].copy_from_slice(&near.to_le_bytes());
        }
        self.write(START + u64::from(DESCRIPTOR) * u64::from(self.next), &descriptor);
        self.next = (self.next + 1) % self.layout.entries;
    }

    fn publish(&self, tail: u16) {
        if self.block { self.write(BLOCK, &tail.to_le_bytes()) } else { self.ends.set_tail(tail) }
    }

    /// Drains until the ring is empty, with a bound.
    fn drain(&mut self, budget: usize) {
        let mut copy = [0; LONGEST];
        for _ in 0..MOST_DRAINS {
            let (mut shown, longest) = (0, self.settings.longest + 4);
            let drained = self.queue.drain(budget, &self.ledger, &mut |frames| {
                assert!(shown == 0 && (1..=budget.min(BURST)).contains(&frames.len()));
                shown = frames.len();
                for frame in frames {
                    assert!((SHORTEST..=longest.max(60)).contains(&frame.len()));
                    assert_eq!(frame.octets().copy_to_slice(&mut copy), frame.len());
                }
            });
            assert!(shown <= drained.frames);
            assert!(self.queue.broken().is_none() || !self.queue.has_frames());
            if budget == 0 || !self.queue.has_frames() {
                break;
            }
        }
    }
}

/// Context for segmentation with typical headers; the address half is kept.
fn context(given: &[u8; 16]) -> [u8; 16] {
    let mut context = *given;
    if given[0] & 1 == 0 {
        context[..8].copy_from_slice(&[14, 24, 33, 0, 34, 50, 0, 0]);
    }
    context[10] &= 0x0f;
    context[11] |= 0x24;
    context[13] = 54 + (given[13] & 31);
    context
}
