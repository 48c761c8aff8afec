//! Receive direction of a TAP: reads frames into buffers of its own and shows them there.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::{fmt, io};

use frame::offload::{LARGEST, VIRTIO};
use port::{Bell, Frame, Frames, Offload, Offloads, Source};
use ring::{BURST, Bytes, Slots};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{LARGEST_FRAME, Queue, ReadCounters};
use crate::steering::{LOOKED_AT, is_urgent};

/// Octets of a slot before the frame: one cache line, which ends with the header, so that the frame begins on
/// a line.
const HEADROOM: usize = 64;
/// Octets of a slot: room for the largest frame, and some more, so that longer ones are detected.
const SLOT: usize = HEADROOM + LARGEST + 64;

/// What a source shows of the frames in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// All.
    All,
    /// All, which are copies of urgent frames.
    Copies,
    /// Those of which there are no copies in another queue.
    NotCopied,
}

/// Source of the frames that the kernel sends out of one queue of a TAP.
pub struct TapSource {
    queue: Arc<Queue>,
    share: Share,
    slots: Slots,
    counters: Arc<ReadCounters>,
}

impl TapSource {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { queue, share: Share::All, slots: Slots::new(BURST, SLOT), counters: Arc::default() }
    }

    pub(super) fn with(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// Returns its counters, which any thread may read.
    pub fn counters(&self) -> Arc<ReadCounters> {
        Arc::clone(&self.counters)
    }
}

impl fmt::Debug for TapSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TapSource").field("device", &self.queue.device).finish_non_exhaustive()
    }
}

/// Returns true if a frame is shown by the source of the queue with copies of urgent frames.
fn is_copied(frame: &Frame<'_>) -> bool {
    let mut head = [0; LOOKED_AT];
    let len = frame.octets().copy_to_slice(&mut head);
    is_urgent(head.get(..len).unwrap_or_default())
}

/// Reads one frame; returns `None` if there is none or it is invalid. The descriptor stays readable for those
/// behind it.
fn read<'s>(queue: &Queue, slot: Bytes<'s>, counters: &ReadCounters) -> Option<Frame<'s>> {
    let room = slot.skip((HEADROOM - VIRTIO) as u32);
    match read_into(queue, &room) {
        Ok(len) => return show(room, len, counters),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(Errno::BADFD | Errno::NODEV | Errno::NXIO) => queue.device.health.vanish(),
        Err(_) => counters.read_errors.add(1),
    }
    None
}

/// Returns the frame in `room`, of which `len` octets were read, including its header.
fn show<'s>(room: Bytes<'s>, len: usize, counters: &ReadCounters) -> Option<Frame<'s>> {
    let Some(header) = room.take(len as u32).read::<VIRTIO>(0) else {
        counters.read_errors.add(1);
        return None;
    };
    let octets = room.take(len as u32).skip(VIRTIO as u32);
    let Some(offload) = Offload::from_virtio(header).ok().filter(|offload| offload.fits(octets.len())) else {
        counters.drop_bad_offload.add(1);
        return None;
    };
    let longest = if offload.gso().is_some() { LARGEST } else { LARGEST_FRAME };
    if octets.len() > longest {
        counters.drop_too_long.add(1);
        return None;
    }
    if offload.gso().is_some() {
        counters.to_segment.add(1);
    }
    Some(Frame::with_offload(octets, offload))
}

fn read_into(queue: &Queue, room: &Bytes<'_>) -> Result<usize, Errno> {
    // SAFETY: the slot belongs to this source alone while that is borrowed, `room` is inside it, and there
    // are no references to its octets.
    let read = unsafe { libc::read(queue.fd.as_raw_fd(), room.as_ptr().cast(), room.len()) };
    usize::try_from(read).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

impl Source for TapSource {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        if self.queue.device.health.is_gone() {
            return 0;
        }
        let leaves_out = self.share == Share::NotCopied && self.queue.device.health.has_copies();
        let mut frames = Frames::new();
        let mut octets = 0;
        for slot in 0..budget.min(BURST) {
            let Some(slot) = self.slots.get(slot, SLOT) else { break };
            let Some(frame) = read(&self.queue, slot, &self.counters) else { break };
            if leaves_out && is_copied(&frame) {
                self.counters.copied.add(1);
                continue;
            }
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

    /// The descriptor is readable as long as frames wait, so it need not be armed; one check avoids a sleep.
    fn arm(&mut self) -> bool {
        if self.queue.device.health.is_gone() {
            return false;
        }
        let mut look = [PollFd::new(&self.queue.fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut look, Some(&now)), Ok(1..))
    }

    /// The descriptor of a deleted device would always be ready: then returns the one that is signalled when
    /// the device exists again.
    fn bell(&self) -> Bell<'_> {
        let device = &self.queue.device;
        if device.health.is_gone() {
            Bell::Event(device.health.revived())
        } else {
            Bell::Readable(self.queue.fd.as_fd())
        }
    }

    /// Has the kernel leave those offloads to us that the other end accepts; it does the rest itself. Copies are as the device has
    /// received them.
    fn set_sink_offloads(&mut self, takes: Offloads) {
        if self.share == Share::Copies {
            return;
        }
        self.queue.device.offer.set_sink_offloads(self.queue.fd.as_fd(), takes);
    }
}
