//! The null port: a source without frames, and a sink that counts and forgets.

use frame::offload::Offloads;
use ledger::Counter;

use crate::boundary::{Frame, Sink, Source};

/// No frame ever comes from it, and every frame may go to it.
#[derive(Debug, Default)]
pub struct Null {
    frames: Counter,
    octets: Counter,
}

impl Null {
    /// A null port.
    pub const fn new() -> Self {
        Self { frames: Counter::new(), octets: Counter::new() }
    }

    /// Frames that it swallowed.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }

    /// Octets of those frames.
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
