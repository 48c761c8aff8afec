//! The lock of what all runs of an owner share on a host: the balancing of load, controllers, exclusive CPUs.
//!
//! It is on a folder that nobody else may open. flock(2) asks for no more than a descriptor that can be read: whoever may look at a
//! folder of control groups, which is everybody, could hold a lock on that for ever.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::process::geteuid;

/// How long is waited for another run, which holds the lock while it changes one thing: some milliseconds, and 2 s at most where
/// threads of a process that was killed are still in what it takes away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

/// The lock on `folder`, held until the file is closed: one run at a time changes what all share.
///
/// # Errors
/// Others than the owner may open the folder, or another run does not finish.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    let end = Instant::now() + PATIENCE;
    let mut wait = || {
        sleep(LOOK);
        Instant::now() < end
    };
    lock_while(folder, &mut wait).map_err(|why| {
        // Of its own kind: what is missing or busy here is not what was to be changed.
        io::Error::other(format!("the lock on {}, which this needs, cannot be had: {why}", folder.display()))
    })
}

/// The same, tried again as long as `waits` says so.
fn lock_while(folder: &Path, waits: &mut dyn FnMut() -> bool) -> Result<File, String> {
    let folder = opened(folder)?;
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) if waits() => {}
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                return Err(
                    "another run of yours holds it; see whether that is stopped, and try again".to_owned()
                );
            }
            Err(error) => return Err(error.to_string()),
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
