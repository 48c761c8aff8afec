//! Undo records of objects made on the host: for the process that made them, or for the cleaner, which
//! received the record beforehand.

use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cgroup::{self, Version};
use crate::controller;
use crate::error::ApplyError;
use crate::exclusive_cpus;

/// Time limit for threads of ended processes to disappear, where the caller waits for that. They leave a group at their last switch of a
/// CPU, after their end is reported; this host may have nothing but other work for its CPUs for a second and more.
const LEAVING: Duration = Duration::from_secs(10);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(5);

/// Object to be removed. Records are undone in reverse order of creation; undoing is idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Exclusive CPUs.
    Island {
        /// Version of the interface.
        version: Version,
        /// Group in which it was made.
        base: PathBuf,
        /// The group itself.
        path: PathBuf,
        /// Group that remaining threads move to.
        home: PathBuf,
        /// Folder to lock meanwhile.
        shared: PathBuf,
    },
    /// A group with a weight.
    Group {
        /// Version of the interface.
        version: Version,
        /// The group itself.
        path: PathBuf,
        /// Group that remaining threads move to.
        home: PathBuf,
    },
    /// Controller turned on in v2, to be turned off if no group needs it any more.
    Controller {
        /// Group whose children have it.
        base: PathBuf,
        /// Name of the controller.
        controller: String,
        /// Folder to lock meanwhile.
        shared: PathBuf,
    },
    /// Control file whose content was changed.
    Setting {
        /// Path of the file.
        path: PathBuf,
        /// Previous content.
        was: String,
    },
}

impl Undo {
    /// Removes the object in place of a process that was killed. Waits for the lock if that is needed, and until `end` at most for
    /// threads that are about to end: such a process releases its locks before its threads are gone. A missing object is no error.
    ///
    /// # Errors
    /// The object is still there.
    pub fn after_kill(&self, end: Instant) -> io::Result<()> {
        self.until(end)
    }

    /// Undoes several objects in order, waiting at most 10 s in total for threads to end, and as long for the lock of each that
    /// is shared. Returns those that are still there.
    pub(crate) fn all<'u>(undos: impl IntoIterator<Item = &'u Self>) -> Vec<(&'u Self, io::Error)> {
        let end = Instant::now() + LEAVING;
        undos.into_iter().filter_map(|undo| Some((undo, undo.until(end).err()?))).collect()
    }

    fn until(&self, end: Instant) -> io::Result<()> {
        loop {
            match self.carried_out(false) {
                Err(error) if cgroup::is_in_use(&error) && Instant::now() < end => sleep(LOOK),
                outcome => return outcome,
            }
        }
    }

    /// Removes the object, if no threads are in it any more. `is_locked`: the caller holds the lock.
    pub(crate) fn carried_out(&self, is_locked: bool) -> io::Result<()> {
        match self {
            Self::Island { version, base, path, home, shared } => {
                exclusive_cpus::remove(*version, base, path, home, (!is_locked).then_some(shared.as_path()))
            }
            Self::Group { version, path, home } => cgroup::remove(path, home, *version),
            Self::Controller { base, controller, shared } => {
                controller::switch_off(base, controller, (!is_locked).then_some(shared.as_path()))
            }
            Self::Setting { path, was } => match cgroup::write(path, was) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                outcome => outcome,
            },
        }
    }

    /// Returns true if it changes what all runs share, which takes the lock.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Island { version: Version::V1, .. } | Self::Controller { .. })
    }

    /// Error to report if it could not be removed.
    pub(crate) fn left_behind(&self, error: io::Error) -> ApplyError {
        ApplyError::host(format!("{} is left behind", self.path().display()), error)
    }

    /// Path that the record is about.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Island { path, .. } | Self::Group { path, .. } | Self::Setting { path, .. } => path.clone(),
            Self::Controller { base, controller, .. } => controller::mark(base, controller),
        }
    }
}
