//! Temporary folders.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use anyhow::{Context, Result};

/// Temporary folder, removed when dropped.
pub(crate) struct Folder {
    /// Unique short string that is part of its name.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

impl Folder {
    /// Creates an empty folder.
    pub(crate) fn new() -> Result<Self> {
        // Several may exist at once.
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let id = format!("l{:x}-{}", std::process::id(), FOLDERS.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(format!("ringroad-lab-{id}"));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { id, path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
