//! Event descriptors that are shared with a peer.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use rustix::io::{ReadWriteFlags, preadv2};
use vmm_sys_util::eventfd::EventFd;

/// Resets an event descriptor; returns true if it was signalled. The peer has it as well, and may have
/// cleared O_NONBLOCK: this never blocks nevertheless.
pub(super) fn take(event: &EventFd) -> bool {
    let mut count = [0; 8];
    // Offset -1: the current position, since an eventfd has no offsets.
    let read =
        preadv2(event.as_fd_borrowed(), &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
    read.is_ok()
}

/// Borrows an event descriptor for poll(2).
pub(super) trait EventFdExt {
    fn as_fd_borrowed(&self) -> BorrowedFd<'_>;
}

impl EventFdExt for EventFd {
    fn as_fd_borrowed(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open for as long as its owner is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use vmm_sys_util::eventfd::EFD_CLOEXEC;

    use super::*;

    #[test]
    fn an_event_that_waits_when_nothing_is_in_it_is_taken_without_waiting() {
        // As a peer leaves it that has cleared O_NONBLOCK.
        let event = EventFd::new(EFD_CLOEXEC).expect("an event descriptor");
        assert!(!take(&event));
        event.write(3).expect("it has room");
        assert!(take(&event));
        assert!(!take(&event));
    }
}
