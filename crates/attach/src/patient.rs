//! A file, or a pipe to a program that may read slowly or not at all, and captures into such.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use port::pcap::Pcap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use sandbox::{Class, Confinement};
use threads::Thread;

/// A pipe that says it can be written takes so many octets without waiting (`PIPE_BUF`).
const PIPE: usize = 4096;
/// Octets that a file is given at once.
const FILE: usize = 1 << 20;
/// Between two looks whether the recording was ended meanwhile.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long a pipe that is full is waited for after that.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes without ever standing still in a pipe for longer than somebody wants it to be written.
pub struct Patient {
    file: File,
    once: usize,
    stop: Arc<AtomicBool>,
    stopped: Option<Instant>,
}

impl Patient {
    /// Writes to this file, until it is to `stop`: then a full pipe is waited for a second more.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn new(file: File, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let is_file = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
        Ok(Self { file, once: if is_file { FILE } else { PIPE }, stop, stopped: None })
    }

    /// Waits until something can be written.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut fds, Some(&LOOK)) {
                // A signal comes from somebody who wants it to end.
                Ok(0) | Err(Errno::INTR) => {}
                ready => return ready.map(drop).map_err(Into::into),
            }
            if self.stop.load(Ordering::Acquire) {
                let stopped = *self.stopped.get_or_insert_with(Instant::now);
                if stopped.elapsed() >= PATIENCE {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
        }
    }
}

impl Write for Patient {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.wait()?;
        let some = octets.get(..self.once).unwrap_or(octets);
        match self.file.write(some) {
            // It was not for us that there was room: as a short write, which is tried again.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::Interrupted.into()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A capture into such a file.
pub type Capture = Arc<Pcap<Patient>>;

/// The thread of this name that takes frames to the file of a capture, with this pause between two times, until it is to `stop`; then
/// once more.
///
/// # Errors
/// No thread can be had.
pub fn write_out(
    name: &str,
    capture: &Capture,
    (pause, stop): (Duration, &Arc<AtomicBool>),
    confinement: Confinement,
) -> Result<Thread> {
    let (capture, stop) = (capture.clone(), stop.clone());
    Thread::spawn(name, &[], Class::Clock, confinement, move || {
        loop {
            let is_last = stop.load(Ordering::Acquire);
            capture.write_out();
            if is_last {
                return;
            }
            std::thread::sleep(pause);
        }
    })
}
