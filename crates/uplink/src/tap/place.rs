//! Where a device lies by now: whoever may do so has moved it into another namespace, or given it another name. Its name there
//! may be somebody else's here.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::fstat;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::request::{InterfaceRequest, NAME_LEN, Name};
use crate::{Error, LinkCounters, Links, Mac, Netns};

/// The interfaces of the namespace in which a device was opened, and which one that is.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) links: Links,
    /// Inode of the namespace.
    inode: u64,
}

impl Home {
    /// The calling thread's namespace.
    pub(super) fn new(links: Links) -> Result<Self, Error> {
        let inode = inode(&Netns::here()?).unwrap_or(0);
        Ok(Self { links, inode })
    }

    /// Does something with the device of this queue by its name of the moment, among the interfaces of the namespace that it lies in.
    /// It is called `name` here; the kernel does not say where a macvtap lies.
    ///
    /// # Errors
    /// Those of `work`; it lies where we may not look (CAP_SYS_ADMIN).
    pub(super) fn with(
        &self,
        name: &str,
        queue: BorrowedFd<'_>,
        work: impl FnOnce(&Links, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = self::name(queue).unwrap_or_else(|| name.to_owned());
        match namespace(queue) {
            Some(elsewhere) if inode(&elsewhere) != Some(self.inode) => work(&elsewhere.links()?, &now),
            // Of a macvtap the kernel does not say where it lies.
            None if !self.links.exists(&now)? => Err(Error::Refused {
                what: format!("cannot change `{now}`"),
                why: "it was moved into another network namespace; set its MTU and queue length there"
                    .to_owned(),
            }),
            _ => work(&self.links, &now),
        }
    }
}

fn inode(namespace: &Netns) -> Option<u64> {
    fstat(namespace.as_fd()).ok().map(|stat| stat.st_ino)
}

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
