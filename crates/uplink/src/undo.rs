//! What was made on the host and does not go with a descriptor: how to take it away, by whoever made it, or by somebody who
//! was told before and cleans up after it.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink::Netlink;
use serde::{Deserialize, Serialize};

use crate::appear::name_before;
use crate::{Error, Links, macvtap, ovs};

/// How long a process that was killed may take to close its sockets: some milliseconds, and more on a busy host.
const CLOSING: Duration = Duration::from_secs(2);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

/// What is to be taken away. Each carries a mark of ours, and is left alone without it; a socket goes if nobody listens at it.
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
        /// Its path, from the root.
        path: PathBuf,
    },
}

impl Undo {
    /// A macvtap of this name.
    pub fn of_macvtap(name: &str) -> Self {
        Self::Macvtap { name: name.to_owned() }
    }

    /// A port of this name in whatever bridge of Open vSwitch.
    pub fn of_ovs_port(name: &str) -> Self {
        Self::OvsPort { name: name.to_owned() }
    }

    /// A socket at this path. None if nobody can say where that is.
    pub fn of_socket(path: &Path) -> Option<Self> {
        // Whoever cleans up works in another folder.
        Some(Self::Socket { path: std::path::absolute(path).ok()? })
    }

    /// Takes it away if it is ours, in the namespace of the calling thread and with the Open vSwitch of this process's
    /// environment. What is not there any more is no error: the interface that it stood on may have taken it along.
    pub fn now(&self) {
        match self {
            // One that never appeared, too.
            Self::Macvtap { name } => {
                [name, &name_before(name)].into_iter().for_each(|name| drop(delete_ours(name)))
            }
            Self::OvsPort { name } => ovs::forget(name),
            Self::Socket { path } => remove_socket(path),
        }
    }

    /// An undo that happens when the answer is dropped. Not for an interface: that is [`Armed::of_link`].
    pub(crate) const fn armed(self) -> Armed {
        Armed { what: What::Undo(self) }
    }
}

/// Something that is taken away when this is dropped.
#[derive(Debug)]
pub(crate) struct Armed {
    what: What,
}

#[derive(Debug)]
enum What {
    /// It is not to happen any more.
    Nothing,
    Undo(Undo),
    /// An interface, in the namespace of the socket, which is there already: none may be left when it is needed.
    Link(Netlink, Which),
}

/// Which interface.
#[derive(Debug)]
enum Which {
    Named(String),
    /// No other one has it, and it may have another name by now.
    Index(u32),
}

impl Armed {
    /// An interface that is about to be made under this name.
    pub(crate) fn of_link(kernel: Netlink, name: &str) -> Self {
        Self { what: What::Link(kernel, Which::Named(name.to_owned())) }
    }

    /// The interface is there, and has this index.
    pub(crate) fn found(&mut self, index: u32) {
        if let What::Link(_, which) = &mut self.what {
            *which = Which::Index(index);
        }
    }

    /// Nothing is taken away: somebody else sees to it, or there is nothing.
    pub(crate) fn disarm(&mut self) {
        self.what = What::Nothing;
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        match &self.what {
            What::Nothing => {}
            What::Undo(undo) => undo.now(),
            What::Link(kernel, Which::Index(index)) => drop(kernel.delete_link(*index)),
            What::Link(kernel, Which::Named(name)) => drop(kernel.delete_link(name.as_str())),
        }
    }
}

/// Removes a socket as soon as nobody listens at it: a process that was killed may close it after everything else.
fn remove_socket(path: &Path) {
    let end = Instant::now() + CLOSING;
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
