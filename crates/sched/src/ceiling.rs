//! Limits on the memory and the tasks of a run's processes.
//!
//! cgroup v1 has a hierarchy for each of the two resources: a group is made in it, and [`CgroupLimits::enter`]
//! moves processes there. In v2 a group with a memory limit cannot be made beside processes, and this process
//! is there: the limits are those that someone else (a service manager) has given the group of this process,
//! and only their counters are read.

mod claimed;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::cgroup::{self, Hierarchy, Version};
use crate::error::ApplyError;
use crate::exclusive_cpus::OURS;
use crate::undo::Undo;
use claimed::{OrphanedGroup, claim, make_claimed, sweep};

/// v1: limit of a group's memory, and of memory and swap together, if the kernel accounts swap.
const MEMORY: &str = "memory.limit_in_bytes";
const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";

/// v1: high watermarks of both.
const MOST_USED: [&str; 2] = ["memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes"];
/// A high watermark within this many octets of a ceiling counts as reached: something larger did not fit.
const NEARLY: u64 = 1 << 20;

/// Time limit for killed processes in a group that was replaced by another one. On a busy host 12 s were seen. Nobody
/// waits for them: they are looked for now and then.
const LEAVING: Duration = Duration::from_secs(60);

/// Resource that a ceiling limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Memory that the kernel charges to processes, in octets: everything but huge pages.
    Memory,
    /// Processes and threads; each thread counts.
    Tasks,
}

impl Resource {
    /// All resources.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Tasks];

    /// Name in messages.
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

    /// Control file with the ceiling of a group.
    const fn file(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Memory, Version::V1) => MEMORY,
            (Self::Memory, Version::V2) => "memory.max",
            (Self::Tasks, _) => "pids.max",
        }
    }
}

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Octets of memory.
    pub memory: u64,
    /// Number of processes and threads.
    pub tasks: u64,
}

impl Ceiling {
    /// Limit of one resource.
    pub const fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Memory => self.memory,
            Resource::Tasks => self.tasks,
        }
    }
}

/// A ceiling that was reached since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Resource.
    pub resource: Resource,
    /// Number of processes that the kernel killed for want of memory, or of threads and processes that it
    /// refused.
    pub times: u64,
    /// The ceiling, if it was that of the run; `None`: the host or an enclosing group was out of memory.
    pub ceiling: Option<u64>,
}

/// Control groups that limit a run; those made for it are removed when this is dropped.
#[derive(Debug, Default)]
pub struct CgroupLimits {
    held: Vec<CgroupLimit>,
    /// Replaced groups, and since when.
    leaving: Vec<(OwnedGroup, Instant)>,
    /// Groups of earlier runs of this name.
    deserted: Vec<OrphanedGroup>,
}

/// Control group for one resource.
#[derive(Debug)]
struct CgroupLimit {
    resource: Resource,
    version: Version,
    group: PathBuf,
    /// `None`: someone else made the group.
    own: Option<OwnedGroup>,
    seen: Counted,
}

/// A group made for this run.
#[derive(Debug)]
struct OwnedGroup {
    undo: Undo,
    /// Held as long as this process lives, so that no later run of the same name removes the group. `None`:
    /// another process holds it.
    _claim: Option<OwnedFd>,
    /// Control file to which process numbers are written.
    procs: File,
    /// First candidate for its name; further ones have a number appended.
    name: PathBuf,
    home: PathBuf,
}

/// Event counts of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Processes killed, or tasks refused.
    times: u64,
    /// Times that its own ceiling was the reason, where that is counted.
    own: u64,
}

/// Location of the ceiling on this host, or where one can be made.
///
/// # Errors
/// In words, why there is none.
pub fn place(resource: Resource) -> Result<PathBuf, String> {
    let found = found(resource)?;
    if found.version == Version::V2 && given(resource, &found.home).is_none() {
        let what = resource.file(found.version);
        return Err(format!("{} of {} sets none (docs/limits.md)", what, found.home.display()));
    }
    Ok(found.base)
}

/// Hierarchy in which groups can be made, or, for v2, the own group.
fn found(resource: Resource) -> Result<Hierarchy, String> {
    let found = Hierarchy::find(resource.controller())?;
    let is_shared = |cpu: &Hierarchy| found.version == Version::V1 && cpu.base == found.base;
    if Hierarchy::find("cpu").is_ok_and(|cpu| is_shared(&cpu)) {
        // Placing single threads would move them out of the group.
        return Err(format!(
            "{} is one hierarchy for cpu and {}",
            found.base.display(),
            resource.controller()
        ));
    }
    Ok(found)
}

/// Ceiling that someone has set for a group of v2.
fn given(resource: Resource, group: &Path) -> Option<u64> {
    number(&group.join(resource.file(Version::V2)))
}

