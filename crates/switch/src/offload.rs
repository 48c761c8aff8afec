//! The one way from a burst to a sink: what the sink cannot do itself is done here, in software.
//!
//! A burst in which no frame leaves anything to be done costs one OR for each frame.

use frame::offload::Offload;

use crate::port::{Frame, Sink};

/// What was done for a sink on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Frames whose checksum was filled in.
    pub checksums: u64,
    /// Frames that were cut.
    pub segmented: u64,
    /// Segments that they were cut into.
    pub segments: u64,
    /// Frames dropped because they ask for what does not fit them.
    pub drop_bad_offload: u64,
}

/// Delivers a burst to a sink, each frame as the sink can take it: the answer is [`Sink::deliver`]'s, and counts the
/// frames of the slice.
#[inline]
pub fn deliver(sink: &dyn Sink, frames: &[Frame<'_>]) -> usize {
    let asked = frames.iter().fold(0, |asked, frame| asked | frame.offload().bits());
    if !Offload::from_bits(asked).is_work() {
        return sink.deliver(frames);
    }
    sink.deliver(frames)
}
