//! Locks on virtual functions: each function belongs to one run at a time, from before its settings are read until they are restored.

use std::path::{Path, PathBuf};

use anyhow::Result;
use sriov::Address;

use super::claim;
use super::cleaner::CleanupList;
use super::file::{LockFile, is_held, until_short_timeout};

/// Folder of the locks on virtual functions, and of the records of numbers of functions that runs have changed.
#[derive(Clone, Debug)]
pub(crate) struct FunctionLocks {
    folder: PathBuf,
    cleanup_list: CleanupList,
}

/// Held lock on a virtual function. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct FunctionLock {
    path: PathBuf,
    /// `None` only while it is released.
    file: Option<LockFile>,
    cleanup_list: CleanupList,
}

impl FunctionLocks {
    /// Locks in a folder, announced to the cleaner of the run.
    pub(super) fn new(folder: PathBuf, cleanup_list: CleanupList) -> Self {
        Self { folder, cleanup_list }
    }

    /// Locks in a folder, without a cleaner.
    #[cfg(test)]
    pub(crate) fn unguarded(folder: PathBuf) -> Self {
        Self::new(folder, CleanupList::default())
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a function that sleeps briefly at each call, and returns false once the cleaner of a killed run has had enough time.
    pub(crate) fn until_timeout() -> impl FnMut() -> bool {
        until_short_timeout()
    }

    /// Takes the lock on the function at this address. Waits only for the cleaner of a killed run, which is about to restore the function's
    /// settings, as long as `wait` returns true. `what`: the function in the error message.
    ///
    /// # Errors
    /// In one line, that another run has the function, and which process that is; or that the folder cannot be made.
    pub(crate) fn take(
        &self,
        address: Address,
        what: &str,
        wait: &mut dyn FnMut() -> bool,
    ) -> Result<FunctionLock> {
        let (path, cleanup_list) = (self.path(address), self.cleanup_list.clone());
        let refusal = format!("{what} is in use by another run");
        let file = claim::lock(&cleanup_list, &path, &refusal, wait)?;
        Ok(FunctionLock { path, file: Some(file), cleanup_list })
    }

    /// Returns true if a run has the function at this address.
    pub(crate) fn is_held(&self, address: Address) -> bool {
        is_held(&self.path(address))
    }

    fn path(&self, address: Address) -> PathBuf {
        self.folder.join(address.to_string())
    }
}

impl FunctionLock {
    /// Returns the path of the lock.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FunctionLock {
    fn drop(&mut self) {
        drop(self.file.take());
        self.cleanup_list.forget(&self.path);
    }
}
