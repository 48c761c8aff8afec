//! What the command remembers from one room to the next.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::own_folder;

/// A folder for the command's state, which goes with this; never that of the host's own routers.
pub(crate) struct Memory(PathBuf);

impl Memory {
    /// Nothing is remembered yet.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(own_folder()?.1))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
