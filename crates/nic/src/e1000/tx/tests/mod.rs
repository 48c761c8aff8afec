//! Each bit of each descriptor, alone and in combination, compared with frames that the tests construct by
//! the specification.

mod causes;
mod hostile;
mod left;
mod model;
mod offloads;
mod properties;
mod segments;
mod whole;

use std::sync::Arc;

use ledger::NicDirection;
use ring::e1000::{Context, Data, Layout, Legacy};

use super::super::statistics::Registers;
use super::*;

/// Guest-physical address of the memory, and its size in octets.
const START: u64 = 0x1_0000;
const LEN: usize = 0x8_0000;
/// Address of the first buffer.
const BUFFERS: u64 = START + 0x4_0000;
/// Address of the status block.
const BLOCK: u64 = START + 0x3_0000;

/// MTU 1500, tags with the usual EtherType, padding.
const SETTINGS: TxSettings =
    TxSettings { pad_short: true, vlan: true, vlan_type: 0x8100, longest: 1514, low: 0, loopback: false };

/// A guest with one transmit ring, and the device's end of it.
struct Guest {
    region: Region,
    layout: Layout,
    ends: Arc<HeadTail>,
    /// Position of the next descriptor to write.
    next: u16,
    /// Address of the next free buffer.
    free: u64,
    queue: TxQueue,
    registers: Registers,
    ledger: NicDirection,
}

impl Guest {
    fn new(entries: u16) -> Self {
        Self::with(entries, SETTINGS)
    }

    fn with(entries: u16, settings: TxSettings) -> Self {
        Self::build(entries, settings, false, LEN)
    }

    /// Creates a guest with the status block.
    fn with_block(entries: u16) -> Self {
        Self::build(entries, SETTINGS, true, LEN)
    }

    fn build(entries: u16, settings: TxSettings, block: bool, len: usize) -> Self {
        let region = Region::from_static(memory(len), START);
        let layout = Layout::new(START, u32::from(entries) * 16).unwrap();
        let (ends, registers) = (Arc::new(HeadTail::new()), Registers::new());
        let setup = TxSetup {
            layout,
            ends: ends.clone(),
            block: block.then_some(BLOCK),
            statistics: registers.counted(),
            settings,
        };
        let queue = TxQueue::new(region, &setup).unwrap();
        let ledger = NicDirection::default();
        Self { region, layout, ends, next: 0, free: BUFFERS, queue, registers, ledger }
    }

    /// Stores octets in a buffer; returns its address.
    fn store(&mut self, octets: &[u8]) -> u64 {
        let at = self.free;
        self.free += (octets.len() as u64).next_multiple_of(64).max(64);
        assert!(self.free <= START + self.region.len(), "the guest has no memory left");
        assert_eq!(self.region.bytes(at, octets.len() as u32).unwrap().copy_from_slice(octets), octets.len());
        at
    }

    /// Writes a descriptor; the device sees it after [`Self::publish`].
    fn push(&mut self, descriptor: impl Into<Descriptor>) {
        let Descriptor { address, rest } = descriptor.into();
        let place = self.place(self.next);
        place.write(0, address.to_le_bytes());
        place.write(8, rest.to_le_bytes());
        self.next = (self.next + 1) % self.layout.entries;
    }

    fn place(&self, position: u16) -> Bytes<'static> {
        self.region.bytes(self.layout.base + 16 * u64::from(position), 16).unwrap()
    }

    /// Returns the second word of a descriptor.
    fn word(&self, position: u16) -> u64 {
        u64::from_le_bytes(self.place(position).read(8).unwrap())
    }

    fn is_done(&self, position: u16) -> bool {
        self.word(position) >> 32 & u64::from(tx::DD) != 0
    }

    /// Writes TDT, or the tail in the block.
    fn publish(&mut self) {
        if self.queue.ring.has_block() {
            self.region.bytes(BLOCK, 2).unwrap().write(0, self.next.to_le_bytes());
        } else {
            self.ends.set_tail(self.next);
        }
    }

    /// Pushes a legacy descriptor with these octets.
    fn legacy(&mut self, octets: &[u8], command: u8) {
        let address = self.store(octets);
        self.push(Legacy { address, length: octets.len() as u16, command, ..Legacy::default() });
    }

    /// Pushes a data descriptor with these octets.
    fn data(&mut self, octets: &[u8], command: u8, options: u8) {
        let address = self.store(octets);
        self.push(Data { address, length: octets.len() as u32, command, options, ..Data::default() });
    }

    /// Drains once; returns the frames, and the result.
    fn drain(&mut self, budget: usize) -> (Vec<Vec<u8>>, Drained) {
        let mut shown = Vec::new();
        let mut calls = 0;
        let drained = self.queue.drain(budget, &self.ledger, &mut |frames| {
            calls += 1;
            assert!(!frames.is_empty() && frames.len() <= budget.min(BURST));
            for frame in frames {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                shown.push(octets);
            }
        });
        assert!(calls <= 1);
        assert!(shown.len() <= drained.frames);
        (shown, drained)
    }

    /// Publishes, and drains until no frame is left; returns all frames, and all causes.
    fn send(&mut self) -> (Vec<Vec<u8>>, u32) {
        self.publish();
        let (mut frames, mut causes) = (Vec::new(), 0);
        while self.queue.has_frames() {
            let (shown, drained) = self.drain(BURST);
            frames.extend(shown);
            causes |= drained.causes;
        }
        (frames, causes)
    }

    /// As [`Self::send`], but returns only the frames.
    fn frames(&mut self) -> Vec<Vec<u8>> {
        self.send().0
    }
}

/// Allocates memory for the duration of the test, aligned for a status block.
fn memory(len: usize) -> &'static mut [u8] {
    let octets = Box::leak(vec![0; len + 64].into_boxed_slice());
    let skip = octets.as_ptr().align_offset(64);
    &mut octets[skip..skip + len]
}

/// Returns octets that depend on the seed.
fn octets(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed * 31 + i * 7 + i / 251) as u8).collect()
}

/// Returns a frame that depends on the seed, with a type that is not a length.
fn frame(seed: usize, len: usize) -> Vec<u8> {
    let mut frame = octets(seed, len);
    if let Some(kind) = frame.get_mut(12..14) {
        kind.copy_from_slice(&[0x88, 0xb5]);
    }
    frame
}
