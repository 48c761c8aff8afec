//! What the processes of a run may have at most of memory and of tasks.
//!
//! Version 1 of control groups has a hierarchy for each of the two: a group is made in it, and who is to be bounded is put there by
//! [`Bounds::enter`]. In version 2 a group with a limit of memory cannot be made beside processes, and this process is beside it:
//! there the ceilings are those that somebody else (a service manager) has given the group that this process is in, and only what
//! comes of them is read.

mod claimed;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::cgroup::{self, Hierarchy, Version};
use crate::error::ApplyError;
use crate::island::OURS;
use crate::undo::Undo;
use claimed::{Deserted, claim, make_claimed, sweep};

/// Memory of a group of version 1, and memory with what of it is swapped out, where the kernel counts that.
const MEMORY: &str = "memory.limit_in_bytes";
const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";

/// The most that was used of either.
const MOST_USED: [&str; 2] = ["memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes"];
/// Octets that may be left of a ceiling when something larger does not fit below it.
const NEARLY: u64 = 1 << 20;

/// How long processes that were killed may be in a group that was given up for another one.
const LEAVING: Duration = Duration::from_secs(10);

/// What a ceiling is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Memory that the kernel charges to processes, in octets: all but huge pages.
    Memory,
    /// Processes and threads, each of them.
    Tasks,
}

impl Resource {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Tasks];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tasks => "tasks",
        }
    }

    const fn controller(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tasks => "pids",
        }
    }

    /// The file with the ceiling of a group.
    const fn file(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Memory, Version::V1) => MEMORY,
            (Self::Memory, Version::V2) => "memory.max",
            (Self::Tasks, _) => "pids.max",
        }
    }
}

/// The most of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Octets of memory.
    pub memory: u64,
    /// Processes and threads.
    pub tasks: u64,
}

impl Ceiling {
    /// The most of one.
    pub const fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Memory => self.memory,
            Resource::Tasks => self.tasks,
        }
    }
}

/// What came of a ceiling since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Of which.
    pub resource: Resource,
    /// Processes that the kernel has ended for want of memory, or threads and processes that it has refused.
    pub times: u64,
    /// The ceiling, if it was this one; none: the host, or a group around this one, had no memory left.
    pub ceiling: Option<u64>,
}

/// The control groups that bound a run; those that were made for it go when this is dropped.
#[derive(Debug, Default)]
pub struct Bounds {
    held: Vec<Bound>,
    /// Groups that were given up for others, and since when.
    leaving: Vec<(Own, Instant)>,
    /// Groups of earlier runs of this name.
    deserted: Vec<Deserted>,
}

/// One of them.
#[derive(Debug)]
struct Bound {
    resource: Resource,
    version: Version,
    group: PathBuf,
    /// None: the group is somebody else's.
    own: Option<Own>,
    seen: Counted,
}

/// A group that was made for this run.
#[derive(Debug)]
struct Own {
    undo: Undo,
    /// Held as long as this process lives, so that no later run of its name takes it away. None: somebody else holds it.
    _claim: Option<OwnedFd>,
    /// Where processes are put into it.
    procs: File,
    /// The first of its names; those after it have a number more.
    name: PathBuf,
    home: PathBuf,
}

/// What a group has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Processes ended, or tasks refused.
    times: u64,
    /// Times that its own ceiling was in the way, where that is counted.
    own: u64,
}

/// Where this host has a ceiling, or lets one be made; else why not, in words.
///
/// # Errors
/// Those words.
pub fn place(resource: Resource) -> Result<PathBuf, String> {
    let found = found(resource)?;
    if found.version == Version::V2 && given(resource, &found.home).is_none() {
        let what = resource.file(found.version);
        return Err(format!("{} of {} sets none (docs/limits.md)", what, found.home.display()));
    }
    Ok(found.base)
}

/// Where groups for it can be made, or, of version 2, the own group.
fn found(resource: Resource) -> Result<Hierarchy, String> {
    let found = Hierarchy::find(resource.controller())?;
    let is_shared = |cpu: &Hierarchy| found.version == Version::V1 && cpu.base == found.base;
    if Hierarchy::find("cpu").is_ok_and(|cpu| is_shared(&cpu)) {
        // Threads that are placed one by one would leave the group.
        return Err(format!(
            "{} is one hierarchy for cpu and {}",
            found.base.display(),
            resource.controller()
        ));
    }
    Ok(found)
}

/// The ceiling that somebody has given a group of version 2.
fn given(resource: Resource, group: &Path) -> Option<u64> {
    number(&group.join(resource.file(Version::V2)))
}

