//! Network namespace held by a file descriptor, and threads that enter it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::{panic, thread};

use netlink::{Mirror, Netlink};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::name::{check_name, path_of};
use crate::sysfs::Sysfs;

/// The calling thread's own network namespace.
const OWN: &str = "/proc/thread-self/ns/net";
/// Name of the short-lived threads that enter a namespace.
const THREAD: &str = "ringroad/netns";

/// A network namespace, held by a file descriptor. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

/// Identity of a namespace among all that exist at the same time: device and inode number of its file in nsfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id {
    /// Device number.
    pub device: u64,
    /// Inode number on that device.
    pub inode: u64,
}

impl Namespace {
    /// Creates an empty namespace: it has only a loopback interface, which is down.
    ///
    /// # Errors
    /// EPERM: the caller lacks CAP_SYS_ADMIN. ENOSPC: the host's maximum is reached (`user.max_net_namespaces`).
    pub fn new() -> Result<Self, Error> {
        // unshare(2) moves the calling thread; a thread of its own leaves the caller in its namespace.
        in_thread(|| {
            unshare_network().map_err(|e| Error::system("making a network namespace", e))?;
            Self::current()
        })
    }

    /// Opens the calling thread's namespace.
    ///
    /// # Errors
    /// /proc is not mounted, or the process is out of descriptors.
    pub fn current() -> Result<Self, Error> {
        Self::open(OWN)
    }

    /// Opens an existing namespace by its file, such as `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// There is no such file, or it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        File::open(path)
            .map(|file| OwnedFd::from(file).into())
            .map_err(|e| Error::system(format!("opening the network namespace {}", path.display()), e))
    }

    /// Opens an existing namespace by its name: `/run/netns/NAME`.
    ///
    /// # Errors
    /// The name is not valid, or there is no namespace of this name.
    pub fn open_named(name: &str) -> Result<Self, Error> {
        check_name(name).map_err(|why| Error::Name { name: name.to_owned(), why })?;
        match Self::open(path_of(name)) {
            Err(Error::System { answer, .. }) if answer.kind() == io::ErrorKind::NotFound => {
                Err(Error::Missing { name: name.to_owned() })
            }
            other => other,
        }
    }

    /// Returns the identity of the namespace; it is equal for all descriptors of one namespace.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn id(&self) -> Result<Id, Error> {
        let metadata = self.fd.try_clone().and_then(|fd| File::from(fd).metadata());
        let metadata = metadata.map_err(|e| Error::system("looking at a network namespace", e))?;
        Ok(Id::of(&metadata))
    }

    /// Runs `work` in a short-lived thread inside the namespace, and returns its result. Sockets that `work` opens stay bound to
    /// the namespace, wherever they are used later. A panic in `work` is propagated to the caller.
    ///
    /// # Errors
    /// No thread can be created, entering the namespace is not permitted (EPERM), or the descriptor is not one of a network
    /// namespace (EINVAL).
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| {
            move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|e| Error::system("entering a network namespace", e))?;
            Ok(work())
        })
    }

    /// Opens an rtnetlink socket to the namespace's interfaces, addresses and routes.
    ///
    /// # Errors
    /// The kernel has no rtnetlink, or the process is out of descriptors.
    pub fn netlink(&self) -> Result<Netlink, Error> {
        self.within(Netlink::open)?
            .map_err(|e| Error::system("opening a socket to a namespace's interfaces", e))
    }

    /// Opens a mirror of the namespace: a copy of its interfaces, addresses, neighbours, routes and rules that follows changes.
    ///
    /// # Errors
    /// The kernel has no rtnetlink, the process is out of descriptors, or a table changed during each attempt to dump it.
    pub fn mirror(&self) -> Result<Mirror, Error> {
        self.within(Mirror::open)?.map_err(|e| Error::system("following a namespace's interfaces", e))
    }

    /// Reads a file as a thread inside the namespace sees it, such as `/proc/thread-self/net/snmp`.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    pub fn read(&self, path: &str) -> Result<String, Error> {
        self.within(|| std::fs::read_to_string(path))?
            .map_err(|e| Error::system(format!("reading {path} of a network namespace"), e))
    }

    /// Reads one of the namespace's sysctls, such as `net/ipv4/ip_forward`. `None`: this kernel has no such sysctl.
    ///
    /// # Errors
    /// The key is not valid, or the sysctl cannot be read.
    pub fn sysctl(&self, key: &str) -> Result<Option<String>, Error> {
        self.within(|| crate::sysctl(key))?
    }

    /// Sets one of the namespace's sysctls.
    ///
    /// # Errors
    /// There is no such sysctl, it rejects the value, or the caller may not change it.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<(), Error> {
        self.within(|| crate::set_sysctl(key, value))?
    }

    /// Mounts the namespace's sysfs, whose `class/net` lists its interfaces.
    ///
    /// # Errors
    /// The kernel is older than 5.2 (no fsopen(2)), or the caller lacks CAP_SYS_ADMIN.
    pub fn sysfs(&self) -> Result<Sysfs, Error> {
        self.within(Sysfs::mount)?.map_err(|e| Error::system("looking into a namespace's /sys", e))
    }
}

impl Id {
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl From<OwnedFd> for Namespace {
    fn from(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Moves the calling thread into a new network namespace.
#[expect(
    deprecated,
    reason = "unsafe about unshare(2) are descriptor tables alone (CLONE_FILES), which stay as they are"
)]
fn unshare_network() -> io::Result<()> {
    Ok(rustix::thread::unshare(UnshareFlags::NEWNET)?)
}

fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn_scoped(scope, work)
            .map_err(|e| Error::system("starting a thread", e))?;
        thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}
