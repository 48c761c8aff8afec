//! What several test processes of a run need and takes long to make: the first that needs it makes it for all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Environment variable with the folder that all test processes of a run have in common. `cargo xtask test` sets it.
pub const COMMON_FOLDER: &str = "RINGROAD_COMMON_FOLDER";

/// Returns the folder that the test processes of this run have in common; `None` if `cargo xtask test` has not started this one.
pub fn common_folder() -> Option<PathBuf> {
    std::env::var_os(COMMON_FOLDER).map(PathBuf::from)
}

/// Returns the folder of this name in the folder `common`, with what `make` puts into it. Of all that ask, in whatever process, the first
/// one makes it while the others wait; if it panics or is killed, nothing of this name is there, and the next one makes it.
///
/// # Errors
/// The folder cannot be made or locked.
pub fn made_once(common: &Path, name: &str, make: impl FnOnce(&Path)) -> Result<PathBuf> {
    let made = common.join(name);
    let lock = File::create(common.join(format!("{name}.lock")))
        .with_context(|| format!("cannot make a lock in {}", common.display()))?;
    // Locked until it is closed, at the end of this function or of the process.
    lock.lock().with_context(|| format!("cannot lock {name} in {}", common.display()))?;
    if !made.exists() {
        let part = tempfile::tempdir_in(common)?;
        make(part.path());
        fs::rename(part.keep(), &made).with_context(|| format!("cannot name {}", made.display()))?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests;
