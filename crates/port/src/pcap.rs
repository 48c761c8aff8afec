//! Frames to a capture file: classic pcap (draft-ietf-opsawg-pcap), nanoseconds, Ethernet.
//!
//! The thread that delivers frames only copies them into a bounded buffer; [`Pcap::write_out`], called by any other
//! thread now and then, takes them to the file. So a slow or full disk never holds up a frame: what finds no room in
//! the buffer, or in the file, is counted and not captured. A file that could not be written goes on, whole, as soon as it can be.

mod file;

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use file::File;
use ledger::counters;

use crate::boundary::Frame;
use crate::offload::plainly;
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
        /// Frames that are in the file.
        captured,
        /// Frames lost because they found no room in the buffer.
        drop_full,
        /// Frames lost because the file could not be written.
        drop_failed,
        /// Writes that failed.
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
    /// Frames that found room in the buffer.
    accepted: AtomicU64,
    /// Those of them that are in the file, or never will be.
    settled: AtomicU64,
    failed: AtomicBool,
    counters: PcapCounters,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Write + Send> Pcap<W> {
    /// A capture into `writer`. Nothing is written before [`Pcap::write_out`].
    pub fn new(writer: W, limits: Limits) -> Arc<Self> {
        let capacity = limits.buffer.max(RECORD + 64) + 24;
        Arc::new(Self {
            limits,
            waiting: Mutex::new(Vec::with_capacity(capacity)),
            file: Mutex::new(File::new(writer, &head(limits.snaplen), capacity)),
            accepted: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            counters: PcapCounters::default(),
        })
    }

    /// What it did.
    pub fn counters(&self) -> &PcapCounters {
        &self.counters
    }

    /// Whether the file could not be written when that was tried last; frames are lost until it can be.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether it has as many frames as it is to have.
    pub fn is_complete(&self) -> bool {
        self.accepted.load(Ordering::Relaxed) >= self.limits.most
    }

    /// Frames that are neither in the file nor counted as lost: they wait for somebody to read it, or for room on its disk.
    pub fn waiting(&self) -> u64 {
        let settled = self.settled.load(Ordering::Acquire);
        self.accepted.load(Ordering::Relaxed).saturating_sub(settled)
    }

    /// Takes what waits to the file; call it a few times a second, and not from a thread that moves frames: it waits where
    /// the file does. What a capture has when it is dropped is in no file.
    pub fn write_out(&self) {
        let mut file = lock(&self.file);
        // What was begun comes first: the file is whole at any time at which it can be written.
        let mut outcome = file.go_on();
        if outcome.is_ok() {
            file.take(&mut lock(&self.waiting));
            outcome = file.go_on();
        }
        self.failed.store(outcome.is_err(), Ordering::Relaxed);
        let (captured, lost) = file.tally();
        self.counters.captured.add_shared(captured);
        self.counters.drop_failed.add_shared(lost);
        self.counters.write_errors.add_shared(u64::from(outcome.is_err()));
        self.settled.fetch_add(captured + lost, Ordering::Release);
    }

    fn capture(&self, frames: &[Frame<'_>]) {
        if self.has_failed() {
            return self.counters.drop_failed.add_shared(frames.len() as u64);
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
        if start + kept > self.limits.buffer.max(RECORD + 64) {
            return self.counters.drop_full.add_shared(1);
        }
        for word in [seconds, nanoseconds, kept as u32, frame.len() as u32] {
            waiting.extend(word.to_le_bytes());
        }
        waiting.resize(start + kept, 0);
        frame.octets().copy_to_slice(&mut waiting[start..]);
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }
}

impl<W: Write + Send> Observer for Arc<Pcap<W>> {
    /// What somebody else would have done to the frames is done to those in the file: checksums are there, and
    /// segments.
    fn observe(&mut self, frames: &[Frame<'_>]) {
        plainly(frames, &mut |frames| self.capture(frames));
    }
}

/// What a file begins with.
fn head(snaplen: u32) -> [u8; 24] {
    let mut head = [0; 24];
    for (at, word) in [(0, MAGIC), (4, 4 << 16 | 2), (16, snaplen), (20, ETHERNET)] {
        head[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    head
}

#[cfg(test)]
mod tests;
