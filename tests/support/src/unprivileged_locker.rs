//! Another user of the host, who does what is permitted.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// User ID of nobody.
const NOBODY: u32 = 65534;
/// Script that opens each readable path, keeps it open with a lock on it, prints it, and ends when its standard
/// input closes.
const LOCK: &str = "for path; do [ -r \"$path\" ] && exec {fd}<\"$path\" && flock -n \"$0\" $fd && echo \"$path\"; done; echo; read line";

/// Process of nobody that holds locks (flock(2)) until dropped. Only root can start it.
#[derive(Debug)]
pub struct UnprivilegedLocker {
    child: Child,
    held: Vec<PathBuf>,
}

impl UnprivilegedLocker {
    /// Locks all of these paths that it may open, `-s` shared or `-x` exclusively.
    ///
    /// # Errors
    /// There is no bash, or it does not report its locks.
    pub fn lock(way: &str, paths: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Self> {
        let mut command = Command::new("bash");
        command.args(["-c", LOCK, way]).args(paths).uid(NOBODY).gid(NOBODY);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let told = BufReader::new(child.stdout.take().context("what it says")?);
        let mut held = Vec::new();
        for line in told.lines() {
            match line? {
                line if line.is_empty() => return Ok(Self { child, held }),
                line => held.push(line.into()),
            }
        }
        anyhow::bail!("it ended after {held:?}")
    }

    /// Paths that it has locked.
    pub fn held(&self) -> &[PathBuf] {
        &self.held
    }
}

impl Drop for UnprivilegedLocker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a folder's content, recursively.
pub fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => all_below(&entry.path()),
        _ => vec![entry.path()],
    });
    std::iter::once(folder.to_owned()).chain(below).collect()
}