impl CgroupLimits {
    /// Makes groups for a run of this name, each with its ceiling, where the host allows that; returns an
    /// error for each that should have been possible and failed. The journal receives an entry for each group
    /// before it is made.
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
            match CgroupLimit::make(resource, found, &name, ceiling.of(resource), &mut journal) {
                Ok(bound) => bounds.held.extend(bound),
                Err(error) => errors.push(error),
            }
        }
        (bounds, errors)
    }

    /// Returns true if the ceiling of this resource is one that we set.
    pub fn sets(&self, resource: Resource) -> bool {
        self.held.iter().any(|bound| bound.resource == resource && bound.own.is_some())
    }

    /// Moves a process with all its threads below the ceilings; its later children are there as well. A
    /// process that has ended is ignored.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self, process: u32) -> Result<(), ApplyError> {
        self.held.iter().try_for_each(|bound| bound.enter(process))
    }

    /// Changes the ceilings. Usage above a new ceiling stays, but cannot grow.
    ///
    /// # Errors
    /// The kernel refuses, as it does for memory while usage is higher.
    pub fn set(&self, ceiling: &Ceiling) -> Result<(), ApplyError> {
        let own = self.held.iter().filter(|bound| bound.own.is_some());
        let outcomes = own.map(|bound| bound.set(ceiling.of(bound.resource)));
        // A failure of one does not keep the others from being set.
        outcomes.fold(Ok(()), Result::and)
    }

    /// Moves the living processes into a new group with the same memory ceiling. What stays charged to the
    /// old one is memory that others hold and that our processes touched first; it must not burden their
    /// successors. [`CgroupLimits::clear`] removes the old group.
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

    /// Removes replaced groups, and those of earlier runs. Groups that still hold killed processes are
    /// removed later. If that takes too long they are left behind, which is reported for groups of this run.
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

    /// Ceilings reached since the last call.
    pub fn reached(&mut self) -> Vec<Reached> {
        self.held.iter_mut().filter_map(CgroupLimit::reached).collect()
    }

    /// Removes all groups that were made. Returns what could not be removed. Processes still in them go on
    /// without a ceiling.
    pub fn remove(&mut self) -> Vec<ApplyError> {
        self.deserted.drain(..).for_each(OrphanedGroup::remove);
        let given_up = self.leaving.drain(..).map(|(old, _)| old);
        // Claims are held until the groups are removed.
        let own: Vec<OwnedGroup> =
            self.held.drain(..).filter_map(|bound| bound.own).chain(given_up).collect();
        let left = Undo::all(own.iter().map(|own| &own.undo));
        left.into_iter().map(|(undo, error)| undo.left_behind(error)).collect()
    }
}

impl Drop for CgroupLimits {
    fn drop(&mut self) {
        self.remove();
    }
}

impl CgroupLimit {
    /// Makes a group; in v2, adopts the own group if it has a ceiling.
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
        let own = OwnedGroup::make((base.join(name), home), resource, ceiling, journal)?;
        let group = own.undo.path();
        let seen = counted(resource, version, &group);
        Ok(Some(Self { resource, version, group, own: Some(own), seen }))
    }

    /// Moves the ceiling to a new group with an unused name. Returns the old one, if it was ours.
    fn renew(&mut self, journal: &mut impl FnMut(&Undo)) -> Result<Option<OwnedGroup>, ApplyError> {
        let Some(old) = &self.own else { return Ok(None) };
        let ceiling = number(&self.group.join(self.resource.file(self.version))).unwrap_or(u64::MAX);
        let own = OwnedGroup::make((old.name.clone(), old.home.clone()), self.resource, ceiling, journal)?;
        self.group = own.undo.path();
        self.seen = counted(self.resource, self.version, &self.group);
        Ok(self.own.replace(own))
    }

    fn enter(&self, process: u32) -> Result<(), ApplyError> {
        let Some(OwnedGroup { procs, .. }) = &self.own else { return Ok(()) };
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

impl OwnedGroup {
    /// Makes a v1 group with its ceiling, under the first unused one of its names, which begin with `name`.
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

/// Opens the control file that process numbers are written to.
fn procs(group: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(group.join("cgroup.procs"))
}

/// Sets the ceiling of a v1 group.
fn write(resource: Resource, group: &Path, ceiling: u64) -> io::Result<()> {
    let file = group.join(resource.file(Version::V1));
    let with_swap = group.join(WITH_SWAP);
    let value = ceiling.to_string();
    if resource == Resource::Tasks || !with_swap.exists() {
        return cgroup::write(&file, &value);
    }
    // The memory limit must never exceed that of memory and swap together, so the order matters.
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

/// Returns true if a v1 group has used all its memory since the last call. (Linux 6.18 does not count refused
/// charges, as earlier kernels do in `memory.failcnt`.)
fn was_full(group: &Path, ceiling: u64) -> bool {
    let most = MOST_USED.map(|file| number(&group.join(file)).unwrap_or(0)).into_iter().max();
    for file in MOST_USED {
        // Reset: from now on the watermark is counted anew.
        let _ = cgroup::write(&group.join(file), "0");
    }
    most.unwrap_or(0).saturating_add(NEARLY) >= ceiling
}

/// Number after a keyword at the beginning of a line; 0 if there is none.
fn field(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Number in a file; `None` if it says `max`.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Suffix that distinguishes this run from others of the same name that see these control groups but lock
/// names in another folder.
fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{:x}", std::process::id(), now.as_nanos())
}

#[cfg(test)]
mod tests;
