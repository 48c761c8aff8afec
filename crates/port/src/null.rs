//! The null port: a source without frames, and a sink that counts and discards.

use frame::offload::Offloads;
use ledger::Counter;

use crate::boundary::{Frame, Sink, Source};

/// Port that never yields a frame, and discards every frame delivered to it.
#[derive(Debug, Default)]
pub struct Null {
    frames: Counter,
    octets: Counter,
}

impl Null {
    /// Creates a null port.
    pub const fn new() -> Self {
        Self { frames: Counter::new(), octets: Counter::new() }
    }

    /// Returns how many frames it discarded.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }

    /// Returns the total length of those frames in octets.
    pub fn octets(&self) -> u64 {
        self.octets.get()
    }
}

impl Source for Null {
    fn drain(&mut self, _budget: usize, _take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        0
    }
}

impl Sink for Null {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.frames.add_shared(frames.len() as u64);
        self.octets.add_shared(crate::octets(frames));
        frames.len()
    }

    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}
