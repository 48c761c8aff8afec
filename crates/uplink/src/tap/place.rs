//! Where a device lies by now: whoever may do so has moved it into another namespace, or given it another name.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::request::{InterfaceRequest, NAME_LEN, Name};
use crate::{LinkCounters, Mac, Netns};

/// What the kernel counts for the interface of this queue, in whatever namespace it lies. None: it is gone, is a macvtap, or we may
/// not enter its namespace (CAP_SYS_ADMIN).
///
/// It waits for whoever changes interfaces, and takes a thread of its own.
pub(super) fn counters(queue: BorrowedFd<'_>) -> Option<LinkCounters> {
    let name = name(queue)?;
    namespace(queue)?.counters(&name).ok()
}

/// The address of the interface of this queue, in whatever namespace it lies; none: it is gone.
pub(crate) fn mac(queue: BorrowedFd<'_>) -> Option<Mac> {
    let mut request = InterfaceRequest::new(Name([0; NAME_LEN]), &[]);
    request.send(queue, libc::SIOCGIFHWADDR).ok()?;
    request.value[2..8].try_into().ok()
}

/// Whether the interface of this queue takes frames: a TAP that is down does not.
pub(crate) fn takes_frames(queue: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(queue, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).is_ok() && asked[0].revents().contains(PollFlags::OUT)
}

/// The interface's name.
fn name(queue: BorrowedFd<'_>) -> Option<String> {
    let mut request = InterfaceRequest::new(Name([0; NAME_LEN]), &[]);
    request.send(queue, libc::TUNGETIFF).ok()?;
    let octets = request.name.0.split(|octet| *octet == 0).next()?;
    String::from_utf8(octets.to_vec()).ok()
}

/// The namespace that it lies in.
fn namespace(queue: BorrowedFd<'_>) -> Option<Netns> {
    // SAFETY: the descriptor is open while it is borrowed, and the request has no argument.
    let answer = unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNGETDEVNETNS) };
    // SAFETY: what is not negative is a new descriptor, which nobody else knows.
    (answer >= 0).then(|| Netns::from_fd(unsafe { OwnedFd::from_raw_fd(answer) }))
}
