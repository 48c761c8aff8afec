//! Software completion of one frame's offloads.

use frame::offload::{HEADERS, LARGEST, Offload, Offloads, Segments};
use ring::Bytes;

use crate::boundary::Frame;

/// Conversion of a frame into one or several frames in our own memory.
pub(super) struct FrameCompletion {
    kind: Kind,
    /// True if the checksum of each is filled in too.
    checksums: bool,
    /// Number of frames to make, and made so far.
    count: usize,
    made: usize,
}

enum Kind {
    /// The frame itself, unsegmented.
    Whole(Offload),
    Cut(Box<Segments>),
}

impl FrameCompletion {
    /// Returns the work on a frame for a sink that accepts these offloads; `None` if the frame's metadata does not fit
    /// it.
    pub(super) fn of(frame: &Frame<'_>, takes: Offloads) -> Option<Self> {
        let (offload, checksums) = (frame.offload(), !takes.has(Offloads::CSUM));
        if offload.gso().is_none() {
            let fits = offload.fits(frame.len()) && frame.len() <= LARGEST;
            return fits.then_some(Self { kind: Kind::Whole(offload), checksums, count: 1, made: 0 });
        }
        let mut head = [0; HEADERS];
        let known = frame.octets().copy_to_slice(&mut head);
        let segments = Segments::new(offload, frame.len(), head.get(..known)?).ok()?;
        let count = segments.count();
        Some(Self { kind: Kind::Cut(Box::new(segments)), checksums, count, made: 0 })
    }

    /// Returns how many frames there will be.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) const fn is_done(&self) -> bool {
        self.made >= self.count
    }

    /// Makes the next frame at the start of `room`; returns it with the remaining room. An error returns the room if it
    /// is too small.
    pub(super) fn next<'r>(
        &mut self,
        frame: &Frame<'_>,
        room: &'r mut [u8],
    ) -> Result<(Frame<'r>, &'r mut [u8]), &'r mut [u8]> {
        let (len, payload) = match &self.kind {
            Kind::Whole(_) => (frame.len(), 0..frame.len()),
            Kind::Cut(segments) => {
                let payload = segments.payload(self.made);
                (segments.headers() + payload.len(), payload)
            }
        };
        if room.len() < len {
            return Err(room);
        }
        let (target, rest) = room.split_at_mut(len);
        let octets = frame.octets().skip(payload.start as u32).take(payload.len() as u32);
        let left = match &self.kind {
            Kind::Whole(offload) => {
                octets.copy_to_slice(target);
                *offload
            }
            Kind::Cut(segments) => {
                octets.copy_to_slice(&mut target[segments.headers()..]);
                segments.write(self.made, target)
            }
        };
        self.made += 1;
        // It fits: that was checked when the work began.
        let left = if self.checksums && left.complete(target) { Offload::DATA_VALID } else { left };
        Ok((Frame::with_offload(Bytes::from_slice(target), left), rest))
    }
}
