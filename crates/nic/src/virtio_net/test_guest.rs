//! A simulated guest for the data path's tests: one queue, with the driver's end from `ring`.

use ring::Region;
use ring::split::{DeviceQueue, Driver, DriverQueue, Features, Layout, Segment, Slot};

/// Guest-physical address of the memory.
const START: u64 = 0x10_0000;
/// Size of the memory in octets.
const LEN: usize = 1 << 20;
/// Address of the first buffer.
const BUFFERS: u64 = START + 0x1_0000;

pub(super) struct Guest {
    pub(super) region: Region,
    pub(super) layout: Layout,
    pub(super) driver: Driver<'static, u16>,
    features: Features,
    /// Next address for [`Guest::place`].
    next: u64,
}

impl Guest {
    pub(super) fn new(size: u16) -> Self {
        let region = Region::from_static(Box::leak(vec![0; LEN].into_boxed_slice()), START);
        let slots = Box::leak(vec![Slot::EMPTY; size.into()].into_boxed_slice());
        let (layout, features) =
            (Layout::contiguous(size, START), Features { indirect: true, ..Features::default() });
        let driver = Driver::new(region, &layout, features, slots).unwrap();
        Self { region, layout, driver, features, next: BUFFERS }
    }

    /// Creates the device's end.
    pub(super) fn device(&self) -> DeviceQueue {
        DeviceQueue::new(self.region, &self.layout, self.features).unwrap()
    }

    /// Stores octets in memory; returns their address.
    pub(super) fn place(&mut self, octets: &[u8]) -> u64 {
        let at = self.room(octets.len());
        self.region.bytes(at, octets.len() as u32).unwrap().copy_from_slice(octets);
        at
    }

    /// Allocates memory.
    pub(super) fn room(&mut self, len: usize) -> u64 {
        let at = self.next;
        self.next += len.next_multiple_of(64) as u64;
        assert!(self.next < START + LEN as u64, "the guest's memory is full");
        at
    }

    /// Sends header and frame as a chain of pieces of these lengths; the last one takes the rest.
    pub(super) fn send(&mut self, token: u16, frame: &[u8], pieces: &[usize]) -> Vec<Segment> {
        self.send_headed(token, [0; 10], frame, pieces)
    }

    /// Sends a frame as a chain, with this header.
    pub(super) fn send_headed(
        &mut self,
        token: u16,
        header: [u8; 10],
        frame: &[u8],
        pieces: &[usize],
    ) -> Vec<Segment> {
        let mut whole = [&header[..], &[0, 0], frame].concat();
        let mut segments = Vec::new();
        for &len in pieces.iter().chain([&usize::MAX]) {
            let rest = whole.split_off(len.min(whole.len()));
            let address = self.place(&whole);
            segments.push(Segment { address, len: whole.len() as u32, writable: false });
            whole = rest;
            if whole.is_empty() {
                break;
            }
        }
        assert!(self.driver.push_chain(token, &segments));
        self.driver.publish();
        segments
    }

    /// Posts a chain of buffers of these lengths; returns their addresses.
    pub(super) fn post(&mut self, token: u16, lengths: &[usize]) -> Vec<Segment> {
        let segments: Vec<Segment> = lengths
            .iter()
            .map(|&len| Segment { address: self.room(len), len: len as u32, writable: true })
            .collect();
        assert!(self.driver.push_chain(token, &segments));
        self.driver.publish();
        segments
    }

    /// Returns token and octets written of each returned chain.
    pub(super) fn back(&mut self) -> Vec<(u16, u32)> {
        let mut back = Vec::new();
        self.driver.pop(usize::MAX, |token, written| back.push((token, written))).unwrap();
        back
    }

    /// Returns the concatenated contents of buffers.
    pub(super) fn content(&self, segments: &[Segment]) -> Vec<u8> {
        let mut all = Vec::new();
        for segment in segments {
            let mut octets = vec![0; segment.len as usize];
            self.region.bytes(segment.address, segment.len).unwrap().copy_to_slice(&mut octets);
            all.extend(octets);
        }
        all
    }

    /// Breaks the ring by an index that jumps.
    pub(super) fn break_ring(&self) {
        self.region.bytes(self.layout.available + 2, 2).unwrap().write(0, 30000u16.to_le_bytes());
    }
}

/// Returns a frame of `len` octets that differs for each `seed`.
pub(super) fn frame(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed * 31 + i * 7) as u8).collect()
}
