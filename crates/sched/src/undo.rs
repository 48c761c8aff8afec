//! What was made on the host, and how to take it away: by whoever made it, or by somebody who was told before and cleans up.

use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cgroup::{self, Version};
use crate::controller;
use crate::error::ApplyError;
use crate::island;

/// How long threads of a process that was killed may take to go, where somebody waits for that.
const LEAVING: Duration = Duration::from_secs(2);
/// Between two looks at them.
const LOOK: Duration = Duration::from_millis(5);

/// What is to be taken away: what was made last first, and as often as one likes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Exclusive CPUs.
    Island {
        /// Of which interface.
        version: Version,
        /// The group that it was made in.
        base: PathBuf,
        /// The group.
        path: PathBuf,
        /// Where threads go that are still in it.
        home: PathBuf,
        /// The folder that is locked meanwhile.
        shared: PathBuf,
    },
    /// A group with a weight.
    Group {
        /// Of which interface.
        version: Version,
        /// The group.
        path: PathBuf,
        /// Where threads go that are still in it.
        home: PathBuf,
    },
    /// A controller that groups of version 2 have, if nobody needs it any more.
    Controller {
        /// The group that they are in.
        base: PathBuf,
        /// Its name.
        controller: String,
        /// The folder that is locked meanwhile.
        shared: PathBuf,
    },
    /// A file that held something else before.
    Setting {
        /// The file.
        path: PathBuf,
        /// What it held.
        was: String,
    },
}

impl Undo {
    /// Takes it away, and waits for the lock where it needs that, and for threads that are about to go. What is not there any
    /// more is no error.
    ///
    /// # Errors
    /// It is still there.
    pub fn now(&self) -> io::Result<()> {
        Self::all([self]).pop().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Undoes several, one after the other, whose threads have 2 s together; those that are still there.
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

    /// Takes it away, if no threads are in it any more; whether the lock is held by who calls.
    pub(crate) fn carried_out(&self, is_locked: bool) -> io::Result<()> {
        match self {
            Self::Island { version, base, path, home, shared } => {
                island::remove(*version, base, path, home, (!is_locked).then_some(shared.as_path()))
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

    /// Whether it changes what all runs share, which takes the lock.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Island { version: Version::V1, .. } | Self::Controller { .. })
    }

    /// That it could not be taken away.
    pub(crate) fn left_behind(&self, error: io::Error) -> ApplyError {
        ApplyError::host(format!("{} is left behind", self.path().display()), error)
    }

    /// What it is about.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Island { path, .. } | Self::Group { path, .. } | Self::Setting { path, .. } => path.clone(),
            Self::Controller { base, controller, .. } => controller::mark(base, controller),
        }
    }
}
