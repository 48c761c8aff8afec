//! Carries an outline out on the host, and undoes it. Needs privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::{CpuSet, Policy};
use rustix::io::Errno;
use rustix::thread::{CpuSet as Mask, Pid, sched_setaffinity};

use crate::admission;
use crate::attr::{self, Attributes};
use crate::cgroup::{self, Hierarchy, Version};
use crate::controller;
use crate::error::ApplyError;
use crate::exclusive_cpus;
use crate::host::Host;
use crate::lock::{SharedLock, lock};
use crate::outline::{Group, Outline, Schedule};
use crate::thread::{Class, Thread};
use crate::topology::Topology;
use crate::undo::Undo;

mod affinity;
mod placed;
mod shared;

use affinity::Unmoved;
use placed::Placed;

/// Time slice of an ordinary NAPI thread: the shortest that the kernel accepts. The queue of a veth pair holds 256 frames, which
/// arrive within 0.26 ms at 1 Mpps, while the kernel's default slices last 0.7 ms and more (`base_slice_ns`; 1.4 ms on two CPUs).
const SLICE: Duration = Duration::from_micros(100);

/// Makes groups and CPU sets for threads, and moves threads into them.
pub struct Applier {
    run: String,
    /// Folder to lock while changing what all runs share.
    shared: SharedLock,
    journal: Box<dyn FnMut(&Undo) + Send>,
    host: Host,
    /// CPUs that this process could use before it made any of them exclusive.
    usable: BTreeSet<u32>,
    outline: Outline,
    /// False if another outline was to be made since then, of which a part may be in force.
    is_whole: bool,
    undos: Vec<Undo>,
    /// Objects that are no longer needed but were in use when they were to be removed.
    leaving: Vec<Undo>,
    placed: BTreeMap<(String, Class), Placed>,
    /// Interrupts that could not be moved.
    unmoved: Unmoved,
}

impl Applier {
    /// Creates the applier of a run. All runs of an owner have one `shared` folder, which no other user may
    /// open: it is locked while something changes that they share. The journal receives an entry for
    /// everything that is made, before it is made.
    pub fn new(run: &str, shared: &Path, journal: impl FnMut(&Undo) + Send + 'static) -> Self {
        Self {
            run: run.to_owned(),
            shared: SharedLock::new(shared),
            journal: Box::new(journal),
            host: Host::read(),
            usable: Topology::read().allowed,
            outline: Outline::default(),
            is_whole: true,
            undos: Vec::new(),
            leaving: Vec::new(),
            placed: BTreeMap::new(),
            unmoved: Unmoved::default(),
        }
    }

    /// Makes what an outline needs and does not exist yet. What only the previous outline needed is removed
    /// at the next [`Applier::place`], when no thread is in it any more. Blocks on the lock unless it is held
    /// already ([`Applier::try_lock`]).
    ///
    /// # Errors
    /// The kernel refuses. What was made is removed by [`Applier::undo_all`], or kept for the next outline.
    pub fn make(&mut self, outline: &Outline) -> Result<(), ApplyError> {
        let is_given_back = self.make_room(outline)?;
        if self.islands(outline)? || is_given_back {
            self.hold_places();
        }
        let was_whole = std::mem::replace(&mut self.is_whole, false);
        self.groups(outline, was_whole)?;
        self.move_interrupts(outline, was_whole);
        (self.outline, self.is_whole) = (outline.clone(), true);
        Ok(())
    }

    /// Objects that exist on the host now.
    pub fn undos(&self) -> &[Undo] {
        &self.undos
    }

    /// Turns all threads with a reservation into ordinary ones before they end: on Linux 6.18 the reaper of a
    /// process with such threads was seen to hang in the kernel.
    pub fn let_go(&mut self) {
        let is_reserved = |placed: &&Placed| matches!(placed.schedule.policy, Policy::Deadline(_));
        for placed in self.placed.values().filter(is_reserved) {
            // Fails only if the thread has ended, which is fine.
            let _ = placed.task.act(|tid| attr::set(tid, Policy::Other));
        }
        self.placed.clear();
    }

    /// Removes everything that was made. Threads that are in it become ordinary ones.
    pub fn undo_all(&mut self) -> Vec<ApplyError> {
        self.unlock();
        self.placed.clear();
        self.outline = Outline::default();
        let (undos, leaving) = (std::mem::take(&mut self.undos), std::mem::take(&mut self.leaving));
        let left = Undo::all(leaving.iter().chain(undos.iter().rev()));
        left.into_iter().map(|(undo, error)| undo.left_behind(error)).collect()
    }

