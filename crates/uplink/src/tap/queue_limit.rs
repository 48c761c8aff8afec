//! How many frames wait in the kernel for whoever serves a device, changed while it is served.
//!
//! It is the device's `txqueuelen`, which only who has CAP_NET_ADMIN may set. Who serves the device without privileges
//! writes the number he wishes into a pipe, and whoever opened the device reads it there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};

use super::place::Home;
use crate::Error;

/// The least and the most that may be wished for.
const RANGE: std::ops::RangeInclusive<u32> = 8..=65_536;
/// Octets of a wish.
const WISH: usize = size_of::<u32>();
/// Wishes that are read at once; the last one counts.
const WISHES: usize = 64;

/// Sets the queue length of one device.
#[derive(Debug)]
pub struct QueueLimit(How);

#[derive(Debug)]
enum How {
    /// Ourselves.
    Here(Arc<Home>, String),
    /// By asking.
    Asked(OwnedFd),
}

impl QueueLimit {
    pub(super) const fn here(home: Arc<Home>, name: String) -> Self {
        Self(How::Here(home, name))
    }

    pub(super) const fn asked(wishes: OwnedFd) -> Self {
        Self(How::Asked(wishes))
    }

    /// Lets so many frames wait. What cannot be done, or asked for now, is left: it is only ever a matter of speed.
    pub fn set(&self, frames: u32) {
        match &self.0 {
            How::Here(home, name) => drop(home.links.set_queue_len(name, clamp(frames))),
            How::Asked(wishes) => drop(rustix::io::write(wishes, &frames.to_ne_bytes())),
        }
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
        Some(clamp(wish))
    }
}

fn clamp(frames: u32) -> u32 {
    frames.clamp(*RANGE.start(), *RANGE.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_wish_counts_and_none_is_out_of_range() {
        let wishes = Wishes::new().expect("pipe");
        assert_eq!(wishes.last(), None);
        let limit = QueueLimit::asked(wishes.writer().try_clone_to_owned().expect("copy"));
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
