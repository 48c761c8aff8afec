//! One run at a time of each router name.
//!
//! A run holds `/run/ringroad/NAME/lock` (flock(2), with its pid inside) for every router it brings up. The kernel
//! lets go of it when the process ends, however it ends, so a stale file never keeps a name taken. The folder is
//! also where a run keeps what the next start of the same name must clean up after a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Turns for the race with a run that ends at the same moment and removes its file.
const TRIES: usize = 100;

/// The names of a run, held until this is dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    /// Dropped with this, and so let go of.
    _held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    folder: PathBuf,
    /// Open as long as the lock is held.
    _file: File,
}

impl RunLock {
    /// Takes the names of these routers, all or none.
    ///
    /// # Errors
    /// One line: a name is taken (by whom), or the folder cannot be made.
    pub(crate) fn take<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        Self::take_in(&base()?, names)
    }

    fn take_in<'n>(base: &Path, names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        let mut held = Vec::new();
        for name in names {
            // What is held so far is let go of with `held` where this fails.
            held.push(hold(base, name)?);
        }
        Ok(Self { _held: held })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // While the lock is still held, so that nobody can be holding the file that goes. A folder with something
        // left in it stays for the next start.
        let _ = fs::remove_file(self.folder.join("lock"));
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Where locks live: `/run/ringroad` for root, else below the user's own runtime folder.
fn base() -> Result<PathBuf> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/run/ringroad"));
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute());
    let folder =
        folder.ok_or_else(|| anyhow!("no place for the run's lock: run as root, or set XDG_RUNTIME_DIR"))?;
    Ok(Path::new(&folder).join("ringroad"))
}

fn hold(base: &Path, name: &str) -> Result<Held> {
    let folder = base.join(name);
    let path = folder.join("lock");
    for _ in 0..TRIES {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.with_context(|| format!("cannot open {}", path.display()))?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                bail!("a router named '{name}' is already running{}", holder(&mut file))
            }
            Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
        if is_at(&file, &path)? {
            write_pid(&mut file).with_context(|| format!("cannot write {}", path.display()))?;
            return Ok(Held { folder, _file: file });
        }
    }
    bail!("{} changes all the time: something else uses it", path.display())
}

/// Whether the file is still the one with this path; a run that just ended has removed the one we opened.
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

/// Who holds the lock, if it has said so already.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) if read.is_ok() => format!(" (pid {pid})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
