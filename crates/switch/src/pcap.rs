//! Frames to a capture file: classic pcap (draft-ietf-opsawg-pcap), nanoseconds, Ethernet.
//!
//! The thread that delivers frames only copies them into a bounded buffer; [`Pcap::write_out`], called by any other
//! thread now and then, takes them to the file. So a slow or full disk never holds up a frame: what finds no room in
//! the buffer is counted and not captured, and after the first write error the capture is over.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ledger::counters;

use crate::offload::plainly;
use crate::port::Frame;
use crate::tap_point::Observer;

/// Says that times are in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
/// Octets before each frame.
const RECORD: usize = 16;

counters! {
    /// What a capture did with the frames that it was shown.
    pub struct PcapCounters {
        /// Frames captured.
        captured,
        /// Frames that found no room in the buffer.
        missed_full,
        /// Frames shown after the file could no longer be written.
        missed_failed,
        /// Writes that failed; the first one ends the capture.
        write_errors,
    }
}

/// What can be chosen about a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of each frame that are kept.
    pub snaplen: u32,
    /// Octets that may wait to be written.
    pub buffer: usize,
    /// Frames that are captured before it ends by itself.
    pub most: u64,
}

impl Default for Limits {
    /// Whole frames, 4 MiB, and no end.
    fn default() -> Self {
        Self { snaplen: 65535, buffer: 4 << 20, most: u64::MAX }
    }
}

/// A capture; what observes is an `Arc` of it.
pub struct Pcap<W: Write + Send> {
    limits: Limits,
    waiting: Mutex<Vec<u8>>,
    file: Mutex<File<W>>,
    failed: AtomicBool,
    counters: PcapCounters,
}

struct File<W> {
    writer: W,
    spare: Vec<u8>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Write + Send> Pcap<W> {
    /// A capture into `writer`. Nothing is written before [`Pcap::write_out`].
    pub fn new(writer: W, limits: Limits) -> Arc<Self> {
        let capacity = limits.buffer.max(RECORD + 64) + 24;
        let mut waiting = Vec::with_capacity(capacity);
        waiting.extend(MAGIC.to_le_bytes());
        waiting.extend([2, 0, 4, 0]);
        waiting.extend([0; 8]);
        waiting.extend(limits.snaplen.to_le_bytes());
        waiting.extend(ETHERNET.to_le_bytes());
        Arc::new(Self {
            limits,
            waiting: Mutex::new(waiting),
            file: Mutex::new(File { writer, spare: Vec::with_capacity(capacity) }),
            failed: AtomicBool::new(false),
            counters: PcapCounters::default(),
        })
    }

    /// What it did.
    pub fn counters(&self) -> &PcapCounters {
        &self.counters
    }

    /// Whether the file could not be written; nothing is captured any more.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether it has as many frames as it is to have.
    pub fn is_complete(&self) -> bool {
        self.counters.captured.get() >= self.limits.most
    }

    /// Takes what waits to the file; call it a few times a second, and not from a thread that moves frames. The last
    /// call is made when the capture is dropped.
    pub fn write_out(&self) {
        let mut file = lock(&self.file);
        let File { writer, spare } = &mut *file;
        std::mem::swap(&mut *lock(&self.waiting), spare);
        if !self.has_failed() && writer.write_all(spare).and_then(|()| writer.flush()).is_err() {
            self.failed.store(true, Ordering::Relaxed);
            self.counters.write_errors.add_shared(1);
        }
        spare.clear();
    }

    fn capture(&self, frames: &[Frame<'_>]) {
        if self.has_failed() {
            return self.counters.missed_failed.add_shared(frames.len() as u64);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = (now.as_secs() as u32, now.subsec_nanos());
        let mut waiting = lock(&self.waiting);
        for frame in frames {
            self.append(&mut waiting, frame, time);
        }
    }

    fn append(&self, waiting: &mut Vec<u8>, frame: &Frame<'_>, (seconds, nanoseconds): (u32, u32)) {
        if self.is_complete() {
            return;
        }
        let kept = frame.len().min(self.limits.snaplen as usize);
        let start = waiting.len() + RECORD;
        if start + kept > waiting.capacity() {
            return self.counters.missed_full.add_shared(1);
        }
        for word in [seconds, nanoseconds, kept as u32, frame.len() as u32] {
            waiting.extend(word.to_le_bytes());
        }
        waiting.resize(start + kept, 0);
        frame.octets().copy_to_slice(&mut waiting[start..]);
        self.counters.captured.add_shared(1);
    }
}

impl<W: Write + Send> Observer for Arc<Pcap<W>> {
    /// What somebody else would have done to the frames is done to those in the file: checksums are there, and
    /// segments.
    fn observe(&mut self, frames: &[Frame<'_>]) {
        plainly(frames, &mut |frames| self.capture(frames));
    }
}

impl<W: Write + Send> Drop for Pcap<W> {
    fn drop(&mut self) {
        self.write_out();
    }
}

#[cfg(test)]
mod tests;
