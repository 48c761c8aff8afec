//! File that is locked as long as a name is taken.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api::folder::LOCK;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::cleaner::CleanupItem;
use super::make_folder;
use crate::ending::THREADS_GRACE;
use crate::resources::patient_open::LEFT_OVER;

/// Attempts in the race with a run that ends at the same moment and removes its file.
const TRIES: usize = 100;
/// Time limit for the end of a killed run's remains: its data plane and its cleaner. Both take some
/// milliseconds, unless other processes need the CPUs: closing a VM and its TAPs waits for the kernel's grace
/// periods, one after the other, which took 12 s on a host whose CPUs had three times the work they could do.
/// Not longer, since a start does not heed Ctrl-C meanwhile, and the end of a run waits for a thread that takes names.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit for the cleaner of a killed run to restore virtual functions, for all those of a router together. Short, since the same task
/// may start a container after that, and the end of a run waits for it.
const SHORT_PATIENCE: Duration = Duration::from_secs(5);
/// Time limit of a cleaner for such remains; it has nothing else to do. A process that the kernel has not ended by then stays for ever.
const LONG_PATIENCE: Duration = Duration::from_secs(600);
/// Time limit of a cleaner for removing all that goes with one lock, which it holds meanwhile. A killed process releases its locks first,
/// and its sockets and control groups after its VMs. A start waits for the cleaner: see [`PATIENCE`].
const REMOVAL: Duration = Duration::from_secs(15);
/// Time between two attempts, at first and at most; it grows with the time waited.
const LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

const _: () = assert!(REMOVAL.as_secs() < PATIENCE.as_secs());
const _: () = assert!(PATIENCE.as_secs() + LEFT_OVER.as_secs() < THREADS_GRACE.as_secs());

/// Returns a function that sleeps briefly at each call, and returns false once a start has waited long enough.
pub(super) fn until_timeout() -> impl FnMut() -> bool {
    until(PATIENCE)
}

/// Returns such a function with the time limit for virtual functions.
pub(super) fn until_short_timeout() -> impl FnMut() -> bool {
    until(SHORT_PATIENCE)
}

/// Returns such a function with the time limit of a cleaner.
pub(super) fn until_long_timeout() -> impl FnMut() -> bool {
    until(LONG_PATIENCE)
}

fn until(patience: Duration) -> impl FnMut() -> bool {
    let start = Instant::now();
    move || {
        let waited = start.elapsed();
        let waits = waited <= patience;
        if waits {
            sleep((waited / 16).clamp(LOOK, LONGEST_LOOK));
        }
        waits
    }
}

/// A held lock. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    file: File,
}

impl LockFile {
    /// Takes the lock at `path`, or fails with `refusal` and the pid of the holder. If only the remains of a
    /// killed run hold it, this waits for their end as long as `wait` returns true.
    pub(super) fn take(path: &Path, refusal: &str, wait: &mut dyn FnMut() -> bool) -> Result<Self> {
        for _ in 0..TRIES {
            let mut file = match open(path)? {
                Some(file) => file,
                None => continue,
            };
            while !try_lock(&file, path)? {
                let holder = holder(&mut file);
                if holder.is_none_or(is_alive) || !wait() {
                    let pid = holder.map_or_else(String::new, |pid| format!(" (pid {pid})"));
                    bail!("{refusal}{pid}");
                }
            }
            if is_at(&file, path)? {
                write_pid(&mut file).with_context(|| format!("cannot write {}", path.display()))?;
                return Ok(Self { path: path.to_owned(), file });
            }
        }
        bail!("{} changes all the time: something else uses it", path.display())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Duplicates the descriptor: the lock is held until all duplicates are closed.
    pub(super) fn descriptor(&self) -> Result<OwnedFd> {
        Ok(self.file.try_clone().context("no descriptors are left")?.into())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // While the lock is still held, so that no other process can hold the file that is removed.
        remove(&self.path);
    }
}

/// Removes the file of a held lock, and its folders if they are empty then.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let Some(folder) = path.parent() else { return };
    let _ = fs::remove_dir(folder);
    // The lock of a run lies in a folder of its own, which lies in the folder of all runs.
    if let (true, Some(runs)) = (path.ends_with(LOCK), folder.parent()) {
        let _ = fs::remove_dir(runs);
    }
}

