//! The lock of what all runs of an owner share on a host: the balancing of load, controllers, exclusive CPUs.
//!
//! It is on a folder that nobody else may open. flock(2) asks for no more than a descriptor that can be read: whoever may look at a
//! folder of control groups, which is everybody, could hold a lock on that for ever.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::process::geteuid;

/// How long is waited for another run, which holds the lock while it changes one thing: some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

/// The lock on `folder`, held until the file is closed: one run at a time changes what all share. It is for who has nothing else
/// to do than to wait for it.
///
/// # Errors
/// Others than the owner may open the folder, or another run does not finish.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    let end = Instant::now() + PATIENCE;
    let mut wait = || {
        sleep(LOOK);
        Instant::now() < end
    };
    lock_while(folder, &mut wait)?.ok_or_else(|| held(folder))
}

/// The lock for a run that does not wait for it, and keeps it for several changes.
pub(crate) struct Shared {
    folder: PathBuf,
    lock: Option<File>,
}

impl Shared {
    /// Without the lock.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), lock: None }
    }

    /// The folder that is locked.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the lock, if no other run has it; whether it is had now.
    ///
    /// # Errors
    /// Others than the owner may open the folder.
    pub(crate) fn try_lock(&mut self) -> io::Result<bool> {
        if self.lock.is_none() {
            self.lock = lock_while(&self.folder, &mut || false)?;
        }
        Ok(self.is_locked())
    }

    /// Lets go of it.
    pub(crate) fn unlock(&mut self) {
        self.lock = None;
    }

    /// Whether it is had.
    pub(crate) const fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// What is still to be locked for a change.
    pub(crate) fn to_lock(&self) -> Option<&Path> {
        (!self.is_locked()).then_some(&self.folder)
    }

    /// That another run has it and does not finish.
    pub(crate) fn is_held(&self) -> io::Error {
        held(&self.folder)
    }
}

fn held(folder: &Path) -> io::Error {
    refused(folder, "another run of yours holds it; see whether that is stopped, and try again")
}

/// Of its own kind: what is missing or busy here is not what was to be changed.
fn refused(folder: &Path, why: &str) -> io::Error {
    io::Error::other(format!("the lock on {}, which this needs, cannot be had: {why}", folder.display()))
}

/// Tries it again as long as `waits` says so; none: another run has it.
fn lock_while(folder: &Path, waits: &mut dyn FnMut() -> bool) -> io::Result<Option<File>> {
    let file = opened(folder).map_err(|why| refused(folder, &why))?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK | Errno::INTR) if waits() => {}
            Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
            Err(error) => return Err(refused(folder, &error.to_string())),
        }
    }
}

/// The folder, if nobody else may open it.
fn opened(folder: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder: File = open(folder, flags, Mode::empty()).map_err(|error| error.to_string())?.into();
    let facts = folder.metadata().map_err(|error| error.to_string())?;
    if facts.uid() == geteuid().as_raw() && facts.mode() & 0o077 == 0 {
        return Ok(folder);
    }
    let (owner, mode) = (facts.uid(), facts.mode() & 0o7777);
    Err(format!("it must be yours alone, mode 0700, and it is user {owner}'s, mode {mode:04o}"))
}

#[cfg(test)]
mod tests;
