//! Both ends of a path in one: what the source sends out of NIC 0 comes back to the sink by another NIC.

use ring::BURST;

use super::{Sink, Source, Tally, Traffic};
use crate::platform::{Buffer, Platform};

/// Most frames under way. A ring of 1024 entries whose receive buffers are posted in lots of a quarter always has so
/// many for them, so a path that loses nothing is never made to.
const WINDOW: u64 = 768;

/// A source that never has more than 768 frames under way, and the sink for them.
pub struct SourceSink<B> {
    source: Source<B>,
    sink: Sink<B>,
    sent: u64,
}

impl<B: Buffer> SourceSink<B> {
    /// A source that has sent nothing yet, and a sink that has seen nothing. The flows must start at number 0 and be
    /// no more than a [`Sink`] checks.
    pub fn new(traffic: &Traffic) -> Self {
        Self { source: Source::new(traffic), sink: Sink::new(), sent: 0 }
    }

    /// What the sink saw so far.
    pub const fn tally(&self) -> Tally {
        self.sink.tally()
    }

    /// One pass: takes what came, and sends a burst if there is room for it on the way. Returns frames of both ways.
    pub fn pass<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        let came = self.sink.pass(platform);
        let Tally { frames, foreign, lost, .. } = self.sink.tally();
        let under_way = self.sent.saturating_sub(frames - foreign + lost);
        if under_way + BURST as u64 > WINDOW {
            return came;
        }
        let sent = self.source.pass(platform);
        self.sent += sent as u64;
        came + sent
    }
}
