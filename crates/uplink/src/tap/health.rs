//! Existence of a device. It may be deleted while it is served: then frames are counted as lost, and the
//! process that opened it may open another one in its place. The descriptors of the new one take the numbers
//! of the old ones, under the threads that read and write them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};

use super::Queue;
use crate::Error;
use crate::request::{InterfaceRequest, NAME_LEN, Name};

/// State shared by all users of a device in this process.
#[derive(Debug)]
pub(super) struct Health {
    gone: AtomicBool,
    /// Signalled once for each queue when a deleted device was replaced. A read takes one signal (EFD_SEMAPHORE), so that no thread
    /// takes that of another one, which sleeps on the same descriptor.
    revived: OwnedFd,
    /// The queues being served, by number.
    served: Mutex<Vec<(usize, Weak<Queue>)>>,
    /// True while the last queue has copies of urgent frames.
    has_copies: AtomicBool,
    /// Copies that were lost before they were read.
    copies_lost: AtomicU64,
}

impl Health {
    pub(super) fn new(has_copies: bool) -> Result<Arc<Self>, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        let revived = eventfd(0, flags).map_err(|e| Error::system("making an event descriptor", e.into()))?;
        Ok(Arc::new(Self {
            gone: AtomicBool::new(false),
            revived,
            served: Mutex::default(),
            has_copies: AtomicBool::new(has_copies),
            copies_lost: AtomicU64::new(0),
        }))
    }

    /// Records whether the last queue has copies of urgent frames.
    pub(super) fn set_copies(&self, has_copies: bool) {
        self.has_copies.store(has_copies, Relaxed);
    }

    pub(super) fn has_copies(&self) -> bool {
        self.has_copies.load(Relaxed)
    }

    /// Adds to the number of lost copies; returns the sum.
    pub(super) fn add_lost_copies(&self, lost: u32) -> u64 {
        self.copies_lost.fetch_add(lost.into(), Relaxed) + u64::from(lost)
    }

    /// Records that the interface was deleted.
    pub(super) fn vanish(&self) {
        self.gone.store(true, Relaxed);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Returns the descriptor that is signalled when it exists again.
    pub(super) fn revived(&self) -> BorrowedFd<'_> {
        self.revived.as_fd()
    }

    pub(super) fn serves(&self, number: usize, queue: &Arc<Queue>) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.retain(|(_, queue)| queue.strong_count() > 0);
        served.push((number, Arc::downgrade(queue)));
    }

    /// Replaces the queues under the threads that serve them, each by what there is for its number, and wakes these.
    pub(super) fn revive<'q>(&self, of: impl Fn(usize) -> Option<&'q OwnedFd>) -> io::Result<()> {
        let mut revived = 0_u64;
        for (number, queue) in self.served.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if let (Some(queue), Some(new)) = (queue.upgrade(), of(*number)) {
                take_over(&queue.fd, new)?;
                queue.device.offer.repeat(queue.fd.as_fd());
                revived += 1;
            }
        }
        self.gone.store(false, Relaxed);
        // A full counter means that it is signalled already.
        let _ = rustix::io::write(&self.revived, &revived.to_ne_bytes());
        Ok(())
    }
}

/// Makes the descriptor number of `old` refer to the file of `new`, at once for all its users.
pub(super) fn take_over(old: &OwnedFd, new: &OwnedFd) -> io::Result<()> {
    // SAFETY: both are open; the number of `old` stays open, of the same kind, and with the same owner.
    let done = unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns true if the interface of this queue still exists.
pub(super) fn is_there(queue: BorrowedFd<'_>) -> bool {
    InterfaceRequest::new(Name([0; NAME_LEN]), &[]).send(queue, libc::TUNGETIFF).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use port::Offloads;
    use rustix::io::Errno;

    use super::super::{Device, Offer};
    use super::*;

    fn file() -> OwnedFd {
        File::open("/dev/null").expect("it is there").into()
    }

    #[test]
    fn each_queue_of_a_replaced_device_is_signalled() {
        let health = Health::new(false).expect("an event descriptor");
        let offer = Offer::of(Offloads::NONE);
        let device = Arc::new(Device { health: health.clone(), offer, _undo: None });
        let queues = [0, 1].map(|number| {
            let queue = Arc::new(Queue { fd: file(), device: device.clone() });
            health.serves(number, &queue);
            queue
        });
        health.vanish();
        let new = file();
        health.revive(|_| Some(&new)).expect("replaced");
        assert!(queues.iter().all(|queue| !queue.device.health.is_gone()));
        // The threads of both queues sleep on one descriptor, and each reads it when it is woken.
        let signal = || rustix::io::read(health.revived(), &mut [0_u8; 8]);
        assert_eq!([signal(), signal(), signal()], [Ok(8), Ok(8), Err(Errno::AGAIN)]);
    }
}
