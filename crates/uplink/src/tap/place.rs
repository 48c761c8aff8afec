//! Current location of a device: other programs may have moved it to another namespace, or renamed it. Its
//! old name may now belong to another interface here.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::fstat;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::request::{InterfaceRequest, NAME_LEN, Name};
use crate::{Error, LinkCounters, Links, Mac, Netns};

/// The interfaces of the namespace in which a device was opened, and the identity of that namespace.
#[derive(Debug)]
pub(super) struct OriginNetns {
    pub(super) links: Links,
    /// Inode of the namespace.
    inode: u64,
}

impl OriginNetns {
    /// Refers to the calling thread's namespace.
    pub(super) fn new(links: Links) -> Result<Self, Error> {
        let inode = inode(&Netns::here()?).unwrap_or(0);
        Ok(Self { links, inode })
    }

    /// Does something with the device of this queue by its current name, using the interfaces of its current
    /// namespace. `name` is its name here, used for a macvtap, of which the kernel does not report the
    /// namespace.
    ///
    /// # Errors
    /// The errors of `work`; or it is in a namespace that we may not enter (CAP_SYS_ADMIN).
    pub(super) fn with(
        &self,
        name: &str,
        queue: BorrowedFd<'_>,
        work: impl FnOnce(&Links, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = self::name(queue).unwrap_or_else(|| name.to_owned());
        match namespace(queue) {
            Some(elsewhere) if inode(&elsewhere) != Some(self.inode) => work(&elsewhere.links()?, &now),
            // The kernel does not report the namespace of a macvtap.
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

/// Returns the kernel's counters of the interface of this queue, in whatever namespace it is. `None`: it was
/// deleted, is a macvtap, or we may not enter its namespace (CAP_SYS_ADMIN).
///
/// Blocks while other programs change interfaces (RTNL), and starts a thread of its own.
pub(super) fn counters(queue: BorrowedFd<'_>) -> Option<LinkCounters> {
    let name = name(queue)?;
    namespace(queue)?.counters(&name).ok()
}

/// Returns the MAC address of the interface of this queue, in whatever namespace it is; `None`: it was
/// deleted.
pub(crate) fn mac(queue: BorrowedFd<'_>) -> Option<Mac> {
    let mut request = InterfaceRequest::new(Name([0; NAME_LEN]), &[]);
    request.send(queue, libc::SIOCGIFHWADDR).ok()?;
    request.value[2..8].try_into().ok()
}

/// Returns the MTU of the interface of this queue in octets, in whatever namespace it is. `None`, and what it costs: as for
/// [`counters`].
pub(crate) fn mtu(queue: BorrowedFd<'_>) -> Option<u32> {
    let name = name(queue)?;
    namespace(queue)?.links().ok()?.mtu(&name).ok()
}

/// Returns true if the interface of this queue accepts frames: a TAP that is down does not.
pub(crate) fn takes_frames(queue: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(queue, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).is_ok() && asked[0].revents().contains(PollFlags::OUT)
}

/// Returns the interface's current name.
fn name(queue: BorrowedFd<'_>) -> Option<String> {
    let mut request = InterfaceRequest::new(Name([0; NAME_LEN]), &[]);
    request.send(queue, libc::TUNGETIFF).ok()?;
    let octets = request.name.0.split(|octet| *octet == 0).next()?;
    String::from_utf8(octets.to_vec()).ok()
}

/// Returns its current namespace.
fn namespace(queue: BorrowedFd<'_>) -> Option<Netns> {
    // SAFETY: the descriptor is open while it is borrowed, and the request has no argument.
    let answer = unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNGETDEVNETNS) };
    // SAFETY: a non-negative answer is a new descriptor without another owner.
    (answer >= 0).then(|| Netns(unsafe { OwnedFd::from_raw_fd(answer) }.into()))
}
