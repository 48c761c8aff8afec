//! Names that a plan needs beyond those that a run holds, taken by a thread: remains of a killed run may still hold one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cleaner::CleanupList;
use super::file::{LockFile, until_timeout};

/// Names of routers to be taken, and those taken so far. Those that no run adopts are released.
#[derive(Debug)]
pub(crate) struct NameClaim {
    base: PathBuf,
    names: Vec<String>,
    pub(super) routers: BTreeMap<String, LockFile>,
    cleanup_list: CleanupList,
}

impl NameClaim {
    pub(super) fn new(base: &Path, names: Vec<String>, cleanup_list: CleanupList) -> Self {
        Self { base: base.to_owned(), names, routers: BTreeMap::new(), cleanup_list }
    }

    /// Takes the names, all or none. Waits for remains of a killed run, for all names together as long as a start does.
    ///
    /// # Errors
    /// In one line, that a name is taken, and by which process.
    pub(crate) fn take(mut self) -> Result<Self> {
        let mut wait = until_timeout();
        for name in std::mem::take(&mut self.names) {
            let held = lock_router(&self.base, &self.cleanup_list, &name, &mut wait)?;
            self.routers.insert(name, held);
        }
        Ok(self)
    }
}

impl Drop for NameClaim {
    fn drop(&mut self) {
        release(std::mem::take(&mut self.routers), &self.cleanup_list);
    }
}

/// Takes the name of a router.
pub(super) fn lock_router(
    base: &Path,
    cleanup_list: &CleanupList,
    router: &str,
    wait: &mut dyn FnMut() -> bool,
) -> Result<LockFile> {
    let refusal = format!("a router named '{router}' is already running");
    lock(cleanup_list, &base.join("routers").join(router), &refusal, wait)
}

/// Takes the lock at a path, and has the cleaner remove it if this process is killed.
pub(super) fn lock(
    cleanup_list: &CleanupList,
    path: &Path,
    refusal: &str,
    wait: &mut dyn FnMut() -> bool,
) -> Result<LockFile> {
    // Announced before the file exists, so that at no moment a file exists that the cleaner would not
    // remove.
    cleanup_list.add_lock(path);
    LockFile::take(path, refusal, wait).inspect_err(|_| cleanup_list.forget(path))
}

/// Releases names, which the cleaner then has nothing to do with any more.
pub(super) fn release(routers: BTreeMap<String, LockFile>, cleanup_list: &CleanupList) {
    for lock in routers.into_values() {
        let path = lock.path().to_owned();
        drop(lock);
        cleanup_list.forget(&path);
    }
}
