//! Anonymous network namespaces: they live as long as a descriptor, thread, process or TAP in them. They have
//! no entry in the file system, so nothing is left behind when the process ends, for whatever reason.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::{panic, thread};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::{Error, LinkCounters, Links};

/// The calling thread's own network namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace, held by a descriptor.
#[derive(Clone, Debug)]
pub struct Netns {
    fd: Arc<OwnedFd>,
}

impl Netns {
    /// Creates an empty namespace: it has a loopback interface that is down, and nothing else.
    pub fn new() -> Result<Self, Error> {
        // On a thread of its own, so that the caller stays in its namespace.
        in_thread(|| {
            // SAFETY: CLONE_NEWNET changes the namespace of this thread only, and no descriptor table.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|errno| Error::system("making a network namespace", errno.into()))?;
            Self::here()
        })
    }

    /// Returns the calling thread's namespace.
    pub fn here() -> Result<Self, Error> {
        Self::open(OWN)
    }

    /// Opens an existing namespace by its file: `/run/netns/NAME` or `/proc/PID/ns/net`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        File::open(path)
            .map(|file| Self { fd: Arc::new(file.into()) })
            .map_err(|e| Error::system(format!("opening the network namespace {}", path.display()), e))
    }

    /// Adopts an existing namespace by its descriptor.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }

    /// Moves the calling thread into the namespace permanently. Sockets and TAPs that it opens from now on
    /// are there.
    pub fn enter(&self) -> Result<(), Error> {
        enter(self.fd.as_fd()).map_err(|e| Error::system("entering a network namespace", e))
    }

    /// Runs `work` inside, on a short-lived thread, and returns its result. A panic in `work` is propagated.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Makes `command` run inside, and die by SIGKILL as soon as the *thread* that spawns it ends: spawn it
    /// from a thread that lives long enough.
    pub fn attach<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let fd = Arc::clone(&self.fd);
        let parent = std::process::id();
        let prepare = move || {
            enter(fd.as_fd())?;
            die_with(parent)
        };
        // SAFETY: between fork and exec `prepare` only makes system calls (setns, prctl, getppid) and creates
        // an `io::Error` from a number: no allocation, no lock. The descriptor is kept open by the closure.
        unsafe { command.pre_exec(prepare) }
    }

    /// Returns a command for the program `name`, to be started inside as by [`Netns::attach`].
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        self.attach(&mut command);
        command
    }

    /// Returns the kernel's counters of one of its interfaces.
    pub fn counters(&self, interface: &str) -> Result<LinkCounters, Error> {
        self.run(|| LinkCounters::here(interface))?
    }

    /// Returns its interfaces, to be used from any thread.
    pub fn links(&self) -> Result<Links, Error> {
        self.run(Links::here)?
    }

    /// Writes one of its kernel parameters, such as `net.ipv4.ip_forward`.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<(), Error> {
        let path = Path::new("/proc/sys").join(key.replace('.', "/"));
        self.run(|| std::fs::write(&path, value))?
            .map_err(|e| Error::system(format!("writing `{value}` to {}", path.display()), e))
    }

    /// Configures it as an end system or router that stays quiet: loopback up, no IPv6 (which sends by
    /// itself), forwarding as requested.
    pub fn settle(&self, forward: bool) -> Result<Links, Error> {
        let links = self.links()?;
        links.set_up("lo", true)?;
        // A kernel without IPv6 needs no change.
        for family in ["all", "default"] {
            if Path::new("/proc/sys/net/ipv6").exists() {
                self.set_sysctl(&format!("net.ipv6.conf.{family}.disable_ipv6"), "1")?;
            }
        }
        self.set_sysctl("net.ipv4.ip_forward", if forward { "1" } else { "0" })?;
        Ok(links)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn enter(fd: BorrowedFd<'_>) -> io::Result<()> {
    move_into_link_name_space(fd, Some(LinkNameSpaceType::Network)).map_err(io::Error::from)
}

/// Ends the calling process when the thread that forked it ends, or at once if that has happened already.
fn die_with(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

/// Runs `work` in a namespace, if one is given, or else in the current one.
pub(crate) fn within<T: Send>(
    netns: Option<&Netns>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    match netns {
        Some(netns) => netns.run(work)?,
        None => work(),
    }
}

fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|e| Error::system("starting a thread", e))?;
        thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}
