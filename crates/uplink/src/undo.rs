//! Undo actions for host state that does not disappear with a descriptor, carried out by the process that
//! created it, or by a cleaner that was told in advance.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink::{Netlink, Settings};
use serde::{Deserialize, Serialize};

use crate::rename_into_place::name_before;
use crate::{Error, Links, macvtap, ovs, steering};

/// Time that a process which was told to end may take to close its sockets.
const CLOSING: Duration = Duration::from_secs(2);
/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// Host state to be removed. It is left alone unless it carries our mark; a socket is removed only if nobody
/// listens at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// An interface.
    Macvtap {
        /// Its name.
        name: String,
    },
    /// A port of a bridge of Open vSwitch.
    OvsPort {
        /// Its name.
        name: String,
    },
    /// A socket that peers connect to.
    Socket {
        /// Its absolute path.
        path: PathBuf,
    },
}

impl Undo {
    /// Returns the undo of a macvtap.
    pub fn of_macvtap(name: &str) -> Self {
        Self::Macvtap { name: name.to_owned() }
    }

    /// Returns the undo of a port in any bridge of Open vSwitch.
    pub fn of_ovs_port(name: &str) -> Self {
        Self::OvsPort { name: name.to_owned() }
    }

    /// Returns the undo of a socket; `None` if its absolute path cannot be determined.
    pub fn of_socket(path: &Path) -> Option<Self> {
        // The cleaner has another working directory.
        Some(Self::Socket { path: std::path::absolute(path).ok()? })
    }

    /// Removes it if it is ours, in the calling thread's namespace and with the Open vSwitch of this
    /// process's environment. It is no error if it does not exist any more: it may have disappeared with the
    /// interface below it.
    pub fn now(&self) {
        self.after_kill(Instant::now() + CLOSING);
    }

    /// Removes it in place of a killed process, whose sockets are waited for until `end` at most: such a process releases its locks
    /// first, and may close VMs and TAPs before its sockets, which takes grace periods of the kernel: seconds on a busy host.
    pub fn after_kill(&self, end: Instant) {
        match self {
            // Also one that never appeared under its name.
            Self::Macvtap { name } => {
                [name, &name_before(name)].into_iter().for_each(|name| drop(delete_ours(name)))
            }
            Self::OvsPort { name } => ovs::forget(name),
            Self::Socket { path } => remove_socket(path, end),
        }
    }

    /// Returns a guard that carries this out when dropped. Not for an interface: use [`UndoGuard::of_link`].
    pub(crate) const fn armed(self) -> UndoGuard {
        UndoGuard { what: What::Undo(self) }
    }
}

/// Guard that removes something when it is dropped.
#[derive(Debug)]
pub(crate) struct UndoGuard {
    what: What,
}

#[derive(Debug)]
enum What {
    /// Disarmed.
    Nothing,
    Undo(Undo),
    /// An interface, in the namespace of this socket. The socket is opened in advance, because no descriptor
    /// may be left when it is needed.
    Link(Netlink, Which),
    /// Settings of an interface that was there before, and stays.
    Settings(Box<FormerSettings>),
}

/// Settings that a TAP had before it was opened.
#[derive(Debug)]
struct FormerSettings {
    /// A socket in its namespace.
    kernel: Netlink,
    index: u32,
    settings: Settings,
    /// One of its queues: until the settings are restored, the device is in use.
    queue: OwnedFd,
    /// True if a program of ours selects the queues of its frames.
    is_steered: bool,
}

/// Identification of an interface.
#[derive(Debug)]
enum Which {
    Named(String),
    /// By index, which is unique; it may have another name by now.
    Index(u32),
}

impl UndoGuard {
    /// Arms the removal of an interface that is about to be created under this name.
    pub(crate) fn of_link(kernel: Netlink, name: &str) -> Self {
        Self { what: What::Link(kernel, Which::Named(name.to_owned())) }
    }

    /// Arms the restoration of the settings of a TAP that was there before, by one of its queues.
    pub(crate) fn of_settings(kernel: Netlink, index: u32, settings: Settings, queue: OwnedFd) -> Self {
        let former = FormerSettings { kernel, index, settings, queue, is_steered: false };
        Self { what: What::Settings(Box::new(former)) }
    }

    /// Records that a program of ours selects the queues of the TAP's frames.
    pub(crate) fn note_steering(&mut self) {
        if let What::Settings(former) = &mut self.what {
            former.is_steered = true;
        }
    }

    /// Records the index of the interface once it exists.
    pub(crate) fn found(&mut self, index: u32) {
        if let What::Link(_, which) = &mut self.what {
            *which = Which::Index(index);
        }
    }

    /// Disarms the guard: the removal is the task of another guard, or unnecessary.
    pub(crate) fn disarm(&mut self) {
        self.what = What::Nothing;
    }
}

impl Drop for UndoGuard {
    fn drop(&mut self) {
        match &self.what {
            What::Nothing => {}
            What::Undo(undo) => undo.now(),
            What::Link(kernel, Which::Index(index)) => drop(kernel.delete_link(*index)),
            What::Link(kernel, Which::Named(name)) => drop(kernel.delete_link(name.as_str())),
            What::Settings(former) => former.restore(),
        }
    }
}

impl FormerSettings {
    /// Errors are ignored: the device may have been deleted.
    fn restore(&self) {
        if self.is_steered {
            let _ = steering::end(self.queue.as_fd());
        }
        let _ = self.kernel.set_link(self.index, &self.settings);
    }
}

/// Removes a socket as soon as nobody listens at it: a killed process may close it after everything else.
fn remove_socket(path: &Path, end: Instant) {
    while matches!(door::remove_deserted(path), Err(door::Error::Taken { .. })) && Instant::now() < end {
        sleep(LOOK);
    }
}

fn delete_ours(name: &str) -> Result<(), Error> {
    let links = Links::here()?;
    let link = links.link(name, "asking for the group of")?;
    if link.group != macvtap::GROUP {
        return Ok(());
    }
    links.kernel().delete_link(link.index).map_err(|e| Error::system(format!("deleting `{name}`"), e))
}

#[cfg(test)]
mod tests;