impl Bounds {
    /// Makes groups for a run of this name, each with its ceiling, where the host lets them be made; and a line for each that it
    /// seemed to let be made and did not. The journal hears of each before it is made.
    pub fn make(
        run: &str,
        ceiling: &Ceiling,
        now: Instant,
        mut journal: impl FnMut(&Undo),
    ) -> (Self, Vec<ApplyError>) {
        let prefix = format!("{OURS}{run}.");
        let name = format!("{prefix}{}", unique());
        let (mut bounds, mut errors) = (Self::default(), Vec::new());
        for resource in Resource::ALL {
            let Ok(found) = found(resource) else { continue };
            if found.version == Version::V1 {
                bounds.deserted.extend(sweep(&found.base, &prefix, now));
            }
            match Bound::make(resource, found, &name, ceiling.of(resource), &mut journal) {
                Ok(bound) => bounds.held.extend(bound),
                Err(error) => errors.push(error),
            }
        }
        (bounds, errors)
    }

    /// Whether the ceiling of this is one that we set.
    pub fn sets(&self, resource: Resource) -> bool {
        self.held.iter().any(|bound| bound.resource == resource && bound.own.is_some())
    }

    /// Puts a process with all its threads below the ceilings; whatever it starts from then on is there too. One that has ended
    /// needs none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self, process: u32) -> Result<(), ApplyError> {
        self.held.iter().try_for_each(|bound| bound.enter(process))
    }

    /// Sets other ceilings. What is held already above one stays; nothing is added to it.
    ///
    /// # Errors
    /// The kernel refuses, as it does for memory as long as more is held.
    pub fn set(&self, ceiling: &Ceiling) -> Result<(), ApplyError> {
        let own = self.held.iter().filter(|bound| bound.own.is_some());
        let outcomes = own.map(|bound| bound.set(ceiling.of(bound.resource)));
        // None keeps the others from being set.
        outcomes.fold(Ok(()), Result::and)
    }

    /// Puts the processes that live into a new group with the same ceiling of memory. What stays charged to the old one is held by
    /// others, for whom ours were the first to touch it, and is not to be in the way of who comes next. The old one goes with
    /// [`Bounds::clear`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn renew(
        &mut self,
        alive: &[u32],
        now: Instant,
        mut journal: impl FnMut(&Undo),
    ) -> Result<(), ApplyError> {
        for bound in self.held.iter_mut().filter(|bound| bound.resource == Resource::Memory) {
            let old = bound.renew(&mut journal)?;
            self.leaving.extend(old.map(|old| (old, now)));
            alive.iter().try_for_each(|process| bound.enter(*process))?;
        }
        Ok(())
    }

    /// Takes away groups that were given up for others, and those of earlier runs. Those that processes are in which were killed go
    /// later; those that do not go for too long are left behind, and of this run named.
    pub fn clear(&mut self, now: Instant) -> Vec<ApplyError> {
        self.deserted.retain(|deserted| !deserted.goes(now));
        let mut errors = Vec::new();
        self.leaving.retain(|(old, since)| {
            let Err(error) = old.undo.carried_out(false) else { return false };
            let waits = cgroup::is_in_use(&error) && now.saturating_duration_since(*since) < LEAVING;
            if !waits {
                errors.push(old.undo.left_behind(error));
            }
            waits
        });
        errors
    }

    /// What came of them since this was asked the last time.
    pub fn reached(&mut self) -> Vec<Reached> {
        self.held.iter_mut().filter_map(Bound::reached).collect()
    }

    /// Takes away what was made; what could not be. Processes that are still in it go on without a ceiling.
    pub fn remove(&mut self) -> Vec<ApplyError> {
        self.deserted.drain(..).for_each(Deserted::remove);
        let given_up = self.leaving.drain(..).map(|(old, _)| old);
        // They are claimed until they are gone.
        let own: Vec<Own> = self.held.drain(..).filter_map(|bound| bound.own).chain(given_up).collect();
        let left = Undo::all(own.iter().map(|own| &own.undo));
        left.into_iter().map(|(undo, error)| undo.left_behind(error)).collect()
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Bound {
    /// Makes a group; of version 2 takes the own one, if somebody has given that a ceiling.
    fn make(
        resource: Resource,
        found: Hierarchy,
        name: &str,
        ceiling: u64,
        journal: &mut impl FnMut(&Undo),
    ) -> Result<Option<Self>, ApplyError> {
        let Hierarchy { version, base, home } = found;
        if version == Version::V2 {
            let seen = counted(resource, version, &home);
            let given =
                given(resource, &home).map(|_| Self { resource, version, group: home, own: None, seen });
            return Ok(given);
        }
        let own = Own::make((base.join(name), home), resource, ceiling, journal)?;
        let group = own.undo.path();
        let seen = counted(resource, version, &group);
        Ok(Some(Self { resource, version, group, own: Some(own), seen }))
    }

    /// Moves the ceiling to a new group, under a name that nobody has; the old one, if it was ours.
    fn renew(&mut self, journal: &mut impl FnMut(&Undo)) -> Result<Option<Own>, ApplyError> {
        let Some(old) = &self.own else { return Ok(None) };
        let ceiling = number(&self.group.join(self.resource.file(self.version))).unwrap_or(u64::MAX);
        let own = Own::make((old.name.clone(), old.home.clone()), self.resource, ceiling, journal)?;
        self.group = own.undo.path();
        self.seen = counted(self.resource, self.version, &self.group);
        Ok(self.own.replace(own))
    }

    fn enter(&self, process: u32) -> Result<(), ApplyError> {
        let Some(Own { procs, .. }) = &self.own else { return Ok(()) };
        match (&*procs).write_all(process.to_string().as_bytes()) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                let what = format!("process {process} cannot be put into {}", self.group.display());
                Err(ApplyError::host(what, error))
            }
            _ => Ok(()),
        }
    }

    fn set(&self, ceiling: u64) -> Result<(), ApplyError> {
        let what = || format!("the ceiling of {} is as it was", self.resource.name());
        write(self.resource, &self.group, ceiling).map_err(|error| ApplyError::host(what(), error))
    }

    fn reached(&mut self) -> Option<Reached> {
        let now = counted(self.resource, self.version, &self.group);
        let times = now.times.checked_sub(self.seen.times).filter(|times| *times > 0)?;
        let ceiling = number(&self.group.join(self.resource.file(self.version)));
        let is_own = match (self.resource, self.version) {
            (Resource::Memory, Version::V1) => was_full(&self.group, ceiling.unwrap_or(u64::MAX)),
            _ => now.own > self.seen.own,
        };
        self.seen = now;
        Some(Reached { resource: self.resource, times, ceiling: ceiling.filter(|_| is_own) })
    }
}

