//! Locks on names of runs and routers: each belongs to one run at a time.
//!
//! ```text
//! /run/ringroad/routers/edge       locked (flock(2)) by the run that has this router, with its pid inside
//! /run/ringroad/runs/lab/lock      the same for the name of the run
//! /run/ringroad/runs/lab/control   its control socket
//! /run/ringroad/users/60578        the same for the user that its data plane is
//! /run/ringroad/functions/0000:01:10.0   the same for a virtual function, by its PCI address
//! /run/ringroad/functions/0000:01:00.0   record of a changed number of functions of a port (sriov::FormerCount)
//! ```
//!
//! A lock belongs to an open file description, and so to every process that holds the descriptor: the
//! supervisor and its data plane. The kernel releases it when the last of them has ended, however it ended.
//! So a left-over file never keeps a name taken, and a name that can be taken has no data plane any more.

mod claim;
mod cleaner;
mod file;
mod functions;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use api::folder::{LOCK, base};
use host::users;
use uplink::Undo;

use crate::kernels::backend::Remains;
pub(crate) use claim::NameClaim;
use claim::release;
pub use cleaner::clean_up_after;
use cleaner::{Cleaner, CleanupList};
use file::{LockFile, until_timeout};
pub(crate) use functions::{FunctionLock, FunctionLocks};

/// Attempts in the race with a run that ends.
const TRIES: usize = 10;
/// Most names tried for a run whose file gives none.
const MOST_SUFFIXES: u32 = 100;

/// Names of a run, held until this is dropped.
#[derive(Debug)]
pub struct RunLock {
    base: PathBuf,
    routers: BTreeMap<String, LockFile>,
    run: Option<Run>,
    user: Option<LockFile>,
    /// List of what is to be removed if this process is killed.
    cleanup_list: CleanupList,
    /// Last, since it must outlive the files.
    cleaner: Option<Cleaner>,
}

#[derive(Debug)]
struct Run {
    name: String,
    lock: LockFile,
}

