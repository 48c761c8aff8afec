//! What was made on the host and does not go with a descriptor: how to take it away, by whoever made it, or by somebody who
//! was told before and cleans up after it.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::netlink::{Message, Netlink};
use crate::{Error, Links, door, macvtap, ovs};

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
            Self::Macvtap { name } => drop(delete_ours(name)),
            Self::OvsPort { name } => ovs::forget(name),
            Self::Socket { path } => remove_socket(path),
        }
    }

    /// The same, to happen when the answer is dropped, in the namespace that the calling thread is in now.
    pub(crate) fn armed(self) -> Result<Armed, Error> {
        let place = match &self {
            Self::Macvtap { name } => Some((kernel()?, Links::here()?.index(name)?)),
            Self::OvsPort { .. } | Self::Socket { .. } => None,
        };
        Ok(Armed { undo: Some(self), place })
    }
}

/// Something that is taken away when this is dropped.
#[derive(Debug)]
pub(crate) struct Armed {
    /// None if it is not to happen any more.
    undo: Option<Undo>,
    /// An interface by its index, which no other one has, and its namespace.
    place: Option<(Netlink, u32)>,
}

impl Armed {
    /// Nothing is taken away: somebody else sees to it.
    pub(crate) fn disarm(mut self) {
        self.undo = None;
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        match (self.undo.take(), &self.place) {
            (Some(_), Some((kernel, index))) => drop(delete(kernel, *index)),
            (Some(undo), None) => undo.now(),
            (None, _) => {}
        }
    }
}

/// Removes a socket as soon as nobody listens at it: a process that was killed may close it after everything else.
fn remove_socket(path: &Path) {
    let end = Instant::now() + CLOSING;
    while matches!(door::remove_deserted(path), Err(Error::Socket { .. })) && Instant::now() < end {
        sleep(LOOK);
    }
}

fn kernel() -> Result<Netlink, Error> {
    Netlink::open().map_err(|e| Error::system("opening a socket to the kernel's interfaces", e))
}

fn delete_ours(name: &str) -> Result<(), Error> {
    let (kernel, index) = (kernel()?, Links::here()?.index(name)?);
    let group = kernel.attribute(index, libc::IFLA_GROUP);
    let group = group.map_err(|e| Error::system(format!("asking for the group of `{name}`"), e))?;
    if group.as_deref() == Some(&macvtap::GROUP.to_ne_bytes()) { delete(&kernel, index) } else { Ok(()) }
}

fn delete(kernel: &Netlink, index: u32) -> Result<(), Error> {
    let gone: io::Result<()> = kernel.ask(&Message::link(libc::RTM_DELLINK, 0, index, 0));
    gone.map_err(|e| Error::system("deleting an interface", e))
}
