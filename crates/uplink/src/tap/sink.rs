//! Transmit direction of a TAP: writes each frame to the kernel directly from the sender's buffer.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use frame::offload::VIRTIO;
use port::{Completed, Frame, Offloads, Sink};

use super::{Queue, WriteCounters};

/// Sink that delivers frames to the kernel through one queue of a TAP. The kernel handles a frame within the
/// call (up to a socket or the next device), so the delivering thread pays for it.
#[derive(Debug)]
pub struct TapSink {
    queue: Arc<Queue>,
    counters: Arc<WriteCounters>,
}

/// Consequence of a failed write for the rest of the burst.
enum Refusal {
    /// Only this frame is bad.
    Frame,
    /// The interface accepts no frames at the moment.
    All,
}

impl TapSink {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { queue, counters: Arc::default() }
    }

    /// Returns its counters, which any thread may read.
    pub fn counters(&self) -> Arc<WriteCounters> {
        Arc::clone(&self.counters)
    }

    fn write(&self, frame: &Frame<'_>) -> io::Result<usize> {
        let (octets, mut header) = (frame.octets(), frame.offload().to_virtio());
        let parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: VIRTIO },
            libc::iovec { iov_base: octets.as_ptr().cast(), iov_len: octets.len() },
        ];
        // SAFETY: the header is ours, and the sender keeps the octets mapped and readable while it shows
        // them. Only the kernel reads them, so no reference is made, and a sender that changes them meanwhile
        // only corrupts its own frame.
        let n =
            unsafe { libc::writev(self.queue.fd.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Counts a frame, or it and all behind it (`rest` frames), as lost.
    fn refused(&self, error: &io::Error, rest: u64) -> Refusal {
        let counters = &self.counters;
        match error.raw_os_error() {
            Some(libc::EINVAL) => {
                counters.drop_malformed.add_shared(1);
                return Refusal::Frame;
            }
            Some(libc::EAGAIN) => counters.drop_full.add_shared(rest),
            Some(libc::ENOBUFS | libc::ENOMEM) => counters.drop_no_memory.add_shared(rest),
            Some(libc::EIO) => counters.drop_down.add_shared(rest),
            Some(libc::EBADFD | libc::ENODEV | libc::ENXIO) => {
                self.queue.device.health.vanish();
                counters.drop_gone.add_shared(rest);
            }
            _ => counters.drop_other.add_shared(rest),
        }
        Refusal::All
    }
}

impl Sink for TapSink {
    /// A frame that the kernel refuses individually is counted and skipped; it is included in the number of
    /// frames returned as taken. If the interface accepts no frames, the rest is lost without further calls.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        if self.queue.device.health.is_gone() {
            self.counters.drop_gone.add_shared(frames.len() as u64);
            return 0;
        }
        let (mut handled, mut written, mut octets, mut to_segment) = (0, 0, 0, 0);
        while let Some(frame) = frames.get(handled) {
            match self.write(frame) {
                Ok(n) => {
                    written += 1;
                    octets += n.saturating_sub(VIRTIO) as u64;
                    to_segment += u64::from(frame.offload().gso().is_some());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    if matches!(self.refused(&e, (frames.len() - handled) as u64), Refusal::All) {
                        break;
                    }
                }
            }
            handled += 1;
        }
        if written > 0 {
            self.counters.frames.add_shared(written);
            self.counters.bytes.add_shared(octets);
            self.counters.batches.add_shared(1);
        }
        if to_segment > 0 {
            self.counters.to_segment.add_shared(to_segment);
        }
        handled
    }

    fn offloads(&self) -> Offloads {
        self.queue.device.offer.takes()
    }

    fn completed(&self, done: &Completed) {
        self.counters.checksums.add_shared(done.checksums);
        self.counters.segmented.add_shared(done.segmented);
        self.counters.segments.add_shared(done.segments);
        self.counters.drop_bad_offload.add_shared(done.drop_bad_offload);
    }
}
