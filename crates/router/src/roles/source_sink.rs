//! Both endpoints of a path in one: frames that the source sends out of NIC 0 come back to the sink by another NIC.

use ring::BURST;

use super::{Sink, Source, Tally, Traffic};
use crate::platform::{Buffer, Platform};

/// Maximum number of frames in flight. A ring of 1024 entries whose receive buffers are posted in batches of a quarter
/// always has this many buffers, so the window cannot cause losses on a lossless path.
const WINDOW: u64 = 768;

/// A source that never has more than 768 frames in flight, and the sink for them.
pub struct SourceSink<B> {
    source: Source<B>,
    sink: Sink<B>,
    sent: u64,
}

impl<B: Buffer> SourceSink<B> {
    /// Creates a source that has sent no frame yet, and a sink that has seen none. The flows must start at number 0 and
    /// be no more than a [`Sink`] checks.
    pub fn new(traffic: &Traffic) -> Self {
        Self { source: Source::new(traffic), sink: Sink::new(), sent: 0 }
    }

    /// Returns the sink's counts so far.
    pub const fn tally(&self) -> Tally {
        self.sink.tally()
    }

    /// Makes one pass: takes received frames, and sends a burst if the window has room for it. Returns the frames of
    /// both directions.
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
