//! From the kernel: reads into buffers of our own and shows them there.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;

use ring::{BURST, Bytes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use switch::{Bell, Frame, Frames, Source};

use super::{LARGEST_FRAME, Queue, ReadCounters};

/// A buffer: 2048 octets and 64 more, so that neighbours do not fall into the same cache sets, and so that a frame
/// that is too long shows itself.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Slot([u8; LARGEST_FRAME + 64]);

/// What the kernel sends out of one queue of a TAP.
pub struct TapSource {
    queue: Arc<Queue>,
    slots: Box<[Slot]>,
    counters: Arc<ReadCounters>,
}

impl TapSource {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        let slots = vec![Slot([0; LARGEST_FRAME + 64]); BURST].into_boxed_slice();
        Self { queue, slots, counters: Arc::default() }
    }

    /// What it counts, to be read by anyone.
    pub fn counters(&self) -> Arc<ReadCounters> {
        Arc::clone(&self.counters)
    }

    /// What went wrong for good, in one sentence; each device tells it once.
    pub fn take_trouble(&self) -> Option<String> {
        self.queue.device.take_trouble()
    }
}

impl fmt::Debug for TapSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TapSource").field("device", &self.queue.device).finish_non_exhaustive()
    }
}

/// Reads one frame; nothing when none waits or this one cannot be shown. The bell still rings for those behind it.
fn read<'s>(queue: &Queue, slot: &'s mut Slot, counters: &ReadCounters) -> Option<Frame<'s>> {
    match rustix::io::read(&queue.fd, &mut slot.0[..]) {
        Ok(n) if n > LARGEST_FRAME => counters.drop_too_long.add(1),
        Ok(n) => return Some(Frame::new(Bytes::from_slice(&mut slot.0[..n]))),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(Errno::BADFD | Errno::NODEV | Errno::NXIO) => queue.device.vanish(),
        Err(_) => counters.read_errors.add(1),
    }
    None
}

impl Source for TapSource {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        if self.queue.device.is_gone() {
            return 0;
        }
        let mut frames = Frames::new();
        let mut octets = 0;
        for slot in self.slots.iter_mut().take(budget) {
            let Some(frame) = read(&self.queue, slot, &self.counters) else { break };
            octets += frame.len() as u64;
            frames.push(frame);
        }
        let shown = frames.len();
        if shown == 0 {
            self.counters.polls_empty.add(1);
            return 0;
        }
        self.counters.frames.add(shown as u64);
        self.counters.bytes.add(octets);
        self.counters.batches.add(1);
        take(&frames);
        shown
    }

    /// The bell rings as long as frames wait, so nothing has to be armed; one look spares a sleep.
    fn arm(&mut self) -> bool {
        if self.queue.device.is_gone() {
            return false;
        }
        let mut look = [PollFd::new(&self.queue.fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut look, Some(&now)), Ok(1..))
    }

    /// None once the device is gone: its descriptor would ring for ever.
    fn bell(&self) -> Bell<'_> {
        if self.queue.device.is_gone() { Bell::None } else { Bell::Readable(self.queue.fd.as_fd()) }
    }
}
