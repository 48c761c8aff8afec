//! Transmit direction of an interface: copies frames into the memory that the kernel sends from.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use frame::ethernet::{HEADER, SHORTEST};
use port::{Frame, Sink};
use ring::BURST;

use super::XdpWriteCounters;
use super::abi::{self, CONTINUES, Descriptor};
use super::device::Queue;
use super::rings::{Consumer, Producer};

/// Maximum number of calls in a row for entries that the kernel has not taken: in copy mode it takes 32
/// frames per call.
const CALLS: usize = 4;

/// Transmit half of one queue.
#[derive(Debug)]
pub(super) struct Sender {
    transmit: Producer<Descriptor>,
    completion: Consumer<u64>,
    /// Addresses of free chunks.
    free: Vec<u64>,
}

/// Sink for one queue of an interface. In copy mode the kernel sends within the call, so the delivering
/// thread pays for it.
pub struct XdpSink {
    /// Replaced when the interface was deleted and created again; `None` while it does not exist.
    queue: RwLock<Option<Arc<Queue>>>,
    counters: Arc<XdpWriteCounters>,
}

impl fmt::Debug for XdpSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("XdpSink").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Sender {
    pub(super) fn new(
        transmit: Producer<Descriptor>,
        completion: Consumer<u64>,
        chunks: impl Iterator<Item = u64>,
    ) -> Self {
        Self { transmit, completion, free: chunks.collect() }
    }

    /// Reclaims the chunks of frames that were sent.
    fn reclaim(&mut self, queue: &Queue) {
        // At most as many as the ring holds, whatever the kernel's index says: the rest is reclaimed next
        // time.
        let mut most = self.completion.size();
        while most > 0 {
            let done = self.completion.waiting(most.min(BURST as u32));
            if done == 0 {
                return;
            }
            most -= done;
            for n in 0..done {
                let chunk = queue.umem.layout.chunk_of(self.completion.peek(n));
                if queue.umem.layout.is_transmit(chunk) && self.free.len() < self.free.capacity() {
                    self.free.push(chunk);
                }
            }
            self.completion.release(done);
        }
    }

    /// Returns the number of frames that could be accepted now, whatever their lengths.
    fn room(&mut self, queue: &Queue, wanted: usize) -> usize {
        let pieces = queue.umem.layout.pieces as usize;
        let chunks = wanted.saturating_mul(pieces);
        if self.free.len() < chunks {
            self.reclaim(queue);
        }
        self.free.len().min(self.transmit.room(chunks as u32) as usize) / pieces.max(1)
    }

    /// Copies a frame, padded with zeros to the shortest length on a wire: the kernel passes it to the driver as it is, and
    /// a router that removes a VLAN tag makes frames shorter. Returns false if it is too short for Ethernet or does not fit
    /// into as many chunks as a frame may have.
    fn copy(&mut self, queue: &Queue, frame: &Frame<'_>) -> bool {
        let (len, layout) = (frame.len(), queue.umem.layout);
        if layout.is_in_pieces() && len > layout.chunk as usize {
            return self.copy_in_pieces(queue, frame);
        }
        if !(HEADER..=layout.chunk as usize).contains(&len) {
            return false;
        }
        let Some(addr) = self.free.pop() else { return false };
        let padded = len.max(SHORTEST) as u32;
        let Some(room) = queue.umem.bytes(addr, padded) else { return false };
        frame.octets().copy_to(&room);
        if len < SHORTEST {
            room.skip(len as u32).copy_from_slice(&[0; SHORTEST][len..]);
        }
        self.transmit.push(Descriptor { addr, len: padded, options: 0 });
        true
    }

    /// Copies a frame that is longer than a chunk into several, for which [`Sender::room`] has found room. Returns false if it has more
    /// octets than a frame may have.
    fn copy_in_pieces(&mut self, queue: &Queue, frame: &Frame<'_>) -> bool {
        let (chunk, len) = (queue.umem.layout.chunk, frame.len() as u32);
        let count = len.div_ceil(chunk);
        if len > queue.umem.layout.longest() || self.free.len() < count as usize {
            return false;
        }
        for at in (0..len).step_by(chunk as usize) {
            let piece = frame.octets().skip(at).take(chunk);
            let ends = len - at <= chunk;
            let Some(addr) = self.free.pop() else { return false };
            let Some(room) = queue.umem.bytes(addr, piece.len() as u32) else { return false };
            piece.copy_to(&room);
            let options = if ends { 0 } else { CONTINUES };
            self.transmit.push(Descriptor { addr, len: piece.len() as u32, options });
        }
        true
    }