/// Removes the lock at `path` that the process `dead` left, and the objects in `rubbish`. If a new run has taken the lock over,
/// nothing is touched. Returns false if processes of the dead one still hold it: to be tried again.
pub(super) fn clean_up(path: &Path, dead: u32, rubbish: &[CleanupItem]) -> bool {
    let Ok(mut file) = File::open(path) else { return true };
    let Ok(lock) = file.try_clone() else { return true };
    let mut is_dead = || holder(&mut file).is_none_or(|pid| is_number(pid, dead));
    if let Ok(false) = try_lock(&lock, path) {
        return !is_dead();
    }
    if is_dead() && matches!(is_at(&lock, path), Ok(true)) {
        let end = Instant::now() + REMOVAL;
        // In reverse order: what was made later may depend on what was made before.
        rubbish.iter().rev().for_each(|item| item.remove(end));
        remove(path);
    }
    true
}

/// Takes the lock at `path` that the process `dead` has left. Waits as long as `wait` returns true for the kernel, which may not have closed
/// all descriptors of that process yet. `None`: another process has the lock. The file still names the dead one, so that a run that wants
/// the lock waits. Closing the returned file releases the lock.
pub(super) fn take_left(path: &Path, dead: u32, wait: &mut dyn FnMut() -> bool) -> Option<File> {
    let mut file = File::open(path).ok()?;
    let is_dead = |pid: Pid| is_number(pid, dead);
    while !try_lock(&file, path).ok()? {
        let is_dying = holder(&mut file).is_some_and(is_dead);
        if !(is_dying && wait()) {
            return None;
        }
    }
    let is_left = holder(&mut file).is_some_and(is_dead) && matches!(is_at(&file, path), Ok(true));
    is_left.then_some(file)
}

/// Does this for each lock, as long as `wait` returns true: if a process of the dead one never ends, what belongs to its lock stays,
/// and all else is removed.
pub(super) fn clean_up_all(
    mut locks: Vec<(PathBuf, Vec<CleanupItem>)>,
    dead: u32,
    wait: &mut dyn FnMut() -> bool,
) {
    loop {
        locks.retain(|(lock, rubbish)| !clean_up(lock, dead, rubbish));
        if locks.is_empty() || !wait() {
            return;
        }
    }
}

/// Returns true if a living process has the lock at `path`. A left-over file may name a process that has got the number of a dead one; the
/// lock itself is tried last, since who takes it at that moment would be refused.
pub(super) fn is_held(path: &Path) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    holder(&mut file).is_some_and(is_alive) && matches!(try_lock(&file, path), Ok(false))
}

/// Returns true if another process than `dead` has taken the lock at `path` since.
pub(super) fn is_taken_over(path: &Path, dead: u32) -> bool {
    let holder = File::open(path).ok().and_then(|mut file| holder(&mut file));
    holder.is_some_and(|pid| !is_number(pid, dead))
}

/// Opens the file, and makes it and its folder if needed; `None` if the folder vanished in between.
fn open(path: &Path) -> Result<Option<File>> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).with_context(|| format!("cannot open {}", path.display())),
    }
}

fn try_lock(file: &File, path: &Path) -> Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Returns true if the open file is still the one at this path; a run that just ended may have removed it.
fn is_at(file: &File, path: &Path) -> Result<bool> {
    let ours = file.metadata().context("cannot look at the lock")?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", path.display())),
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Process that holds the lock or held it last, if it has written its pid already.
fn holder(file: &mut File) -> Option<Pid> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
}

fn is_number(pid: Pid, number: u32) -> bool {
    pid.as_raw_nonzero().get().unsigned_abs() == number
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid) != Err(Errno::SRCH)
}
