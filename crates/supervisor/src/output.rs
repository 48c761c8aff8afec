//! Standard output and error of a process that must not block on their reader.
//!
//! Octets that the reader does not take are kept up to a bound; beyond it, whole texts are dropped and
//! counted. A pipe that poll(2) reports writable takes `PIPE_BUF` octets at once, and so does a terminal or a
//! file.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Most octets kept for a slow reader.
const MOST_KEPT: usize = 1 << 20;
/// Octets per write: `PIPE_BUF`.
const PIECE: usize = 4096;

/// Why output is not written or is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputError {
    /// A write failed with this error: the disk is full, or the device failed.
    Refused(Errno),
    /// The reader is too slow.
    Slow,
}

/// A standard stream.
#[derive(Debug)]
pub struct Output {
    /// `None` once the reader is gone.
    stream: Option<OwnedFd>,
    kept: VecDeque<u8>,
    /// Number of texts dropped.
    lost: u64,
    told: bool,
    /// Last octet written.
    last: u8,
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::new(std::io::stdout().as_fd().try_clone_to_owned().ok())
    }

    /// Standard error.
    pub(crate) fn stderr() -> Self {
        Self::new(std::io::stderr().as_fd().try_clone_to_owned().ok())
    }

    /// Output to this descriptor; `None`: there is no reader.
    pub fn new(stream: Option<OwnedFd>) -> Self {
        Self { stream, kept: VecDeque::new(), lost: 0, told: false, last: b'\n' }
    }

    /// Writes a text, now or later, as a whole or not at all. Returns trouble once, until a write succeeds
    /// again.
    pub(crate) fn write(&mut self, text: &str) -> Option<OutputError> {
        if self.kept.len() + text.len() > MOST_KEPT {
            self.lost += 1;
            return self.tell(OutputError::Slow);
        }
        if self.kept.is_empty() && self.last != b'\n' {
            // The end of the previous text was lost on a full disk.
            self.kept.push_back(b'\n');
        }
        self.kept.extend(text.as_bytes());
        self.flush()
    }

    /// Descriptor to poll for writing, if output is pending.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().filter(|_| !self.kept.is_empty()).map(AsFd::as_fd)
    }

    /// Writes as much as is possible without blocking.
    pub(crate) fn flush(&mut self) -> Option<OutputError> {
        while let Some(stream) = &self.stream {
            let piece = self.kept.make_contiguous();
            let piece = piece.get(..PIECE).unwrap_or(piece);
            if piece.is_empty() || !is_writable(stream.as_fd()) {
                return None;
            }
            match rustix::io::write(stream, piece) {
                Ok(n) => {
                    self.last = self.kept.drain(..n).next_back().unwrap_or(self.last);
                    self.told = false;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                // The reader has closed its end, which is no fault.
                Err(Errno::PIPE) => self.stream = None,
                Err(refusal) => {
                    self.lost += 1;
                    self.kept.clear();
                    return self.tell(OutputError::Refused(refusal));
                }
            }
        }
        self.kept.clear();
        None
    }

    fn tell(&mut self, trouble: OutputError) -> Option<OutputError> {
        (!std::mem::replace(&mut self.told, true)).then_some(trouble)
    }
}

fn is_writable(stream: BorrowedFd<'_>) -> bool {
    let mut look = [PollFd::from_borrowed_fd(stream, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut look, Some(&now)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read;

    use super::*;

    #[test]
    fn a_reader_that_stops_costs_texts_and_no_time() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut output = Output::new(Some(writer.into()));
        let text = "x".repeat(999) + "\n";
        let told: Vec<OutputError> = (0..3000).filter_map(|_| output.write(&text)).collect();
        assert_eq!(told, [OutputError::Slow], "it is told once");
        let lost = output.lost;
        assert!(output.waiting().is_some() && lost > 1000);
        let count = std::thread::spawn(move || {
            let mut all = String::new();
            let mut reader = reader;
            reader.read_to_string(&mut all).expect("text");
            assert!(all.lines().all(|line| line.len() == 999));
            all.lines().count() as u64
        });
        while output.waiting().is_some() {
            assert_eq!(output.flush(), None);
        }
        drop(output);
        assert_eq!(count.join().expect("counted") + lost, 3000);
    }

    #[test]
    fn a_reader_that_leaves_is_no_trouble() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut output = Output::new(Some(writer.into()));
        drop(reader);
        assert_eq!(output.write("a line\n"), None);
        assert_eq!(output.write("a line\n"), None);
        assert!(output.waiting().is_none());
    }

    #[test]
    fn a_full_disk_is_told_once() {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let mut output = Output::new(Some(full.into()));
        assert_eq!(output.write("a line\n"), Some(OutputError::Refused(Errno::NOSPC)));
        assert_eq!(output.write("a line\n"), None);
        assert_eq!(output.lost, 2);
        assert!(output.waiting().is_none());
    }
}