    /// Has the kernel send the published entries.
    pub(super) fn send(&mut self, queue: &Queue, counters: Option<&XdpWriteCounters>) {
        for _ in 0..CALLS {
            if !self.transmit.wants_wakeup() || !self.transmit.is_waiting() {
                break;
            }
            if let Some(counters) = counters {
                counters.wakeups.add_shared(1);
            }
            if !call(queue) {
                break;
            }
        }
        queue.busy.store(self.transmit.is_waiting(), Relaxed);
    }

    /// Checks whether the interface is up when no entry waits to be sent.
    fn probe(&mut self, queue: &Queue) {
        if !self.transmit.is_waiting() {
            call(queue);
        }
    }
}

/// Wakes the kernel's transmitter; returns false if the interface accepts no frames at the moment.
fn call(queue: &Queue) -> bool {
    match abi::kick_transmit(queue.socket.as_fd()) {
        Err(error) if !is_for_later(&error) => {
            queue.device.refused(&error);
            false
        }
        _ => true,
    }
}

/// Returns true if the kernel has taken some of the entries, or as many as it could at the moment.
fn is_for_later(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR))
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl XdpSink {
    pub(super) fn new(queue: Option<Arc<Queue>>) -> Self {
        Self { queue: RwLock::new(queue), counters: Arc::default() }
    }

    /// Returns its counters, which any thread may read.
    pub fn counters(&self) -> Arc<XdpWriteCounters> {
        Arc::clone(&self.counters)
    }

    fn queue(&self) -> RwLockReadGuard<'_, Option<Arc<Queue>>> {
        self.queue.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends frames to this queue from now on.
    pub(super) fn serve(&self, queue: Arc<Queue>) {
        let old = self.queue.write().unwrap_or_else(PoisonError::into_inner).replace(queue);
        // This may be the last reference: the memory is unmapped after the lock was released.
        drop(old);
    }

    /// Returns true if no frame can be sent even after another attempt; counts this many frames as lost.
    fn is_closed(&self, queue: &Queue, sender: &mut Sender, frames: u64) -> bool {
        let device = &queue.device;
        if device.is_down() {
            device.try_again();
            sender.send(queue, Some(&self.counters));
            sender.probe(queue);
        }
        if device.is_gone() {
            self.counters.drop_gone.add_shared(frames);
        } else if device.is_down() {
            self.counters.drop_down.add_shared(frames);
        }
        device.is_gone() || device.is_down()
    }

    /// Copies frames into free chunks; returns how many frames were handled.
    fn copy(&self, queue: &Queue, sender: &mut Sender, frames: &[Frame<'_>]) -> usize {
        let mut room = sender.room(queue, frames.len());
        if room < frames.len() {
            sender.send(queue, Some(&self.counters));
            room = sender.room(queue, frames.len());
        }
        let (mut sent, mut octets) = (0, 0);
        let handled = frames.len().min(room);
        for frame in frames.iter().take(handled) {
            if sender.copy(queue, frame) {
                sent += 1;
                octets += frame.len() as u64;
            }
        }
        let counters = &self.counters;
        if handled > sent {
            counters.drop_length.add_shared((handled - sent) as u64);
        }
        if sent > 0 {
            counters.frames.add_shared(sent as u64);
            counters.bytes.add_shared(octets);
            counters.batches.add_shared(1);
        }
        handled
    }
}

impl Sink for XdpSink {
    /// A frame that is too long or too short for Ethernet is counted and skipped; it is included in the
    /// number of frames returned as taken.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        if frames.is_empty() {
            return 0;
        }
        let queue = self.queue();
        let Some(queue) = &*queue else {
            self.counters.drop_gone.add_shared(frames.len() as u64);
            return 0;
        };
        let mut sender = queue.lock();
        if self.is_closed(queue, &mut sender, frames.len() as u64) {
            return 0;
        }
        let handled = self.copy(queue, &mut sender, frames);
        sender.transmit.publish();
        sender.send(queue, Some(&self.counters));
        if handled < frames.len() {
            self.counters.drop_full.add_shared((frames.len() - handled) as u64);
        }
        handled
    }

    /// An interface that is down or deleted has room for any number of frames, and loses them. If there is no room, has the kernel
    /// send: nothing is delivered until there is, and the other direction, whose polls do it as well, may wait for room itself.
    fn room(&self) -> usize {
        let queue = self.queue();
        match &*queue {
            Some(queue) if !queue.device.is_gone() && !queue.device.is_down() => {
                let mut sender = queue.lock();
                let room = sender.room(queue, BURST);
                if room > 0 {
                    return room;
                }
                sender.send(queue, Some(&self.counters));
                sender.room(queue, BURST)
            }
            _ => usize::MAX,
        }
    }
}