    /// Announces an object to the journal, before it is made.
    fn record(&mut self, undo: Undo) {
        self.leaving.retain(|leaving| leaving.path() != undo.path());
        if !self.undos.iter().any(|held| held.path() == undo.path()) {
            (self.journal)(&undo);
            self.undos.push(undo);
        }
    }

    fn cpuset(&self) -> Result<&Hierarchy, ApplyError> {
        let lacks = |reason: &String| ApplyError::host("cpusets", io::Error::other(reason.clone()));
        self.host.cpuset.as_ref().map_err(lacks)
    }

    fn cpu(&self) -> Result<&Hierarchy, ApplyError> {
        let lacks = |reason: &String| ApplyError::host("control groups", io::Error::other(reason.clone()));
        self.host.cpu.as_ref().map_err(lacks)
    }

    /// Gives exclusive CPUs back that others need. Threads on them run as ordinary ones for a moment. In v2,
    /// exclusive CPUs that the outline does not mention are always given back: only then can a thread outside
    /// be confined to them. Returns whether any were given back.
    fn make_room(&mut self, outline: &Outline) -> Result<bool, ApplyError> {
        let is_v2 = self.host.cpuset.as_ref().is_ok_and(|found| found.version == Version::V2);
        let mut is_given_back = false;
        let is_in_the_way = |held: &CpuSet| {
            let stays = outline.islands.iter().any(|island| island.cpus == *held);
            let mut wanted = outline.islands.iter().flat_map(|island| island.cpus.cpus());
            !stays && (is_v2 || wanted.any(|cpu| held.cpus().contains(cpu)))
        };
        for held in self.outline.islands.clone().into_iter().filter(|island| is_in_the_way(&island.cpus)) {
            let path = exclusive_cpus::path(self.cpuset()?, &self.run, &held.cpus);
            let is_there = |placed: &&mut Placed| placed.schedule.island.as_ref() == Some(&held.cpus);
            for placed in self.placed.values_mut().filter(is_there) {
                let _ = placed.task.act(|tid| attr::set(tid, Policy::Other));
                (placed.schedule.policy, placed.schedule.island) = (Policy::Other, None);
            }
            let refused = self.take_away(|undo| undo.path() == path);
            // A group that is still in use has lost its exclusive CPUs, which is enough.
            let is_leaving = self.leaving.iter().any(|undo| undo.path() == path);
            refused.filter(|_| !is_leaving).map_or(Ok(()), Err)?;
            is_given_back = true;
        }
        Ok(is_given_back)
    }

    /// Makes CPUs exclusive. Returns whether any were not so before.
    fn islands(&mut self, outline: &Outline) -> Result<bool, ApplyError> {
        let mut is_made = false;
        for wanted in &outline.islands {
            let hierarchy = self.cpuset()?.clone();
            let path = exclusive_cpus::path(&hierarchy, &self.run, &wanted.cpus);
            if self.undos.iter().any(|undo| undo.path() == path) && path.exists() {
                continue;
            }
            let Hierarchy { version, base, home } = hierarchy.clone();
            self.will_need(&hierarchy, controller::CPUSET);
            let shared = self.shared.folder().to_owned();
            self.record(Undo::Island { version, base, path: path.clone(), home, shared });
            if let Err(error) = exclusive_cpus::make(&hierarchy, &path, &wanted.cpus, self.shared.to_lock()) {
                // A left-over of the attempt must not pass for exclusive CPUs the next time.
                let _ = self.take_away(|undo| undo.path() == path);
                let what = format!("CPU {} cannot be made exclusive by {}", wanted.cpus, path.display());
                return Err(ApplyError::host(what, error));
            }
            is_made = true;
        }
        Ok(is_made)
    }

