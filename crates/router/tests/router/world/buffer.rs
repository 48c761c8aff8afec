//! Buffers of the simulated platform.

use frame::offload::Offload;
use router::{Buffer, HEAD};

/// Capacity of a buffer in octets.
const CAPACITY: usize = 2048;

/// A frame buffer; a longer frame consists of several.
pub(crate) struct Octets {
    pub(super) pieces: Box<Pieces>,
    len: usize,
}

pub(super) struct Pieces {
    first: [u8; CAPACITY],
    further: Vec<u8>,
    pub(super) offload: Offload,
    /// Whether a frame cannot become longer.
    pub(super) cramped: bool,
}

impl Octets {
    pub(crate) fn new(frame: &[u8], offload: Offload) -> Self {
        // Stale octets after a short frame, as in a reused buffer.
        let (here, further) = frame.split_at(frame.len().min(CAPACITY));
        let mut first = [0xee; CAPACITY];
        first[..here.len()].copy_from_slice(here);
        let pieces = Pieces { first, further: further.to_vec(), offload, cramped: false };
        Self { pieces: Box::new(pieces), len: frame.len() }
    }

    pub(super) fn whole(&self) -> Vec<u8> {
        let mut whole = [&self.pieces.first[..], &self.pieces.further].concat();
        whole.truncate(self.len);
        whole
    }
}

impl Buffer for Octets {
    fn head(&mut self) -> &mut [u8; HEAD] {
        self.pieces.first.first_chunk_mut().unwrap()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn set_len(&mut self, octets: usize) {
        self.len = octets.min(CAPACITY + self.pieces.further.len());
    }
    fn octets(&mut self) -> &mut [u8] {
        &mut self.pieces.first[..self.len.min(CAPACITY)]
    }
    fn read(&mut self, at: usize, target: &mut [u8]) -> bool {
        let found = self.whole().get(at..at + target.len()).map(|octets| target.copy_from_slice(octets));
        found.is_some()
    }
    fn wire_len(&self) -> usize {
        router::offload::wire_len(&self.pieces.first[..self.len.min(CAPACITY)], self.pieces.offload, self.len)
    }
    fn offload(&self) -> Offload {
        self.pieces.offload
    }
    fn clear_offload(&mut self) {
        self.pieces.offload = Offload::NONE;
    }
    fn set_offload(&mut self, offload: Offload) {
        self.pieces.offload = offload;
    }
    fn take_out(&mut self, at: usize, octets: usize) -> bool {
        let (mut whole, cramped) = (self.whole(), self.pieces.cramped);
        let Some(offload) = self.pieces.offload.moved(-(octets as i16)) else { return false };
        if at + octets > whole.len() {
            return false;
        }
        whole.drain(at..at + octets);
        *self = Self::new(&whole, offload);
        self.pieces.cramped = cramped;
        true
    }
    fn make_room(&mut self, at: usize, octets: usize) -> bool {
        let mut whole = self.whole();
        let Some(offload) = self.pieces.offload.moved(octets as i16) else { return false };
        if self.pieces.cramped || at > whole.len() {
            return false;
        }
        drop(whole.splice(at..at, std::iter::repeat_n(0xee, octets)));
        *self = Self::new(&whole, offload);
        true
    }
    fn prefetch(&self) {}
}
