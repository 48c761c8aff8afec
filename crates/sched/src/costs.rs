//! What packets were seen to cost, in a file from one run to the next: `costs.json` in a folder for state.
//!
//! Runs share the file. A run that writes it reads what is there, and puts a whole new file in its place, if that is still there; else
//! it begins anew. There is no lock, which others who may open the folder could hold; of two runs that do this within some
//! microseconds one may forget what it has seen in its last minute. What is wrong with the file is told in a line; then it is not
//! used, and no run waits for it or ends by it.

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

use crate::guarantee::{Cost, Day, Machine, Memory, Model, Observation, Rest, Way};

/// Name of the file.
const NAME: &str = "costs.json";
/// Between two times that it is written.
const PAUSE: Duration = Duration::from_secs(60);
/// How often it is begun anew at once, because others have written meanwhile.
const TURNS: u32 = 5;

/// What is known of costs.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Where the file is; none: nowhere.
    folder: Option<PathBuf>,
    memory: Memory,
    /// As it was when the file was read or written last.
    kept: Memory,
    due: Instant,
    /// What is to be told.
    trouble: Option<String>,
    /// It could not be written, and that was told.
    failed: bool,
}

impl Costs {
    /// Reads the file in this folder, if there is one: what is true for this machine.
    pub fn load(folder: PathBuf, machine: Machine, now: Instant) -> Self {
        match read_in(&folder, &machine) {
            Ok(known) => Self::new(Some(folder), known.unwrap_or_else(|| Memory::new(machine)), None, now),
            Err(error) => {
                let trouble = format!("what packets cost is learned anew: {error:#}");
                Self::new(Some(folder), Memory::new(machine), Some(trouble), now)
            }
        }
    }

    /// Nothing is remembered, and nothing will be; for what `trouble`, if that is to be told.
    pub fn nowhere(trouble: Option<String>, machine: Machine, now: Instant) -> Self {
        Self::new(None, Memory::new(machine), trouble, now)
    }

    fn new(folder: Option<PathBuf>, memory: Memory, trouble: Option<String>, now: Instant) -> Self {
        let (kept, due) = (memory.clone(), now + PAUSE);
        Self { folder, memory, kept, due, trouble, failed: false }
    }

    /// What is wrong with the file, once.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// What is wrong with the file, as long as nobody was told.
    pub fn doubt(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What a packet of so many octets costs on a way, if that is known.
    pub fn cost(&self, way: &Way, octets: f64) -> Option<Cost> {
        self.memory.cost(way, octets)
    }

    /// A model that begins with what is known of a way, if the cost of packets of so many octets is.
    pub fn model(&self, way: &Way, octets: f64) -> Option<Model> {
        self.memory.model(way, octets)
    }

    /// Takes into account what was seen of a thread on a day.
    pub fn note(&mut self, way: &Way, window: &Observation, rest: Rest, day: Day) {
        self.memory.note(way, window, rest, day);
    }

    /// Writes the file, if there is something new and it is time to.
    pub fn keep_if_due(&mut self, now: Instant) {
        if now >= self.due {
            self.due = now + PAUSE;
            self.keep_now();
        }
    }

    /// Writes the file now, if there is something new. Waits for nobody.
    pub fn keep_now(&mut self) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.memory != self.kept) else { return };
        match write_in(folder, &self.memory, &self.kept) {
            Ok(Some(written)) => (self.memory, self.kept, self.failed) = (written.clone(), written, false),
            // Others write all the time: the next time then.
            Ok(None) => {}
            Err(error) if !self.failed => {
                self.trouble = Some(format!("what packets cost is not remembered: {error:#}"));
                self.failed = true;
            }
            Err(_) => {}
        }
    }
}

fn read_in(folder: &Path, machine: &Machine) -> Result<Option<Memory>> {
    let place = || folder.join(NAME).display().to_string();
    match opened(folder).with_context(place)? {
        Some(folder) => read(&folder, machine).with_context(place),
        None => Ok(None),
    }
}

/// The folder, if it is there.
fn opened(folder: &Path) -> Result<Option<OwnedFd>> {
    match open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        opened => Ok(Some(opened.context("cannot open the folder")?)),
    }
}

/// Reads the file of a folder, if there is one; only a plain one that nobody else can have written.
fn read(folder: &OwnedFd, machine: &Machine) -> Result<Option<Memory>> {
    // Of anything else than a plain file not even the opening may wait.
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
    file.take(Memory::LONGEST + 1).read_to_end(&mut octets).context("cannot read it")?;
    ensure!(octets.len() as u64 <= Memory::LONGEST, "it has more than {} octets", Memory::LONGEST);
    let text = String::from_utf8(octets).map_err(|_| anyhow!("it is broken: no text"))?;
    Ok(Some(Memory::read(&text, machine)?))
}

/// Puts a new file in the place of the one that is there, with what others have written into that; returns what it
/// says, or none if others were writing whenever it was tried.
fn write_in(folder: &Path, memory: &Memory, kept: &Memory) -> Result<Option<Memory>> {
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
        // What cannot be used is replaced.
        let written = read(&folder, memory.machine()).ok().flatten();
        let all = written.map_or_else(|| memory.clone(), |written| memory.merged(kept, &written));
        let text = all.json();
        if replace(&folder, &text, || mark(&folder) == there).with_context(place)? {
            // Numbers are rounded there.
            return Ok(Some(Memory::read(&text, memory.machine())?));
        }
    }
    Ok(None)
}

/// What tells the file of a folder from one that was there before: number, and when it was changed.
fn mark(folder: &OwnedFd) -> Option<(u64, i64, u64)> {
    let facts = statat(folder, NAME, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((facts.st_ino, facts.st_ctime, facts.st_ctime_nsec))
}

/// There is either the old file or the new one, at any time; the new one if `is_wanted` says so when it is ready, which is
/// returned.
fn replace(folder: &OwnedFd, text: &str, is_wanted: impl Fn() -> bool) -> io::Result<bool> {
    let draft = format!(".{NAME}.{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let remove = || {
        let _ = unlinkat(folder, &draft, AtFlags::empty());
    };
    // What a run has left that was killed in the middle of this.
    remove();
    let finish = || -> io::Result<bool> {
        let mut file = File::from(openat(folder, &draft, flags, mode)?);
        file.write_all(text.as_bytes())?;
        // Whatever this process masks: others may read it.
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
