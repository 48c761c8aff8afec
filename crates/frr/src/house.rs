//! House of a control plane: a mount and a process namespace in which its daemons live, inside a network namespace.
//!
//! * Files that the daemons leave (sockets, configurations, dumps) are on file systems in memory, which go with the house: see
//!   [`FOLDERS`]. The host's folders are not touched.
//! * When the house ends, or the process that made it, however it ends, the kernel kills all daemons: the first process of a
//!   process namespace takes the others along, and is itself killed with the thread that started it (PR_SET_PDEATHSIG).
//!
//! Everything inside is done by the house's thread, `ringroad/house`, which exists as long as the house.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use rustix::fd::AsFd;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::CommandLine;

/// Name of the thread.
const THREAD: &str = "ringroad/house";
/// Folders that are empty file systems in memory inside. They exist on every host with FRR.
pub const FOLDERS: [&str; 3] = ["/run", "/etc/frr", "/var/tmp"];

type Work = Box<dyn FnOnce() + Send>;

/// Mount and process namespace of a control plane.
pub struct House {
    /// `None` while it ends.
    work: Option<Sender<Work>>,
    /// Returns the first process, which has been killed.
    thread: Option<JoinHandle<Option<Child>>>,
    first: u32,
}

/// What could not be made.
#[derive(Debug, thiserror::Error)]
#[error("expected to be able to {what}, found: {why}; it takes root's rights")]
pub struct NoHouse {
    what: String,
    #[source]
    why: io::Error,
}

impl House {
    /// Makes a house in a network namespace, with these folders in memory: see [`FOLDERS`].
    ///
    /// # Errors
    /// A namespace cannot be made or entered, a folder cannot be mounted on, or `setpriv` and `sleep`, which hold the process
    /// namespace, are missing.
    pub fn new(network: OwnedFd, folders: &[&str]) -> Result<Self, NoHouse> {
        let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
        let (work, orders) = channel();
        let (told, made) = channel();
        let live = move || {
            let first = move_in(&network, &folders);
            let is_made = first.is_ok();
            let (tell, first) = match first {
                Ok(first) => (Ok(first.id()), Some(first)),
                Err(error) => (Err(error), None),
            };
            if told.send(tell).is_ok() && is_made {
                work_off(&orders);
            }
            first.map(killed)
        };
        let thread = Builder::new()
            .name(THREAD.to_owned())
            .spawn(live)
            .map_err(|why| NoHouse::new("start a thread", why))?;
        let gone = |_| Err(NoHouse::new("make a house", io::Error::other("its thread has ended")));
        let first = made.recv().unwrap_or_else(gone)?;
        Ok(Self { work: Some(work), thread: Some(thread), first })
    }

    /// Process number, on the host, of the first process inside: `/proc/N/ns` has the namespaces.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Does something inside, as [`crate::Layout::write`] or connecting to a socket of a daemon, and returns its result.
    ///
    /// # Errors
    /// The house has ended.
    pub fn within<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (told, done) = channel();
        let work: Work = Box::new(move || drop(told.send(work())));
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the house of the control plane has ended");
        let sent = self.work.as_ref().is_some_and(|orders| orders.send(work).is_ok());
        if !sent {
            return Err(ended());
        }
        done.recv().map_err(|_| ended())
    }

    /// Starts a program inside, with pipes for its output.
    ///
    /// # Errors
    /// It cannot be started, or the house has ended.
    pub fn start(&self, line: &CommandLine) -> io::Result<Child> {
        self.spawn(line, Stdio::piped())
    }

    /// Starts a program inside whose answer is its standard output, a pipe. Its warnings are discarded, so that it never waits for
    /// somebody to read them.
    ///
    /// # Errors
    /// As [`House::start`].
    pub fn ask(&self, line: &CommandLine) -> io::Result<Child> {
        self.spawn(line, Stdio::null())
    }

    fn spawn(&self, line: &CommandLine, errors: Stdio) -> io::Result<Child> {
        let mut command = Command::new(&line.program);
        command.args(&line.words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        // Signals of a terminal are for us: we end the programs in order.
        command.process_group(0);
        self.within(move || command.spawn())?
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.work = None;
        let ended = self.thread.take().and_then(|thread| thread.join().ok()).flatten();
        if let Some(mut first) = ended {
            // It ends when its namespace is empty, and that may take others who have yet to wait for their children inside.
            let _ = Builder::new().name(THREAD.to_owned()).spawn(move || first.wait());
        }
    }
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("first", &self.first).finish_non_exhaustive()
    }
}

/// Moves the calling thread into its namespaces; returns the first process inside.
fn move_in(network: &OwnedFd, folders: &[PathBuf]) -> Result<Child, NoHouse> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|why| NoHouse::new("enter the network namespace", why.into()))?;
    leave(UnshareFlags::NEWNS).map_err(|why| NoHouse::new("make a mount namespace", why))?;
    // What is mounted here is not to appear on the host.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|why| NoHouse::new("separate mounts from the host's", why.into()))?;
    folders.iter().try_for_each(|folder| in_memory(folder))?;
    // From here on each process that this thread starts is in the new namespace, the thread itself is not.
    leave(UnshareFlags::NEWPID).map_err(|why| NoHouse::new("make a process namespace", why))?;
    let mut first = Command::new("setpriv");
    first.args(["--pdeathsig", "KILL", "sleep", "infinity"]);
    first.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    first.spawn().map_err(|why| NoHouse::new("start `setpriv` (Debian: package util-linux)", why))
}

fn in_memory(folder: &Path) -> Result<(), NoHouse> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", folder, "tmpfs", flags, c"mode=755,size=64m").map_err(|why| {
        NoHouse::new(&format!("mount a file system in memory at {}", folder.display()), why.into())
    })
}

fn work_off(orders: &Receiver<Work>) {
    while let Ok(work) = orders.recv() {
        work();
    }
}

/// Kills the first process, and with it all others inside.
fn killed(mut first: Child) -> Child {
    let _ = first.kill();
    first
}

/// Separates the calling thread from a namespace.
#[expect(
    deprecated,
    reason = "unsafe about unshare(2) are descriptor tables alone (CLONE_FILES), which stay as they are"
)]
fn leave(namespace: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(namespace)?)
}

impl NoHouse {
    pub(crate) fn new(what: &str, why: io::Error) -> Self {
        Self { what: what.to_owned(), why }
    }
}

#[cfg(test)]
mod tests;