impl RunLock {
    /// Takes the names of these routers, all or none.
    ///
    /// # Errors
    /// In one line, that a name is taken (and by which process), or that the folder cannot be made.
    pub fn take<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        Self::unguarded(&base()?).with(names)
    }

    /// Takes these names, with a cleaner process that removes the files if this process is killed.
    ///
    /// # Errors
    /// Those of [`RunLock::take`], or no process can be started.
    pub(crate) fn guarded<'n>(names: impl IntoIterator<Item = &'n str>, now: Instant) -> Result<Self> {
        let mut lock = Self::unguarded(&base()?);
        lock.cleaner = Some(Cleaner::start(lock.cleanup_list.clone(), now)?);
        lock.with(names)
    }

    /// Holds no names yet; locks are made in this folder.
    pub(crate) fn unguarded(base: &Path) -> Self {
        let (routers, cleanup_list) = Default::default();
        Self { base: base.to_owned(), routers, run: None, user: None, cleanup_list, cleaner: None }
    }

    /// Takes the names of these routers as well.
    pub(crate) fn with<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        let mut lock = self;
        for name in names {
            // On failure the names held so far are released.
            lock.add(name)?;
        }
        Ok(lock)
    }

    /// Takes the name of one more router.
    ///
    /// # Errors
    /// Those of [`RunLock::take`].
    pub(crate) fn add(&mut self, router: &str) -> Result<()> {
        let held = claim::lock_router(&self.base, &self.cleanup_list, router, &mut until_timeout())?;
        self.routers.insert(router.to_owned(), held);
        Ok(())
    }

    /// Calls `work` for each of these names that no run has, while it is held. Waits for remains of killed runs, for all names together as
    /// long as a start does.
    pub(crate) fn each_free<'n>(&self, names: impl Iterator<Item = &'n str>, mut work: impl FnMut(&'n str)) {
        let mut wait = until_timeout();
        for name in names {
            let held = claim::lock_router(&self.base, &self.cleanup_list, name, &mut wait);
            let Ok(held) = held else { continue };
            work(name);
            release([(name.to_owned(), held)].into(), &self.cleanup_list);
        }
    }

    /// Claims those of these names that are not held, to be taken by a thread.
    pub(crate) fn claim<'n>(&self, names: impl Iterator<Item = &'n str>) -> NameClaim {
        let new = names.filter(|name| !self.has(name)).map(str::to_owned).collect();
        NameClaim::new(&self.base, new, self.cleanup_list.clone())
    }

    /// Adopts names that a thread has taken.
    pub(crate) fn adopt(&mut self, mut taken: NameClaim) {
        self.routers.append(&mut taken.routers);
    }

    /// Takes a user number for the data plane that no other process uses.
    ///
    /// # Errors
    /// In one line, that other runs have all of them.
    pub(crate) fn take_user(&mut self) -> Result<u32> {
        let known = users::known();
        for number in users::FREE.filter(|number| !known.contains(number)) {
            let path = self.base.join("users").join(number.to_string());
            // Remains of a killed run may still run as that user: then the next number is tried.
            let refusal = "another run has this user";
            if let Ok(lock) = claim::lock(&self.cleanup_list, &path, refusal, &mut || false) {
                self.user = Some(lock);
                return Ok(number);
            }
        }
        bail!("no user is left for the data plane: give one by --user")
    }

    /// Descriptor to poll for reading: the end of the cleaner process.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.cleaner.as_ref().and_then(Cleaner::watched)
    }

    /// When the cleaner needs attention.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.cleaner.as_ref().and_then(Cleaner::due)
    }

    /// Attends to the cleaner process. Returns a line to report.
    pub(crate) fn attend(&mut self, now: Instant) -> Option<String> {
        self.cleaner.as_mut()?.attend(now)
    }

    /// Announces a file of the run that is to be removed if this process is killed.
    pub(crate) fn add_rubbish(&self, path: &Path) {
        if let Some((_, folder)) = self.run() {
            self.cleanup_list.add_rubbish(&folder.join(LOCK), path);
        }
    }

    /// Announces a host object that is to be removed if this process is killed.
    pub(crate) fn add_undo(&self, undo: &Undo) {
        if let Some((_, folder)) = self.run() {
            self.cleanup_list.add_undo(&folder.join(LOCK), undo);
        }
    }

    /// Callback that does that in a thread.
    ///
    /// # Errors
    /// The run has no name yet.
    pub(crate) fn undo_journal(&self) -> Result<impl Fn(&Undo) + Send + use<>> {
        let (_, folder) = self.run().context("a run has a folder")?;
        let (cleanup_list, lock) = (self.cleanup_list.clone(), folder.join(LOCK));
        Ok(move |undo: &Undo| cleanup_list.add_undo(&lock, undo))
    }

    /// Callback that announces to the cleaner what was made for the placement of threads and must be undone
    /// if this process is killed.
    ///
    /// # Errors
    /// The run has no name yet.
    pub(crate) fn journal(&self) -> Result<impl FnMut(&sched::Undo) + Send + use<>> {
        let (_, folder) = self.run().context("a run has a folder")?;
        let (cleanup_list, lock) = (self.cleanup_list.clone(), folder.join(LOCK));
        Ok(move |undo: &sched::Undo| cleanup_list.add_schedule(&lock, undo))
    }

    /// Sender that tells the cleaner what a SIGKILL of this process would leave of kernel routers.
    ///
    /// # Errors
    /// The run has no name yet.
    pub(crate) fn leftovers(&self) -> Result<impl FnMut(Remains<'_>) + Send + use<>> {
        let (_, folder) = self.run().context("a run has a folder")?;
        let (cleanup_list, lock) = (self.cleanup_list.clone(), folder.join(LOCK));
        Ok(move |rest: Remains<'_>| cleanup_list.add_rest(&lock, &rest))
    }

    /// Directory of the containers of this run.
    ///
    /// # Errors
    /// The run has no name yet.
    pub(crate) fn containers(&self) -> Result<PathBuf> {
        Ok(self.run().context("a run has a folder")?.1.join("lxc"))
    }

    /// Locks on virtual functions, in the directory of the records of numbers of functions that runs have changed.
    pub(crate) fn functions(&self) -> FunctionLocks {
        FunctionLocks::new(self.base.join("functions"), self.cleanup_list.clone())
    }

    /// Releases the names of all routers but these.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        let (kept, gone) = std::mem::take(&mut self.routers).into_iter().partition(|(name, _)| is_kept(name));
        self.routers = kept;
        release(gone, &self.cleanup_list);
    }

    /// Returns true if the name of this router is held.
    pub(crate) fn has(&self, router: &str) -> bool {
        self.routers.contains_key(router)
    }

    /// Takes a name for the run and makes its folder. If another run has the name and it may be `changed`, a
    /// number is appended.
    ///
    /// # Errors
    /// Those of [`RunLock::take`].
    pub(crate) fn name_run(&mut self, name: &str, changed: bool) -> Result<()> {
        let mut outcome = self.take_run(name);
        for number in 2..MOST_SUFFIXES {
            if outcome.is_ok() || !changed {
                break;
            }
            outcome = self.take_run(&format!("{name}-{number}"));
        }
        outcome
    }

    fn take_run(&mut self, name: &str) -> Result<()> {
        let path = self.runs().join(name).join(LOCK);
        let refusal = format!("a run named '{name}' is already there");
        let lock = claim::lock(&self.cleanup_list, &path, &refusal, &mut until_timeout())?;
        self.run = Some(Run { name: name.to_owned(), lock });
        Ok(())
    }

    /// Name of the run, and its folder.
    pub(crate) fn run(&self) -> Option<(&str, PathBuf)> {
        let run = self.run.as_ref()?;
        Some((&run.name, self.runs().join(&run.name)))
    }

    /// Folder of all runs of this user, which no other user may open. It exists as long as this run has a
    /// name.
    pub(crate) fn runs(&self) -> PathBuf {
        self.base.join("runs")
    }

    /// Descriptor that holds the lock on the name of this router, if that is held, for the router's own
    /// process.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn descriptor_of(&self, router: &str) -> Result<Vec<OwnedFd>> {
        self.routers.get(router).into_iter().map(LockFile::descriptor).collect()
    }

    /// Descriptors that hold all these locks, for another process.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn descriptors(&self) -> Result<Vec<OwnedFd>> {
        let run = self.run.iter().map(|run| &run.lock);
        run.chain(&self.user).chain(self.routers.values()).map(LockFile::descriptor).collect()
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        self.routers.clear();
        self.run = None;
        self.user = None;
        for folder in ["routers", "runs", "users"] {
            // It stays if another run has something in it.
            let _ = fs::remove_dir(self.base.join(folder));
        }
    }
}

/// Makes a folder that only its owner (and root) may enter.
fn make_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    // A run that ends at this moment may remove the empty parent folder.
    let made = (0..TRIES).map(|_| builder.create(path)).find(|made| !is_missing(made));
    made.unwrap_or_else(|| builder.create(path)).with_context(|| format!("cannot make {}", path.display()))
}

fn is_missing(made: &io::Result<()>) -> bool {
    made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
