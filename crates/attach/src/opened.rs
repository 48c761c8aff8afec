//! Host resources opened for a NIC: kept by the supervisor, handed to the data plane, monitored and repaired.
//!
//! ```text
//!  process that may open                                           process that serves
//!  NicRequirements::open --> HostResource - hand_over: HandedOver -> NicRequirements::serve --> Attachment
//!                            | watch --> Watched: look, restore (a thread)                      ^
//!                            | open anew, inherit - hand_over: HandedOver ----------------> replace
//!                            | resize, bell + attend: Work (a thread); turn
//! ```

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uplink::{Cable, Door, LinkTable, Links};

use crate::NicRequirements;

/// Deferred work on an opened resource, to be done on a thread of its own because the kernel may block it.
pub type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// A host resource opened for a NIC. The methods that keep it in order have no default implementation, so
/// that no kind can forget them.
///
/// Methods never block their caller: work that may block is returned as [`Work`]; `turn` and dropping the
/// resource are to be done on a thread of its own.
pub trait HostResource: Any + fmt::Debug + Send {
    /// Returns its description, for the process that serves it, and its descriptors.
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>);

    /// Returns the work that adapts it to changed requirements; `None` if nothing has to be changed.
    fn resize(&self, before: &NicRequirements, now: &NicRequirements) -> Option<Work>;

    /// Takes over from a deleted predecessor what belongs to the name and not to the resource.
    fn inherit(&mut self, _old: &mut dyn HostResource) {}

    /// Prepares for the end of a data plane that has served it, or for the start of one. To be called on a
    /// thread of its own.
    ///
    /// # Errors
    /// It cannot be served at the moment.
    fn turn(&mut self, turn: DataPlaneChange) -> Result<()>;

    /// Returns a handle to be checked regularly; `None` if it cannot disappear, or no descriptors are left.
    fn watch(&self) -> Option<Box<dyn Watched>>;

    /// Returns the frames that the kernel has lost because the queue before us was full, from the table of a
    /// namespace. `None`: it does not count them, or it does not exist.
    fn lost(&self, _: &LinkTable) -> Option<u64> {
        None
    }

    /// Describes in one line what the host has refused, if it works without that.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Returns a descriptor that is readable when the serving process has a request.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Handles a request, if there is one; returns the part that may block.
    fn attend(&self) -> Option<Work> {
        None
    }
}

/// An opened resource on its way to the process that serves it.
#[derive(Debug)]
pub struct HandedOver {
    /// Its description.
    pub what: Value,
    /// Its descriptors, in order.
    pub descriptors: Vec<OwnedFd>,
}

impl HandedOver {
    /// Duplicates the descriptors of an opened resource.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn of((what, descriptors): (Value, Vec<BorrowedFd<'_>>)) -> io::Result<Self> {
        let copies = descriptors.into_iter().map(|fd| fd.try_clone_to_owned());
        Ok(Self { what, descriptors: copies.collect::<io::Result<_>>()? })
    }

    /// Returns its description in the type that the kind expects.
    pub(crate) fn parts<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.what).context("what was handed over is of another kind")
    }

    /// Takes the last remaining descriptor.
    ///
    /// # Errors
    /// There is none.
    pub fn last(&mut self) -> Result<OwnedFd> {
        self.descriptors.pop().context("a descriptor is missing of what was handed over for a NIC")
    }
}

/// Change of the data plane that serves a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPlaneChange {
    /// The data plane has died.
    Ended,
    /// A new one begins; with the number of starts.
    Begins(u32),
}

/// Another handle to a resource that may be deleted, moved or removed from its bridge; to be used on a thread
/// of its own, as the kernel or another program may block it.
pub trait Watched: fmt::Debug + Send {
    /// Returns its condition.
    fn look(&self, host: &HostInterfaces) -> Health;

    /// Puts it back into its place, if it was removed.
    ///
    /// # Errors
    /// One line: why that is not possible yet.
    fn restore(&self) -> Result<Restored>;
}

/// The interfaces of the namespace in which everything was opened, for any number of looks.
#[derive(Debug)]
pub struct HostInterfaces {
    /// The kernel's counters, if available.
    pub table: Option<LinkTable>,
    /// Netlink socket; `None`: it could not be opened.
    pub links: Option<Links>,
}

impl HostInterfaces {
    /// Returns the view of the calling thread's namespace.
    pub fn here() -> Self {
        Self { table: LinkTable::here().ok(), links: Links::here().ok() }
    }
}

/// Condition of an opened resource.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// True if it still exists.
    pub is_there: bool,
    /// True unless there are signs that it was removed from its place.
    pub is_in_place: bool,
    /// State of its cable; `None`: unknown.
    pub cable: Option<Cable>,
    /// Frames that the kernel has lost before us, if it was moved and its name is not in the table any more.
    pub lost: Option<u64>,
}

/// Result of putting a resource back.
#[derive(Debug)]
pub struct Restored {
    /// True if it had been removed.
    pub was_out: bool,
    /// Describes where it is now.
    pub place: String,
}

/// Descriptors of resources that do not disappear: files, sockets.
#[derive(Debug, Default)]
pub(crate) struct FixedDescriptors {
    /// Their description.
    pub(crate) what: Value,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The rendezvous point of peers, if there is one.
    pub(crate) door: Option<Door>,
    /// Path of a file to be replaced when a new data plane begins, and the function that does this.
    pub(crate) renewed: Option<(PathBuf, Renew)>,
}

/// Replaces the first descriptor, for a data plane that begins; with the number of starts.
pub(crate) type Renew = fn(&Path, &mut [OwnedFd], u32) -> Result<()>;

impl HostResource for FixedDescriptors {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (self.what.clone(), self.descriptors.iter().map(AsFd::as_fd).collect())
    }

    fn resize(&self, _: &NicRequirements, _: &NicRequirements) -> Option<Work> {
        None
    }

    fn turn(&mut self, turn: DataPlaneChange) -> Result<()> {
        match (turn, &self.renewed) {
            (DataPlaneChange::Begins(times), Some((path, renew))) => {
                renew(path, &mut self.descriptors, times)
            }
            _ => Ok(()),
        }
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.door.as_ref()?.asked()
    }

    fn attend(&self) -> Option<Work> {
        self.door.iter().for_each(Door::serve_request);
        None
    }
}
