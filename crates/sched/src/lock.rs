//! Lock on what all runs of an owner share on a host: load balancing, controllers, exclusive CPUs.
//!
//! The lock is on a folder that no other user may open. flock(2) needs no more than a readable descriptor:
//! anyone who may open a folder of control groups, which is everyone, could hold a lock on that one forever.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Time limit of waiting for another run, which holds the lock for one change: some milliseconds, but on a busy host seconds for each
/// thread and process that it moves to another control group, since each of these writes waits for a grace period of the kernel.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit of waiting for the lock to undo something: a run that is stopped with the lock costs this time for each shared object,
/// while another run or a cleaner ends.
const UNDOING: Duration = Duration::from_secs(10);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(5);

/// Takes the lock on `folder`, which is held until the file is closed: one run at a time changes what all
/// share. Blocks, so it is for threads that have nothing else to do.
///
/// # Errors
/// Users other than the owner may open the folder, or another run does not finish.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    lock_for(folder, PATIENCE)
}

/// Takes the lock to undo something, with less patience than [`lock`].
pub(crate) fn lock_to_undo(folder: &Path) -> io::Result<File> {
    lock_for(folder, UNDOING)
}

fn lock_for(folder: &Path, patience: Duration) -> io::Result<File> {
    let end = Instant::now() + patience;
    let mut wait = || {
        sleep(LOOK);
        Instant::now() < end
    };
    lock_while(folder, &mut wait)?.ok_or_else(|| held(folder))
}

/// Non-blocking variant of the lock, kept for several changes.
pub(crate) struct SharedLock {
    folder: PathBuf,
    lock: Option<File>,
}

impl SharedLock {
    /// Creates it unlocked.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), lock: None }
    }

    /// Folder that is locked.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the lock if no other run holds it. Returns whether it is held now.
    ///
    /// # Errors
    /// Users other than the owner may open the folder.
    pub(crate) fn try_lock(&mut self) -> io::Result<bool> {
        if self.lock.is_none() {
            self.lock = lock_while(&self.folder, &mut || false)?;
        }
        Ok(self.is_locked())
    }

    /// Releases the lock.
    pub(crate) fn unlock(&mut self) {
        self.lock = None;
    }

    /// Returns true if the lock is held.
    pub(crate) const fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Folder that a change still has to lock.
    pub(crate) fn to_lock(&self) -> Option<&Path> {
        (!self.is_locked()).then_some(&self.folder)
    }

    /// Error to report if another run holds the lock and does not finish.
    pub(crate) fn is_held(&self) -> io::Error {
        held(&self.folder)
    }
}

fn held(folder: &Path) -> io::Error {
    refused(folder, "another run of yours holds it; see whether that is stopped, and try again")
}

/// Of kind `Other`, so that a missing or busy lock is not mistaken for a missing or busy object.
fn refused(folder: &Path, why: &str) -> io::Error {
    io::Error::other(format!("the lock on {}, which this needs, cannot be had: {why}", folder.display()))
}

/// Retries while `waits` returns true; `None`: another run holds the lock.
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

/// Opens the folder, if no other user may open it.
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