    /// Makes and weighs groups; `was_whole`: those of the previous outline are as it says.
    fn groups(&mut self, outline: &Outline, was_whole: bool) -> Result<(), ApplyError> {
        for wanted in &outline.groups {
            let hierarchy = self.cpu()?.clone();
            let path = self.group_path(&hierarchy, &wanted.name);
            let is_made = self.undos.iter().any(|undo| undo.path() == path) && path.exists();
            if was_whole && is_made && self.outline.groups.contains(wanted) {
                continue;
            }
            let Hierarchy { version, home, .. } = hierarchy.clone();
            self.will_need(&hierarchy, controller::CPU);
            self.record(Undo::Group { version, path: path.clone(), home });
            make_group(&hierarchy, &path, wanted, self.shared.to_lock()).map_err(|error| {
                ApplyError::host(format!("the control group {} cannot be had", path.display()), error)
            })?;
        }
        Ok(())
    }

    /// v2: announces a controller that groups need.
    fn will_need(&mut self, hierarchy: &Hierarchy, controller: &str) {
        if hierarchy.version == Version::V2 {
            let (base, controller) = (hierarchy.base.clone(), controller.to_owned());
            self.record(Undo::Controller { base, controller, shared: self.shared.folder().to_owned() });
        }
    }

    /// Confines a thread to CPUs; `None`: to those that this process may use, or could before it made some of
    /// them exclusive.
    fn confine(&self, tid: i32, cpus: Option<&CpuSet>) -> io::Result<()> {
        if let Some(cpus) = cpus {
            return confine(tid, cpus.cpus());
        }
        let usable: BTreeSet<u32> = self.usable.union(&Topology::read().allowed).copied().collect();
        confine(tid, &Vec::from_iter(usable))
    }

    /// Renews the affinity of threads outside of exclusive CPUs: up to Linux 6.1 these threads lose their own
    /// CPUs whenever a partition comes or goes.
    fn hold_places(&self) {
        let is_outside = |placed: &&Placed| placed.schedule.island.is_none();
        for placed in self.placed.values().filter(is_outside) {
            // A thread that cannot be confined has just ended, or is reported when it is placed.
            let _ = placed.task.act(|tid| self.confine(tid, placed.schedule.cpus.as_ref()));
        }
    }

    fn group_path(&self, hierarchy: &Hierarchy, name: &str) -> PathBuf {
        hierarchy.base.join(format!("{}{}.{name}", exclusive_cpus::OURS, self.run))
    }

    /// Places those of `threads` that are not placed yet or whose place has changed. Threads without an error
    /// have their place; those with a passing error ([`ApplyError::is_passing`]) get it when they are passed
    /// again. Afterwards, objects that only the previous outline needed are removed; if another run holds the
    /// lock for that, or ending threads are still in them, the next call tries again. Interrupts that
    /// [`Applier::make`] could not move are reported once.
    pub fn place(&mut self, threads: &[Thread]) -> Vec<ApplyError> {
        self.placed.retain(|_, placed| placed.task.is_there());
        let mut moves: Vec<(&Thread, Schedule)> = Vec::new();
        for thread in threads {
            let Some(slot) = self.outline.slot(&thread.router, &thread.class) else { continue };
            let held = self.placed.get(&(thread.router.clone(), thread.class.clone()));
            let is_same = |held: &Placed| held.is_of(thread) && held.has(&slot.schedule);
            if !held.is_some_and(is_same) {
                moves.push((thread, slot.schedule.clone()));
            }
        }
        // Threads whose reservation shrinks are placed before those whose reservation grows.
        moves.sort_by(|a, b| self.grows(a).total_cmp(&self.grows(b)));
        let mut errors = Vec::new();
        for (thread, schedule) in moves {
            match self.give_back(thread, &schedule).and_then(|()| self.settle(thread, &schedule)) {
                Ok(()) => {
                    let placed = Placed::with(thread.task, schedule);
                    self.placed.insert((thread.router.clone(), thread.class.clone()), placed);
                }
                Err(error) => {
                    self.note_failed(thread, schedule);
                    errors.push(error);
                }
            }
        }
        if errors.is_empty() {
            errors.extend(self.retire());
        }
        errors.extend(self.unmoved.report());
        errors
    }

    /// Notes that a thread may have a part of this schedule, which it could not be given as a whole.
    fn note_failed(&mut self, thread: &Thread, schedule: Schedule) {
        let key = (thread.router.clone(), thread.class.clone());
        let held = self.placed.entry(key).or_insert_with(|| Placed::untouched(thread.task));
        if held.is_of(thread) {
            held.may_have(schedule);
        }
    }