impl Own {
    /// Makes a group of version 1 with its ceiling, under the first free one of its names, which begin with this one.
    fn make(
        (name, home): (PathBuf, PathBuf),
        resource: Resource,
        ceiling: u64,
        journal: &mut impl FnMut(&Undo),
    ) -> Result<Self, ApplyError> {
        let undo =
            |path: &Path| Undo::Group { version: Version::V1, path: path.to_owned(), home: home.clone() };
        let mut make = || {
            let (group, claim) = make_claimed(&name, |group| journal(&undo(group)), claim)?;
            let undo = undo(&group);
            let made = write(resource, &group, ceiling).and_then(|()| procs(&group));
            let procs = made.inspect_err(|_| drop(undo.carried_out(false)))?;
            Ok((undo, claim, procs))
        };
        let what = || format!("the control group {} cannot be had", name.display());
        let (undo, claim, procs) = make().map_err(|error| ApplyError::host(what(), error))?;
        Ok(Self { undo, _claim: claim, procs, name, home })
    }
}

/// Where the numbers of processes are written that are to be in a group.
fn procs(group: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(group.join("cgroup.procs"))
}

/// Gives a group of version 1 its ceiling.
fn write(resource: Resource, group: &Path, ceiling: u64) -> io::Result<()> {
    let file = group.join(resource.file(Version::V1));
    let with_swap = group.join(WITH_SWAP);
    let value = ceiling.to_string();
    if resource == Resource::Tasks || !with_swap.exists() {
        return cgroup::write(&file, &value);
    }
    // Memory may at no moment have more than memory and swap together.
    let grows = number(&with_swap).is_some_and(|held| held < ceiling);
    let order = if grows { [&with_swap, &file] } else { [&file, &with_swap] };
    order.into_iter().try_for_each(|file| cgroup::write(file, &value))
}

fn counted(resource: Resource, version: Version, group: &Path) -> Counted {
    match (resource, version) {
        (Resource::Memory, Version::V1) => {
            Counted { times: field(&group.join("memory.oom_control"), "oom_kill"), own: 0 }
        }
        (Resource::Memory, Version::V2) => {
            let events = group.join("memory.events");
            Counted { times: field(&events, "oom_kill"), own: field(&events, "oom") }
        }
        (Resource::Tasks, _) => {
            let times = field(&group.join("pids.events"), "max");
            Counted { times, own: times }
        }
    }
}

/// Whether a group of version 1 has had all the memory that it may have since this was asked the last time. (Linux 6.18 does not count
/// how often it was refused more, as those before it do in `memory.failcnt`.)
fn was_full(group: &Path, ceiling: u64) -> bool {
    let most = MOST_USED.map(|file| number(&group.join(file)).unwrap_or(0)).into_iter().max();
    for file in MOST_USED {
        // From now on it is the most since now.
        let _ = cgroup::write(&group.join(file), "0");
    }
    most.unwrap_or(0).saturating_add(NEARLY) >= ceiling
}

/// The number after a word at the beginning of a line; 0 where there is none.
fn field(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// The number that a file holds; none where it says `max`.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What no other run of the same name has that sees these control groups, and has another folder for its locks.
fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{:x}", std::process::id(), now.as_nanos())
}

#[cfg(test)]
mod tests;
