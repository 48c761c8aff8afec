//! Run-time control of the number of frames that wait in the kernel for a device's reader.
//!
//! This is the device's `txqueuelen`, which only a process with CAP_NET_ADMIN may set. The unprivileged
//! process that serves the device writes the desired length into a pipe, which the process that opened the
//! device reads.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::Error;

/// Permitted range of a request.
const RANGE: std::ops::RangeInclusive<u32> = 8..=65_536;
/// Octets of a request.
const WISH: usize = size_of::<u32>();
/// Maximum number of requests read at once; the last one counts.
const WISHES: usize = 64;

/// Requests a queue length of one device, by the descriptor of [`Tap::requests`](crate::Tap::requests).
#[derive(Debug)]
pub struct QueueLimit(pub OwnedFd);

impl QueueLimit {
    /// Requests this queue length, in frames. A request that cannot be written now is dropped: it only
    /// affects performance.
    pub fn set(&self, frames: u32) {
        let _ = rustix::io::write(&self.0, &frames.to_ne_bytes());
    }
}

/// Channel for requests.
#[derive(Debug)]
pub(super) struct QueueLengthRequests {
    read: OwnedFd,
    write: OwnedFd,
}

impl QueueLengthRequests {
    pub(super) fn new() -> Result<Self, Error> {
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map(|(read, write)| Self { read, write })
            .map_err(|e| Error::system("making a pipe", e.into()))
    }

    /// Returns the writing end, for the process that serves the device.
    pub(super) fn writer(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }

    /// Returns the reading end, which is readable when there is a request.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Returns the last request, clamped to the permitted range, if there is a new one.
    pub(super) fn last(&self) -> Option<u32> {
        let mut octets = [0; WISHES * WISH];
        let len = rustix::io::read(&self.read, &mut octets).ok()?;
        let wish = octets.get(..len)?.last_chunk().copied().map(u32::from_ne_bytes)?;
        Some(wish.clamp(*RANGE.start(), *RANGE.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_wish_counts_and_none_is_out_of_range() {
        let requests = QueueLengthRequests::new().expect("pipe");
        assert_eq!(requests.last(), None);
        let limit = QueueLimit(requests.writer().try_clone_to_owned().expect("copy"));
        limit.set(100);
        limit.set(200);
        assert_eq!((requests.last(), requests.last()), (Some(200), None));
        limit.set(0);
        assert_eq!(requests.last(), Some(8));
        // Without a reader no write blocks.
        (0..100_000).for_each(|frames| limit.set(frames));
        assert!(requests.last().is_some());
    }
}
