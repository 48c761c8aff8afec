//! A capture file whose frames come to a NIC. A thread of its own reads the file, which may lie on a slow disk, and keeps the
//! pace; it places frames in a queue from which the NIC's own thread takes them, and waits where that is full.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ledger::counters;
use port::ingress::{IngressSink, SLOT, ingress};
use port::replay::{BadCapture, Reader, Recorded};
use port::{Clock, Frame, Sink, Source};
use ring::Bytes;
use sandbox::{Class, Confinement};
use threads::Thread;

use crate::home::Home;

/// Frames that wait for the NIC at most.
const QUEUE: u32 = 1024;
/// How long to wait where the queue is full.
const FULL: Duration = Duration::from_micros(50);
/// Longest sleep, so that nobody waits for the end of one.
const NAP: Duration = Duration::from_millis(50);
/// Octets of an Ethernet header: shorter frames are none.
const SHORTEST: usize = 14;

counters! {
    /// What came of the frames of a file.
    pub struct ReplayCounters {
        /// Frames played.
        frames,
        /// Octets of those frames.
        bytes,
        /// Frames passed over because the file has only their beginning.
        skipped_cut,
        /// Frames passed over because they are longer than 2048 octets or shorter than an Ethernet header.
        skipped_length,
    }
}

/// Opens a file that is to be played, and looks whether it begins as one.
///
/// # Errors
/// One line: it cannot be read, or is something else.
pub(crate) fn open(path: &Path) -> Result<File> {
    let what = || format!("cannot replay {}", path.display());
    // Without waiting for whoever would write into a pipe.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).with_context(what)?;
    let kind = file.metadata().with_context(what)?;
    ensure!(kind.is_file(), "cannot replay {}: it is no regular file", path.display());
    // The bad frame of a file may be its first.
    Reader::new(&file).and_then(|mut reader| reader.next_frame().map(drop)).with_context(what)?;
    Ok(file)
}

/// A file that is being played. Dropping it ends that.
pub(crate) struct Player {
    source: Home,
    shared: Arc<Shared>,
    _thread: Thread,
}

/// What others see of it.
#[derive(Default)]
struct Shared {
    counters: Arc<ReplayCounters>,
    stop: AtomicBool,
    end: Mutex<Option<String>>,
}

impl Player {
    /// Plays the file from its start, by this clock.
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
        Ok(Self { source: Home::new(Box::new(source)), shared, _thread: thread })
    }

    /// What comes, for one start of a router.
    pub(super) fn lend(&self) -> Option<(Box<dyn Source>, Arc<ReplayCounters>)> {
        Some((self.source.lend()?, self.shared.counters.clone()))
    }

    /// What is to be told of it, once.
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
    /// When the first frame was played, and when it had been captured.
    pace: Option<(Duration, Duration)>,
}

impl Play {
    /// Plays to the end; what is to be told of it, unless it was stopped.
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
            } else if !(SHORTEST..=SLOT).contains(&frame.octets.len()) {
                self.shared.counters.skipped_length.add(1);
            } else {
                self.place(frame);
            }
        }
        Ok(())
    }

    fn place(&mut self, frame: Recorded<'_>) {
        self.wait_until_due(frame.at);
        while self.queue.free() == 0 {
            if self.shared.stop.load(Relaxed) {
                return;
            }
            std::thread::sleep(FULL);
        }
        let len = frame.octets.len() as u64;
        if self.queue.deliver(&[Frame::new(Bytes::from_slice(frame.octets))]) == 1 {
            self.shared.counters.frames.add(1);
            self.shared.counters.bytes.add(len);
        }
    }

    /// Waits as long as it took from the first frame to this one. A file whose times go back is played on at once.
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
