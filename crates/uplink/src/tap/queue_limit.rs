//! How many frames wait in the kernel for whoever serves a device, changed while it is served.
//!
//! It is the device's `txqueuelen`, which only who has CAP_NET_ADMIN may set. Who serves the device without privileges
//! writes the number he wishes into a pipe, and whoever opened the device reads it there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::Error;

/// The least and the most that may be wished for.
const RANGE: std::ops::RangeInclusive<u32> = 8..=65_536;
/// Octets of a wish.
const WISH: usize = size_of::<u32>();
/// Wishes that are read at once; the last one counts.
const WISHES: usize = 64;

/// Asks for a queue length of one device, by what [`Tap::wishes`](crate::Tap::wishes) has.
#[derive(Debug)]
pub struct QueueLimit(pub OwnedFd);

impl QueueLimit {
    /// Lets so many frames wait. What cannot be asked for now is left: it is only ever a matter of speed.
    pub fn set(&self, frames: u32) {
        let _ = rustix::io::write(&self.0, &frames.to_ne_bytes());
    }
}

/// Where somebody's wishes come in.
#[derive(Debug)]
pub(super) struct Wishes {
    read: OwnedFd,
    write: OwnedFd,
}

impl Wishes {
    pub(super) fn new() -> Result<Self, Error> {
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map(|(read, write)| Self { read, write })
            .map_err(|e| Error::system("making a pipe", e.into()))
    }

    /// For whoever wishes.
    pub(super) fn writer(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }

    /// Readable when somebody has wished.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// The last wish, if there is a new one that can be fulfilled.
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
        let wishes = Wishes::new().expect("pipe");
        assert_eq!(wishes.last(), None);
        let limit = QueueLimit(wishes.writer().try_clone_to_owned().expect("copy"));
        limit.set(100);
        limit.set(200);
        assert_eq!((wishes.last(), wishes.last()), (Some(200), None));
        limit.set(0);
        assert_eq!(wishes.last(), Some(8));
        // Nobody reads, and nobody waits.
        (0..100_000).for_each(|frames| limit.set(frames));
        assert!(wishes.last().is_some());
    }
}
