//! Capture of frames to a file: classic pcap (draft-ietf-opsawg-pcap), nanoseconds, Ethernet.
//!
//! The thread that delivers frames only copies them into a bounded buffer; [`Pcap::write_out`], which another thread
//! calls periodically, writes them to the file. So a slow or full disk never delays a frame: frames that find no room
//! in the buffer, or in the file, are counted and not captured. After a write error the capture continues, with a valid
//! file, as soon as it can be written.

mod file;

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use file::File;
use ledger::counters;

use crate::boundary::Frame;
use crate::offload::show_completed;
use crate::tap_point::Observer;

/// Magic number for times in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
/// Size of the header of each record in octets.
const RECORD: usize = 16;

counters! {
    /// Counters of a capture.
    pub struct PcapCounters {
        /// Frames written to the file.
        captured,
        /// Frames lost because they found no room in the buffer.
        drop_full,
        /// Frames lost because the file could not be written.
        drop_failed,
        /// Writes that failed.
        write_errors,
    }
}

/// Limits of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum octets kept of each frame.
    pub snaplen: u32,
    /// Maximum octets that may wait to be written.
    pub buffer: usize,
    /// Maximum number of frames, after which the capture ends by itself.
    pub most: u64,
}

impl Default for Limits {
    /// Whole frames, 4 MiB, and no end.
    fn default() -> Self {
        Self { snaplen: 65535, buffer: 4 << 20, most: u64::MAX }
    }
}

/// A capture; an `Arc` of it is the observer.
pub struct Pcap<W: Write + Send> {
    limits: Limits,
    waiting: Mutex<Vec<u8>>,
    file: Mutex<File<W>>,
    /// Frames that found room in the buffer.
    accepted: AtomicU64,
    /// Frames of those that are in the file, or were lost.
    settled: AtomicU64,
    failed: AtomicBool,
    counters: PcapCounters,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Write + Send> Pcap<W> {
    /// Creates a capture into `writer`. Writes nothing before [`Pcap::write_out`].
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

    /// Returns its counters.
    pub fn counters(&self) -> &PcapCounters {
        &self.counters
    }

    /// Returns true if the last attempt to write the file failed; frames are lost until a write succeeds.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns true if it has reached its maximum number of frames.
    pub fn is_complete(&self) -> bool {
        self.accepted.load(Ordering::Relaxed) >= self.limits.most
    }

    /// Returns how many frames are neither in the file nor counted as lost: they wait for [`Pcap::write_out`], or for
    /// room on the disk.
    pub fn waiting(&self) -> u64 {
        let settled = self.settled.load(Ordering::Acquire);
        self.accepted.load(Ordering::Relaxed).saturating_sub(settled)
    }

    /// Writes waiting frames to the file; call it a few times a second, but not from a thread that moves frames,
    /// because it blocks when the file does. Frames that wait when a capture is dropped are not written.
    pub fn write_out(&self) {
        let mut file = lock(&self.file);
        // Continues an incomplete record first, so that the file is valid whenever it can be written.
        let mut outcome = file.resume();
        if outcome.is_ok() {
            file.take(&mut lock(&self.waiting));
            outcome = file.resume();
        }
        self.failed.store(outcome.is_err(), Ordering::Relaxed);
        let (captured, lost) = file.tally();
        self.counters.captured.add_shared(captured);
        self.counters.drop_failed.add_shared(lost);
        self.counters.write_errors.add_shared(u64::from(outcome.is_err()));
        self.settled.fetch_add(captured + lost, Ordering::Release);
    }

    /// Gives access to the writer between writes, for instance to close its file in a thread that may wait for that.
    pub fn with_writer<T>(&self, use_it: impl FnOnce(&mut W) -> T) -> T {
        use_it(lock(&self.file).writer())
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
    /// Captures frames after software completion of their offloads: with checksums filled in, and segmented.
    fn observe(&mut self, frames: &[Frame<'_>]) {
        show_completed(frames, &mut |frames| self.capture(frames));
    }
}

/// Returns the file header.
fn head(snaplen: u32) -> [u8; 24] {
    let mut head = [0; 24];
    for (at, word) in [(0, MAGIC), (4, 4 << 16 | 2), (16, snaplen), (20, ETHERNET)] {
        head[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    head
}

#[cfg(test)]
mod tests;
