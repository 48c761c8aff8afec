//! A named pipe that a router captures into, and a reader that leaves it full.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use support::attack::Attack;

/// Path of the pipe, in a folder where only root may create files.
const PIPE: &str = "/run/ringroad-attacks.pipe";
/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Octets that make room for the writer: the kernel frees whole pages of a pipe.
const PAGE: usize = 4096;

/// The pipe, created before the run opens it, with one reader: captures refuse a pipe without readers.
pub(super) struct NamedPipe {
    _reader: File,
}

impl NamedPipe {
    pub(super) fn make() -> Result<Self> {
        // Remove the pipe of an attack that was killed.
        let _ = fs::remove_file(PIPE);
        mknodat(CWD, PIPE, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).context(PIPE)?;
        Ok(Self { _reader: end(OFlags::RDONLY)? })
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        let _ = fs::remove_file(PIPE);
    }
}

/// Opens an end of the pipe for reading or writing.
fn end(way: OFlags) -> Result<File> {
    Ok(open(PIPE, way | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Reader that takes a page whenever the pipe is full, so that the writer wakes only to block again. At rest it reads everything.
pub(super) struct Reader {
    pipe: File,
    /// Writing end, which shows whether a writer would block.
    writer: File,
    good: Option<Good>,
}

/// Thread that reads while the attack rests.
struct Good {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { pipe: end(OFlags::RDONLY)?, writer: end(OFlags::WRONLY)?, good: Some(Good::start()?) })
    }
}

impl Attack for Reader {
    fn begin(&mut self) -> Result<()> {
        self.good = None;
        Ok(())
    }

    fn act(&mut self, until: Instant) -> Result<bool> {
        if !is_full(&self.writer)? {
            sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            return Ok(false);
        }
        let _ = self.pipe.read(&mut [0; PAGE])?;
        Ok(true)
    }

    fn rest(&mut self) -> Result<()> {
        if self.good.is_none() {
            self.good = Some(Good::start()?);
        }
        Ok(())
    }
}

/// Returns true if a write to the pipe by this end would block.
fn is_full(writer: &File) -> Result<bool> {
    let mut fds = [PollFd::new(writer, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut fds, Some(&now))? == 0)
}

impl Good {
    fn start() -> Result<Self> {
        let (mut pipe, stop) = (end(OFlags::RDONLY)?, Arc::<AtomicBool>::default());
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("pipe-reader".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                match pipe.read(&mut [0; 16 * PAGE]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(LOOK),
                    Err(error) => panic!("{PIPE}: {error}"),
                    Ok(_) => {}
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Good {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // Its panic message has been printed already.
            let _ = thread.join();
        }
    }
}