    /// Increase of a thread's reservation, in CPUs.
    fn grows(&self, (thread, schedule): &(&Thread, Schedule)) -> f64 {
        let held = self.placed.get(&(thread.router.clone(), thread.class.clone()));
        let held = held.filter(|held| held.is_of(thread)).map_or(0.0, |held| reserved(&held.schedule));
        reserved(schedule) - held
    }

    /// Gives back the reservation of a thread before it moves to another scheduling domain; the move follows
    /// once the kernel no longer counts it. The kernel subtracts the bandwidth at the thread's zero-lag time,
    /// from the domain that the thread is in *then* (`task_non_contending` and `inactive_task_timer`, Linux
    /// 6.18). After an earlier move the old domain would count too much for good, and the new one a negative
    /// amount, which is compared as unsigned: both would refuse what fits.
    fn give_back(&mut self, thread: &Thread, to: &Schedule) -> Result<(), ApplyError> {
        let placed = self.placed.get_mut(&(thread.router.clone(), thread.class.clone()));
        let leaves = |placed: &&mut Placed| placed.is_of(thread) && placed.schedule.island != to.island;
        let Some(placed) = placed.filter(leaves) else {
            return Ok(());
        };
        let fails = |what: &str, error| Err(ApplyError::thread(&thread.name, what, error));
        let held = thread.task.act(attr::attributes);
        if let Some(held) = held.ok().filter(Attributes::is_deadline) {
            if let Err(error) = thread.task.act(|tid| attr::set(tid, Policy::Other)) {
                return fails("as an ordinary thread", error);
            }
            placed.leaves = Some(Instant::now() + zero_lag(&held));
        }
        if placed.leaves.is_some_and(|leaves| Instant::now() < leaves) {
            return fails("has time reserved for another moment", Errno::AGAIN.into());
        }
        Ok(())
    }

    /// Moves one thread to its place.
    fn settle(&self, thread: &Thread, to: &Schedule) -> Result<(), ApplyError> {
        let key = (thread.router.clone(), thread.class.clone());
        let from = self.placed.get(&key).filter(|held| held.is_of(thread));
        let fails = |what: String| move |error| ApplyError::thread(&thread.name, what, error);
        let held = thread.task.act(attr::attributes).map_err(fails("has ended".to_owned()))?;
        let is_there =
            |held: &Schedule| (&held.cpus, &held.island, &held.group) == (&to.cpus, &to.island, &to.group);
        let stays = from.is_some_and(|from| from.schedules().all(is_there));
        // A thread with a reservation cannot change CPUs, and a real-time thread cannot enter every group.
        if !stays && !held.is_other() {
            let ordinary = thread.task.act(|tid| attr::set(tid, Policy::Other));
            ordinary.map_err(fails("as an ordinary thread".to_owned()))?;
        }
        if !stays {
            self.enter_island(thread, from, to)?;
            self.enter_group(thread, from, to)?;
            if from.is_some() || to.cpus.is_some() {
                let confined = thread.task.act(|tid| self.confine(tid, to.cpus.as_ref()));
                confined.map_err(fails(format!("{to}")))?;
            }
        }
        let slice = slice(&thread.class);
        if from.is_none() && held.is_other() && is_ordinary(to.policy) && slice.is_none() {
            return Ok(());
        }
        let set = thread.task.act(|tid| attr::set_in_slices(tid, to.policy, slice));
        set.map_err(|error| self.refused(thread, to, error))
    }

    fn enter_island(&self, thread: &Thread, from: Option<&Placed>, to: &Schedule) -> Result<(), ApplyError> {
        let is_there = |from: &Placed| from.schedules().all(|held| held.island == to.island);
        if from.map_or(to.island.is_none(), is_there) {
            return Ok(());
        }
        let hierarchy = self.cpuset()?;
        let group = match &to.island {
            Some(cpus) => exclusive_cpus::path(hierarchy, &self.run, cpus),
            None => hierarchy.home.clone(),
        };
        enter(thread, &group, hierarchy.version)
    }

    fn enter_group(&self, thread: &Thread, from: Option<&Placed>, to: &Schedule) -> Result<(), ApplyError> {
        let is_there = |from: &Placed| from.schedules().all(|held| held.group == to.group);
        if from.map_or(to.group.is_none(), is_there) {
            return Ok(());
        }
        let hierarchy = self.cpu()?;
        let group = match &to.group {
            Some(name) => self.group_path(hierarchy, name),
            // v2 has one hierarchy: a thread on exclusive CPUs has left the other group already.
            None if to.island.is_some() && hierarchy.version == Version::V2 => return Ok(()),
            None => hierarchy.home.clone(),
        };
        enter(thread, &group, hierarchy.version)
    }

