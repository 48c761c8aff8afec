//! Writer for a file, or for a pipe whose reader may be slow or absent, and captures into such a file.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use fd_passing::file_type;
use port::pcap::Pcap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, ftruncate, tell};
use rustix::io::Errno;
use sandbox::{Class, Confinement};
use threads::Thread;

/// Octets that a writable pipe accepts without blocking (`PIPE_BUF`).
const PIPE: usize = 4096;
/// Maximum octets of one write to a file.
const FILE: usize = 1 << 20;
/// Interval at which the stop flag is checked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Time limit for a full pipe after that.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writer that never blocks in a pipe for long after it was told to stop.
pub struct SlowFileWriter {
    /// `None` once it is closed.
    file: Option<File>,
    once: usize,
    stop: Arc<AtomicBool>,
    stopped: Option<Instant>,
}

impl SlowFileWriter {
    /// Creates a writer to this file. After `stop` is set it waits for a full pipe for one more second.
    ///
    /// # Errors
    /// The file's type cannot be determined.
    pub fn new(file: File, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let is_file = file_type(&file)? == FileType::RegularFile;
        Ok(Self { file: Some(file), once: if is_file { FILE } else { PIPE }, stop, stopped: None })
    }

    /// Removes what the file contains behind its position; one that is appended to keeps everything. May wait
    /// for its server (FUSE, NFS).
    fn empty(&mut self) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(ErrorKind::BrokenPipe)?;
        let is_file = self.once == FILE;
        if is_file && !fcntl_getfl(file)?.contains(OFlags::APPEND) {
            ftruncate(file, tell(file)?)?;
        }
        Ok(())
    }

    /// Closes the file, which may wait for its server (FUSE, NFS).
    fn close(&mut self) {
        self.file = None;
    }

    /// Waits until the file is writable.
    fn wait(&mut self) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(ErrorKind::BrokenPipe)?;
        loop {
            let mut fds = [PollFd::new(file, PollFlags::OUT)];
            match poll(&mut fds, Some(&LOOK)) {
                // A signal is sent to end the thread: check the flag.
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

impl Write for SlowFileWriter {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.wait()?;
        let some = octets.get(..self.once).unwrap_or(octets);
        let file = self.file.as_mut().ok_or(ErrorKind::BrokenPipe)?;
        match file.write(some) {
            // Another writer has used the room: treat it like a short write, which is repeated.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::Interrupted.into()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A capture into such a file.
pub type Capture = Arc<Pcap<SlowFileWriter>>;

/// Starts the thread of this name that writes the frames of a capture to its file, with this pause between
/// writes, until `stop` is set; then writes once more, and closes the file.
///
/// # Errors
/// No thread can be started.
pub fn write_out(
    name: &str,
    capture: &Capture,
    (pause, stop): (Duration, &Arc<AtomicBool>),
    confinement: Confinement,
) -> Result<Thread> {
    let (capture, stop) = (capture.clone(), stop.clone());
    Thread::spawn(name, &[], Class::Clock, confinement, move || write_until(&capture, pause, &stop))
}

/// As [`write_out`]; the thread first empties the file, unless it is appended to. If that fails, so does the
/// capture ([`Pcap::has_failed`]).
///
/// # Errors
/// No thread can be started.
pub fn empty_and_write_out(
    name: &str,
    capture: &Capture,
    (pause, stop): (Duration, &Arc<AtomicBool>),
    confinement: Confinement,
) -> Result<Thread> {
    let (capture, stop) = (capture.clone(), stop.clone());
    // This class may change the length of a file, which the thread must not do any more once it writes.
    Thread::spawn(name, &[], Class::Control, confinement, move || {
        let is_empty = capture.with_writer(SlowFileWriter::empty).is_ok();
        if !is_empty || confinement.enter(Class::Clock).is_err() {
            capture.with_writer(SlowFileWriter::close);
            // Fails, because the file is closed.
            return capture.write_out();
        }
        write_until(&capture, pause, &stop);
    })
}

fn write_until(capture: &Capture, pause: Duration, stop: &AtomicBool) {
    loop {
        let is_last = stop.load(Ordering::Acquire);
        capture.write_out();
        if is_last {
            // Here, because no other thread may wait for that.
            return capture.with_writer(SlowFileWriter::close);
        }
        std::thread::sleep(pause);
    }
}

/// Drops a file, or its owner, in a thread of its own, because close(2) may wait for the server of the file
/// (FUSE, NFS). If no thread can be started, it is dropped here.
pub fn close_apart(file: impl Send + 'static, confinement: Confinement) {
    // The error drops the file.
    let _ = Thread::spawn("ringroad/close", &[], Class::Clock, confinement, move || drop(file));
}
