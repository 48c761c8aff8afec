//! Temporary folders.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
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
        Self::within(&std::env::temp_dir(), || FOLDERS.fetch_add(1, Relaxed))
    }

    /// Creates one in a folder, with the first of these numbers that is free: a process in another PID namespace may have the number of
    /// this one.
    fn within(place: &Path, mut number: impl FnMut() -> u32) -> Result<Self> {
        loop {
            let id = format!("l{:x}-{}", std::process::id(), number());
            let path = place.join(format!("ringroad-lab-{id}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { id, path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_another_process_has_is_not_taken() {
        let place = Folder::new().expect("a folder");
        let first = Folder::within(&place.path, || 0).expect("a folder");
        let mut numbers = 0..;
        let second = Folder::within(&place.path, || numbers.next().expect("a number")).expect("a folder");
        assert!(first.id != second.id && first.path != second.path, "{} and {}", first.id, second.id);
        drop(second);
        assert!(first.path.exists());
    }
}
