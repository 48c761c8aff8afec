//! Replay of a capture file to a NIC. A thread of its own reads the file, which may be on a slow disk, and
//! keeps the pace; it puts frames into a queue from which the NIC's own thread takes them, and waits while
//! the queue is full.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ledger::counters;
use port::ingress::{IngressSink, ingress};
use port::replay::{BadCapture, Reader, Recorded};
use port::{Clock, Frame, Sink, Source};
use ring::Bytes;
use sandbox::{Class, Confinement};
use threads::Thread;
use uplink::tap::LARGEST_FRAME;

use crate::shared_source::SharedSource;

/// Maximum number of frames that wait for the NIC.
const QUEUE: u32 = 1024;
/// Pause before another attempt when the queue is full.
const FULL: Duration = Duration::from_micros(50);
/// Maximum time of one sleep, which bounds the time to stop the thread.
const NAP: Duration = Duration::from_millis(50);
/// Octets of an Ethernet header, the minimum length of a frame.
const SHORTEST: usize = 14;

counters! {
    /// Counters of a replay.
    pub struct ReplayCounters {
        /// Frames replayed.
        frames,
        /// Octets of those frames.
        bytes,
        /// Frames skipped because the file contains only their beginning.
        skipped_cut,
        /// Frames skipped because they are longer than any NIC takes (9238 octets) or shorter than an Ethernet header.
        skipped_length,
    }
}

/// Opens a file to be replayed, and checks its beginning.
///
/// # Errors
/// One line: it cannot be read, or is not a capture file.
pub(crate) fn open(path: &Path) -> Result<File> {
    let what = || format!("cannot replay {}", path.display());
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).with_context(what)?;
    let kind = file.metadata().with_context(what)?;
    ensure!(kind.is_file(), "cannot replay {}: it is no regular file", path.display());
    // The first frame may already be bad.
    Reader::new(&file).and_then(|mut reader| reader.next_frame().map(drop)).with_context(what)?;
    Ok(file)
}

/// A file being replayed. Dropping it ends the replay.
pub(crate) struct Player {
    source: SharedSource,
    shared: Arc<Shared>,
    _thread: Thread,
}

/// State shared with the replaying thread.
#[derive(Default)]
struct Shared {
    counters: Arc<ReplayCounters>,
    stop: AtomicBool,
    end: Mutex<Option<String>>,
}

impl Player {
    /// Replays the file from its start, by this clock.
    pub(super) fn start(
        clock: Clock,
        (name, mut file): (&str, File),
        recorded: bool,
        confinement: Confinement,
    ) -> Result<Self> {
        file.seek(SeekFrom::Start(0)).context("cannot replay a file from its start")?;
        let reader = Reader::new(file).context("cannot replay a file")?;
        let (queue, source) = ingress(QUEUE).context("cannot make a queue for a replay")?;
        let shared = Arc::<Shared>::default();
        let mut play = Play { queue, shared: shared.clone(), clock, pace: None, recorded };
        let thread = Thread::spawn(&format!("{name}-replay"), &[], Class::Clock, confinement, move || {
            let said = play.run(reader);
            *play.shared.end.lock().unwrap_or_else(PoisonError::into_inner) = said;
        })?;
        Ok(Self { source: SharedSource::new(Box::new(source)), shared, _thread: thread })
    }

    /// Lends the source of its frames, for one start of a router.
    pub(super) fn lend(&self) -> Option<(Box<dyn Source>, Arc<ReplayCounters>)> {
        Some((self.source.lend()?, self.shared.counters.clone()))
    }

    /// Returns the message about its end, once.
    pub(super) fn news(&self) -> Option<String> {
        self.shared.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Player {
    /// Its thread ends within [`NAP`]; a disk that does not answer is not waited for.
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
    }
}

struct Play {
    queue: Arc<IngressSink>,
    shared: Arc<Shared>,
    recorded: bool,
    clock: Clock,
    /// When the first frame was replayed, and its timestamp in the capture.
    pace: Option<(Duration, Duration)>,
}

impl Play {
    /// Replays to the end; returns the message about it, unless it was stopped.
    fn run(&mut self, mut reader: Reader<File>) -> Option<String> {
        let since = self.now();
        let outcome = self.play(&mut reader);
        if self.shared.stop.load(Relaxed) {
            return None;
        }
        let (played, seconds) = (self.shared.counters.frames.get(), (self.now() - since).as_secs_f64());
        Some(match outcome {
            Ok(()) => {
                format!("its replay is over: {played} of {} frames in {seconds:.1} s", reader.count())
            }
            Err(error) => format!("its replay has ended after {played} frames: {error}"),
        })
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now())
    }

    fn play(&mut self, reader: &mut Reader<File>) -> Result<(), BadCapture> {
        while let Some(frame) = reader.next_frame()? {
            if self.shared.stop.load(Relaxed) {
                break;
            }
            if !frame.whole {
                self.shared.counters.skipped_cut.add(1);
            } else if !(SHORTEST..=LARGEST_FRAME).contains(&frame.octets.len()) {
                self.shared.counters.skipped_length.add(1);
            } else {
                self.place(frame);
            }
        }
        Ok(())
    }

    fn place(&mut self, recorded: Recorded<'_>) {
        self.wait_until_due(recorded.at);
        let len = recorded.octets.len() as u64;
        let frame = [Frame::new(Bytes::from_slice(recorded.octets))];
        // A jumbo frame may find no room even if there is room for others.
        while self.queue.free() == 0 || self.queue.deliver(&frame) == 0 {
            if self.shared.stop.load(Relaxed) {
                return;
            }
            std::thread::sleep(FULL);
        }
        self.shared.counters.frames.add(1);
        self.shared.counters.bytes.add(len);
    }

    /// Waits until this frame is due, relative to the first one. A frame with an earlier timestamp than its
    /// predecessor is due at once.
    fn wait_until_due(&mut self, at: Duration) {
        if !self.recorded {
            return;
        }
        let now = self.now();
        let (begun, first) = *self.pace.get_or_insert((now, at));
        let due = at.saturating_sub(first);
        loop {
            let left = due.saturating_sub(self.now().saturating_sub(begun));
            if left.is_zero() || self.shared.stop.load(Relaxed) {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod tests;
