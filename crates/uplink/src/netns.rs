//! Anonymous network namespaces: they live as long as a descriptor, thread, process or TAP in them. They have
//! no entry in the file system, so nothing is left behind when the process ends, for whatever reason.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use ::netns::Namespace;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Error, LinkCounters, Links};

/// A network namespace, held by a descriptor, with the interfaces in it.
#[derive(Clone, Debug)]
pub struct Netns(pub Namespace);

impl Netns {
    /// Creates an empty namespace: it has a loopback interface that is down, and nothing else.
    pub fn new() -> Result<Self, Error> {
        Ok(Self(Namespace::new()?))
    }

    /// Returns the calling thread's namespace.
    pub fn here() -> Result<Self, Error> {
        Ok(Self(Namespace::current()?))
    }

    /// Opens an existing namespace by its file: `/run/netns/NAME` or `/proc/PID/ns/net`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self(Namespace::open(path)?))
    }

    /// Moves the calling thread into the namespace permanently. Sockets and TAPs that it opens from now on
    /// are there.
    pub fn enter(&self) -> Result<(), Error> {
        move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| Error::system("entering a network namespace", e.into()))
    }

    /// Runs `work` inside, on a short-lived thread, and returns its result. A panic in `work` is propagated.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        Ok(self.0.within(work)?)
    }

    /// Makes `command` run inside, and die by SIGKILL as soon as the *thread* that spawns it ends: spawn it
    /// from a thread that lives long enough.
    pub fn attach<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let (inside, parent) = (self.0.clone(), std::process::id());
        let prepare = move || {
            move_into_link_name_space(inside.as_fd(), Some(LinkNameSpaceType::Network))?;
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
        Ok(self.0.set_sysctl(&key.replace('.', "/"), value)?)
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
        self.0.as_fd()
    }
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