    /// Interprets a refusal of the kernel.
    fn refused(&self, thread: &Thread, to: &Schedule, error: io::Error) -> ApplyError {
        let mut what = format!("{to}");
        if let (Policy::Deadline(_), Some(libc::EPERM), Some(_)) =
            (to.policy, error.raw_os_error(), &to.island)
        {
            // The kernel checks the CPU that the thread ran on last, which it may have left since.
            what.push_str(&match elsewhere(thread, to) {
                Some(cpu) => format!("; it sleeps on CPU {cpu}, which it leaves when it wakes"),
                None => format!("; {error}, where it was when it was asked"),
            });
            return ApplyError::thread(&thread.name, what, io::Error::from_raw_os_error(libc::EAGAIN));
        }
        if let (Policy::Deadline(_), Some(libc::EBUSY)) = (to.policy, error.raw_os_error()) {
            let cpus = to.cpus.as_ref().map_or_else(Vec::new, |cpus| cpus.cpus().to_vec());
            let (_, how) = admission::most(&self.host, cpus);
            what.push_str(&format!(
                "; the kernel admits {how}, less what else is reserved there, and what was until a moment ago"
            ));
        }
        ApplyError::thread(&thread.name, what, error)
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.undo_all();
    }
}

/// Longest time until the kernel returns the bandwidth of a reservation: its period, and one more for each
/// time that its runtime fits into what the thread may have overrun. The kernel checks at each of its ticks,
/// and the host of a virtual CPU may delay those.
fn zero_lag(held: &Attributes) -> Duration {
    const TOO_LONG: Duration = Duration::from_millis(50);
    let late = TOO_LONG.as_nanos().div_ceil(u128::from(held.runtime.max(1)));
    Duration::from_nanos(held.period).saturating_mul(u32::try_from(late + 1).unwrap_or(u32::MAX))
}

fn reserved(schedule: &Schedule) -> f64 {
    match schedule.policy {
        Policy::Deadline(held) => held.share(),
        _ => 0.0,
    }
}

/// Time slice of an ordinary thread of this class; `None`: the kernel's default.
fn slice(class: &Class) -> Option<Duration> {
    matches!(class, Class::Napi { .. }).then_some(SLICE)
}

fn is_ordinary(policy: Policy) -> bool {
    matches!(policy, Policy::Other | Policy::Shares(_))
}

/// Moves a thread into a group.
fn enter(thread: &Thread, group: &Path, version: Version) -> Result<(), ApplyError> {
    let entered = thread.task.act(|tid| cgroup::enter(group, version, tid));
    entered.map_err(|error| ApplyError::thread(&thread.name, format!("into {}", group.display()), error))
}

/// Makes a group with a weight and a quota, under the lock on `shared`; `None`: the caller holds the lock.
fn make_group(hierarchy: &Hierarchy, path: &Path, wanted: &Group, shared: Option<&Path>) -> io::Result<()> {
    let Hierarchy { version, base, .. } = hierarchy;
    // Until the group exists, other runs do not see that the controller is needed.
    let _lock = shared.filter(|_| *version == Version::V2).map(lock).transpose()?;
    if *version == Version::V2 {
        controller::switch_on(base, controller::CPU)?;
    }
    cgroup::make(path, *version)?;
    cgroup::weigh(path, *version, &wanted.shares)
}

/// CPU that a thread ran on last, if it may not run there now.
fn elsewhere(thread: &Thread, to: &Schedule) -> Option<u32> {
    let cpu = thread.task.last_cpu()?;
    to.cpus.as_ref().filter(|cpus| !cpus.cpus().contains(&cpu)).map(|_| cpu)
}

/// Confines a thread to CPUs.
fn confine(tid: i32, cpus: &[u32]) -> io::Result<()> {
    let mut mask = Mask::new();
    cpus.iter().for_each(|cpu| mask.set(*cpu as usize));
    let pid = Pid::from_raw(tid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    Ok(sched_setaffinity(Some(pid), &mask)?)
}

#[cfg(test)]
mod tests;
