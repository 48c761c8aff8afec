//! Observed packet costs, stored in a file between runs: `costs.json` in a state directory.
//!
//! Runs share the file. To write it, a run reads the present file and replaces it by a new one, provided the
//! file is still the same; otherwise it starts over. There is no lock, since anyone who may open the
//! directory could hold it; of two runs that write within some microseconds, one may lose what it has
//! observed in its last minute. Trouble with the file is reported in a line, and the file is then ignored: no
//! run blocks on it or ends because of it.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, open, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::guarantee::{Cost, CostKey, CostMemory, Day, Idleness, Machine, Model, Observation};

/// Name of the file.
const NAME: &str = "costs.json";
/// Time between two writes.
const PAUSE: Duration = Duration::from_secs(60);
/// Attempts at writing the file while other runs are writing it.
const TURNS: u32 = 5;

/// Known packet costs.
#[derive(Clone, Debug)]
pub struct Costs {
    /// State directory; `None`: costs are not stored.
    folder: Option<PathBuf>,
    memory: CostMemory,
    /// State when the file was last read or written.
    kept: CostMemory,
    due: Instant,
    /// Line to report.
    trouble: Option<String>,
    /// True if writing failed and that was reported.
    failed: bool,
}

impl Costs {
    /// Reads the file in this directory, if there is one, and keeps what holds for this machine.
    pub fn load(folder: PathBuf, machine: Machine, now: Instant) -> Self {
        match read_in(&folder, &machine) {
            Ok(known) => {
                Self::new(Some(folder), known.unwrap_or_else(|| CostMemory::new(machine)), None, now)
            }
            Err(error) => {
                let trouble = format!("what packets cost is learned anew: {error:#}");
                Self::new(Some(folder), CostMemory::new(machine), Some(trouble), now)
            }
        }
    }

    /// Creates costs that are not stored; `trouble` says why, if that is to be reported.
    pub fn nowhere(trouble: Option<String>, machine: Machine, now: Instant) -> Self {
        Self::new(None, CostMemory::new(machine), trouble, now)
    }

    fn new(folder: Option<PathBuf>, memory: CostMemory, trouble: Option<String>, now: Instant) -> Self {
        let (kept, due) = (memory.clone(), now + PAUSE);
        Self { folder, memory, kept, due, trouble, failed: false }
    }

    /// Takes the trouble with the file, to report it once.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Trouble with the file that was not reported yet.
    pub fn pending_trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Cost of a packet of so many octets on a way, if it is known.
    pub fn cost(&self, way: &CostKey, octets: f64) -> Option<Cost> {
        self.memory.cost(way, octets)
    }

    /// Model that starts from what is known of a way, if the cost of packets of so many octets is known.
    pub fn model(&self, way: &CostKey, octets: f64) -> Option<Model> {
        self.memory.model(way, octets)
    }

    /// Records an observation of a thread.
    pub fn note(&mut self, way: &CostKey, window: &Observation, rest: Idleness, day: Day) {
        self.memory.note(way, window, rest, day);
    }

    /// Writes the file, if there is news and a write is due.
    pub fn keep_if_due(&mut self, now: Instant) {
        if now >= self.due {
            self.due = now + PAUSE;
            self.keep_now();
        }
    }

    /// Writes the file now, if there is news. Never blocks on other runs.
    pub fn keep_now(&mut self) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.memory != self.kept) else { return };
        match write_in(folder, &self.memory, &self.kept) {
            Ok(Some(written)) => (self.memory, self.kept, self.failed) = (written.clone(), written, false),
            // Other runs keep writing: try again the next time.
            Ok(None) => {}
            Err(error) if !self.failed => {
                self.trouble = Some(format!("what packets cost is not remembered: {error:#}"));
                self.failed = true;
            }
            Err(_) => {}
        }
    }
}

fn read_in(folder: &Path, machine: &Machine) -> Result<Option<CostMemory>> {
    let place = || folder.join(NAME).display().to_string();
    match opened(folder).with_context(place)? {
        Some(folder) => read(&folder, machine).with_context(place),
        None => Ok(None),
    }
}

/// Opens the directory, if it exists.
fn opened(folder: &Path) -> Result<Option<OwnedFd>> {
    match open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        opened => Ok(Some(opened.context("cannot open the folder")?)),
    }
}

/// Reads the file in a directory, if there is one. Only a regular file that no other user can have written is
/// accepted.
fn read(folder: &OwnedFd, machine: &Machine) -> Result<Option<CostMemory>> {
    // O_NONBLOCK: opening a FIFO or device must not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(folder, NAME, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => bail!("it is a symbolic link"),
        opened => File::from(opened.context("cannot open it")?),
    };
    let facts = file.metadata().context("cannot look at it")?;
    let is_ours = facts.uid() == geteuid().as_raw() || facts.uid() == 0;
    ensure!(facts.is_file(), "it is no plain file");
    ensure!(is_ours && facts.mode() & 0o022 == 0, "others can write it");
    let mut octets = Vec::new();
    file.take(CostMemory::LONGEST + 1).read_to_end(&mut octets).context("cannot read it")?;
    ensure!(octets.len() as u64 <= CostMemory::LONGEST, "it has more than {} octets", CostMemory::LONGEST);
    let text = String::from_utf8(octets).map_err(|_| anyhow!("it is broken: no text"))?;
    Ok(Some(CostMemory::read(&text, machine)?))
}

/// Replaces the file by one that includes what other runs have written. Returns the new content, or `None` if
/// others wrote during each attempt.
fn write_in(folder: &Path, memory: &CostMemory, kept: &CostMemory) -> Result<Option<CostMemory>> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let place = || folder.join(NAME).display().to_string();
    let folder =
        opened(folder).and_then(|folder| folder.context("its folder is gone")).with_context(place)?;
    for _ in 0..TURNS {
        let there = mark(&folder);
        // An unusable file is replaced.
        let written = read(&folder, memory.machine()).ok().flatten();
        let all = written.map_or_else(|| memory.clone(), |written| memory.merged(kept, &written));
        let text = all.json();
        if replace(&folder, &text, || mark(&folder) == there).with_context(place)? {
            // Numbers are rounded in the file, so the rounded ones are kept.
            return Ok(Some(CostMemory::read(&text, memory.machine())?));
        }
    }
    Ok(None)
}

/// Identity of the file's version: inode and change time.
fn mark(folder: &OwnedFd) -> Option<(u64, i64, u64)> {
    let facts = statat(folder, NAME, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((facts.st_ino, facts.st_ctime, facts.st_ctime_nsec))
}

/// Replaces the file atomically. Once the new one is ready, `is_wanted` decides whether it replaces the old
/// one; the decision is returned.
fn replace(folder: &OwnedFd, text: &str, is_wanted: impl Fn() -> bool) -> io::Result<bool> {
    let draft = format!(".{NAME}.{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let remove = || {
        let _ = unlinkat(folder, &draft, AtFlags::empty());
    };
    // Left-over of a run that was killed during a write.
    remove();
    let finish = || -> io::Result<bool> {
        let mut file = File::from(openat(folder, &draft, flags, mode)?);
        file.write_all(text.as_bytes())?;
        // Independent of the umask: others may read it.
        fchmod(&file, mode)?;
        if !is_wanted() {
            remove();
            return Ok(false);
        }
        renameat(folder, &draft, folder, NAME)?;
        Ok(true)
    };
    finish().inspect_err(|_| remove())
}

#[cfg(test)]
mod tests;
