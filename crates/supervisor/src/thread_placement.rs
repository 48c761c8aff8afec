//! Placement and scheduling of threads: carries out what `sched` has planned.
//!
//! A data plane reports its threads whenever they change. Each thread that the plan knows is placed: new ones
//! when they are reported, the others when the plan changes. This also places the threads of a restarted data
//! plane. Whatever is made for it on the host (groups, exclusive sets of CPUs) is announced to the cleaner
//! before it is made.

mod explicit;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use api::CpuSharing;
use config::Plan;
use link::ToPlane;
use sched::account::{CoreTicks, cores};
use sched::promises::{Promises, Reading};
use sched::{Applier, ApplyError, CpuNeighbours, Load, Outline, SchedFacts, Slot, Thread, ThreadIdentity};
use telemetry::Kind;

use super::children::Children;
use super::parking::asleep;
use super::pending_placement::PendingPlacement;
use super::plane::Plane;
use super::rate::WorkBudget;
use super::request_router::Requester;
use super::{Supervisor, costs};
use crate::run_lock::RunLock;
use explicit::explicit;

/// Most placements within a second that the reports of data planes cause.
const MOST: u32 = 20;
/// Pause before a failed placement is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// Measuring time of each CPU's load by other programs, where threads are placed by it.
const WATCH: Duration = Duration::from_millis(200);
/// Obstacles that last longer than this are reported.
const PATIENCE: Duration = Duration::from_secs(2);

/// Planned scheduling of a file's threads.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    /// Place and policy of each thread.
    pub outline: Outline,
    /// Promised rates.
    pub promises: Option<Promises>,
    /// Load of the host by other programs, measured before the run had threads.
    pub(super) load: Load,
}

/// Carries out an outline on the host, and undoes it.
pub(super) trait OutlineApplier {
    /// Makes the groups and sets of CPUs that threads are moved into.
    ///
    /// # Errors
    /// The host refuses.
    fn make(&mut self, outline: &Outline) -> Result<(), ApplyError>;
    /// Takes the lock that this needs, without waiting. Returns false if another run holds it.
    ///
    /// # Errors
    /// Other users may open the folder that is locked.
    fn try_lock(&mut self, outline: &Outline) -> Result<bool, ApplyError>;
    /// Releases the lock.
    fn unlock(&mut self);
    /// Error to report if another run holds the lock for too long.
    fn locked_out(&self) -> ApplyError;
    /// Places all existing threads. Returns what could not be done.
    fn place(&mut self, threads: &[Thread]) -> Vec<ApplyError>;
    /// Prepares for the end of the threads.
    fn let_go(&mut self);
    /// Removes everything that was made. Returns what could not be removed.
    fn undo_all(&mut self) -> Vec<ApplyError>;
}

impl OutlineApplier for Applier {
    fn make(&mut self, outline: &Outline) -> Result<(), ApplyError> {
        self.make(outline)
    }

    fn try_lock(&mut self, outline: &Outline) -> Result<bool, ApplyError> {
        self.try_lock(outline)
    }

    fn unlock(&mut self) {
        self.unlock();
    }

    fn locked_out(&self) -> ApplyError {
        self.locked_out()
    }

    fn place(&mut self, threads: &[Thread]) -> Vec<ApplyError> {
        self.place(threads)
    }

    fn let_go(&mut self) {
        self.let_go();
    }

    fn undo_all(&mut self) -> Vec<ApplyError> {
        self.undo_all()
    }
}

/// CPU time of this host's cores so far.
fn host_cores() -> BTreeMap<u32, CoreTicks> {
    cores(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Thread that a data plane has reported: its name and its identity.
pub(super) type ReportedThread<'a> = (&'a str, ThreadIdentity);

/// Plan of the threads, and the state of carrying it out.
pub(super) struct ThreadPlacement {
    pub(super) applier: Box<dyn OutlineApplier>,
    /// Placements that wait for another run.
    pub(super) pending: PendingPlacement,
    /// Reads the CPU time of the host's cores so far.
    cores: fn() -> BTreeMap<u32, CoreTicks>,
    outline: Outline,
    pub(super) promises: Option<Promises>,
    /// Load of the host before there were threads. Later plans use the same measurement, so that no thread
    /// moves without need.
    pub(super) load: Load,
    /// Index of a thread's slot in the outline, by name.
    slots: BTreeMap<String, usize>,
    /// False until something is planned: until then no thread is touched.
    used: bool,
    /// Existing threads, by the process that has reported them: that of a router, or the data plane (`None`).
    told: BTreeMap<Option<String>, Vec<api::Thread>>,
    /// Rate of placements caused by such reports.
    budget: WorkBudget,
    /// When to retry what could not be done.
    again: Option<Instant>,
    /// Threads that could not be placed, by name (empty for the host itself): since when, and whether that
    /// was reported.
    troubled: BTreeMap<String, (Instant, bool)>,
}

/// Plans the threads of `plan` on this host. The result is empty if the file says nothing of threads: then
/// the kernel places them all. If some are placed automatically, the load of each CPU by others is measured
/// for 200 ms.
///
/// # Errors
/// What the host cannot provide, by file, line and key.
pub fn planned(plan: &Plan, now: Instant) -> Result<Planned, config::Errors> {
    match explicit(plan) {
        Some(plan) => {
            let load = if sched::is_automatic(&plan) { Load::of_host(WATCH) } else { Load::default() };
            planned_with(&plan, None, (load, &Outline::default()), now)
        }
        None => Ok(Planned::default()),
    }
}

/// Plans with a load measured before, costs perhaps `seen` by earlier promises, and `held`, the outline in
/// force.
fn planned_with(
    plan: &Plan,
    seen: Option<&Promises>,
    (load, held): (Load, &Outline),
    now: Instant,
) -> Result<Planned, config::Errors> {
    let outline = outlined(plan, &load, held)?;
    let promises = Promises::make((plan, &outline), seen, || (costs::load(now), costs::hertz()), now)
        .map_err(|faults| plan.errors(faults))?;
    // Once more, with the weights that the promises give.
    let outline = promises.as_ref().map_or(Ok(outline), |promises| outlined(promises.plan(), &load, held))?;
    Ok(Planned { outline, promises, load })
}

fn outlined(plan: &Plan, load: &Load, held: &Outline) -> Result<Outline, config::Errors> {
    let known = SchedFacts { load: load.clone(), ..SchedFacts::read(plan).holding(held) };
    sched::outline(plan, &known).map_err(|refusals| sched::refused(plan, refusals))
}

impl ThreadPlacement {
    /// Makes the groups and sets of CPUs for the threads of a run.
    ///
    /// # Errors
    /// In one line, what the host refuses.
    pub(super) fn begin(run: &str, planned: Planned, lock: &mut RunLock, now: Instant) -> Result<Self> {
        let applier = Applier::new(run, &lock.runs(), lock.journal()?);
        Self::begin_with(Box::new(applier), host_cores, planned, now)
    }

    /// Like [`Self::begin`], with a given applier and reader of core times.
    pub(super) fn begin_with(
        applier: Box<dyn OutlineApplier>,
        cores: fn() -> BTreeMap<u32, CoreTicks>,
        planned: Planned,
        now: Instant,
    ) -> Result<Self> {
        let mut placement = Self {
            applier,
            pending: PendingPlacement::default(),
            cores,
            outline: Outline::default(),
            promises: planned.promises,
            load: planned.load,
            slots: BTreeMap::new(),
            used: false,
            told: BTreeMap::new(),
            budget: WorkBudget::new(now),
            again: None,
            troubled: BTreeMap::new(),
        };
        placement.follow(planned.outline, now)?;
        Ok(placement)
    }

    /// Error to report if another run holds what all runs share for too long.
    pub(super) fn locked_out(&self) -> anyhow::Error {
        self.applier.locked_out().into()
    }

    /// Switches to another outline: makes what its threads will be moved into.
    ///
    /// # Errors
    /// In one line, what the host refuses; then the old outline stays in force.
    pub(super) fn follow(&mut self, outline: Outline, now: Instant) -> Result<()> {
        if self.used || !outline.is_empty() {
            if let Err(error) = self.applier.make(&outline) {
                // Rollback: makes again what was given up, and threads go back. A failure here is reported
                // when they are placed.
                let _ = self.applier.make(&self.outline);
                self.again = Some(now);
                return Err(error.into());
            }
            self.used = true;
        }
        self.slots = (0..).zip(&outline.slots).map(|(at, slot)| (slot.name.clone(), at)).collect();
        self.outline = outline;
        self.troubled.clear();
        Ok(())
    }

    /// Plans the threads of another plan, given the state of the run.
    ///
    /// # Errors
    /// Those of [`planned`].
    pub(super) fn planned(&self, plan: &Plan, now: Instant) -> Result<Planned, config::Errors> {
        match explicit(plan) {
            Some(plan) => {
                planned_with(&plan, self.promises.as_ref(), (self.load.clone(), &self.outline), now)
            }
            None => Ok(Planned::default()),
        }
    }

    /// Updates the promises by what was counted. Returns whether they ask for other weights, and news by
    /// router; `None` if no rate is promised.
    pub(super) fn look_at_promises(
        &mut self,
        counters: &api::Counters,
        now: Instant,
    ) -> Option<(bool, Vec<(String, String)>)> {
        let promises = self.promises.as_mut()?;
        let found = promises.look(&Reading {
            counters: &counters.counters,
            cpu_ns: &counters.cpu_ns,
            cores: (self.cores)(),
            at: now,
            day: costs::today(),
        });
        promises.costs.keep_if_due(now);
        Some(found)
    }

    /// Plans with the weights that promises ask for.
    ///
    /// # Errors
    /// Those of [`planned`].
    pub(super) fn weighed(&self) -> Result<Outline> {
        let promises =
            self.promises.as_ref().map(|promises| outlined(promises.plan(), &self.load, &self.outline));
        Ok(promises.unwrap_or_else(|| Ok(self.outline.clone()))?)
    }

    /// CPUs that only the run uses.
    pub(super) fn exclusive(&self) -> impl Iterator<Item = u32> {
        self.outline.islands.iter().flat_map(|island| island.cpus.cpus()).copied()
    }

    /// Forgets the threads of a dead data plane.
    pub(super) fn forget(&mut self, whom: Option<&str>) {
        self.told.remove(&whom.map(str::to_owned));
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let promises = self.promises.as_ref().map(|promises| promises.due);
        [self.again, self.pending.due(), promises].into_iter().flatten().min()
    }

    /// Threads that share their CPUs with others of the run: those of this router, or all.
    pub(super) fn sharing(&self, router: Option<&str>) -> BTreeMap<String, CpuSharing> {
        let sharing = |slot: &Slot| match slot.neighbours {
            CpuNeighbours::Nobody => None,
            CpuNeighbours::Others => Some((slot.name.clone(), CpuSharing::Contended)),
            CpuNeighbours::Guest => Some((slot.name.clone(), CpuSharing::WithOwnVcpu)),
        };
        let meant = |slot: &&Slot| router.is_none_or(|only| slot.router == only);
        self.outline.slots.iter().filter(meant).filter_map(sharing).collect()
    }

    /// Returns the thread with its slot's data; `None` if the plan does not mention it.
    fn thread(&self, name: &str, task: ThreadIdentity) -> Option<Thread> {
        let slot = |name: &str| self.outline.slots.get(*self.slots.get(name)?);
        let (slot, class) = match slot(name) {
            Some(known) => (known, known.class.clone()),
            None => {
                let (first, queue) = sched::first_queue(name)?;
                let known = slot(&first)?;
                (known, known.class.of_queue(queue)?)
            }
        };
        Some(Thread { router: slot.router.clone(), class, name: name.to_owned(), task })
    }

    /// Threads that `plane` has reported, as far as they are its own or kernel threads that work for it.
    fn threads_of<'a>(
        &'a self,
        whom: &Option<String>,
        plane: &'a Plane,
    ) -> impl Iterator<Item = ReportedThread<'a>> {
        let of = |thread: &'a api::Thread| Some((thread.name.as_str(), plane.thread(thread.tid)?));
        self.told.get(whom).into_iter().flatten().filter_map(of)
    }

    /// vCPU threads of routers that are processes.
    fn vcpus_of(&self, children: &Children) -> Vec<Thread> {
        let of = |(router, pid): (&str, i32)| {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let thread = move |entry: std::fs::DirEntry| {
                let called = std::fs::read_to_string(entry.path().join("comm")).ok()?;
                let (_, vcpu) = called.trim_end().rsplit_once('/')?;
                let tid = entry.file_name().to_str()?.parse().ok()?;
                self.thread(&format!("{router}/{vcpu}"), ThreadIdentity::look(pid, tid)?)
            };
            tasks.filter_map(thread).collect::<Vec<_>>()
        };
        children.processes().flat_map(of).collect()
    }

    /// Returns true if a vCPU thread of such a router does not exist yet.
    fn waits_for(&self, children: &Children, threads: &[Thread]) -> bool {
        let is_there = |slot: &Slot| threads.iter().any(|thread| thread.name == slot.name);
        let of = |router: &str| {
            let own = self.outline.slots.iter().filter(move |slot| slot.router == router);
            own.filter(|slot| matches!(slot.class, sched::Class::Vcpu(_))).any(|slot| !is_there(slot))
        };
        children.processes().any(|(router, _)| of(router))
    }

    /// Places `threads`, which must be all that exist. Returns new errors only.
    fn place(&mut self, threads: &[Thread], now: Instant) -> Vec<String> {
        let errors = self.applier.place(threads);
        let name = |error: &ApplyError| error.of_thread().unwrap_or_default().to_owned();
        self.troubled.retain(|troubled, _| errors.iter().any(|error| name(error) == *troubled));
        let mut news = Vec::new();
        for error in errors {
            let (since, told) = self.troubled.entry(name(&error)).or_insert((now, false));
            if error.is_passing() {
                self.again = Some(now + PAUSE);
            }
            let is_news = !error.is_passing() || now.saturating_duration_since(*since) > PATIENCE;
            if is_news && !std::mem::replace(told, true) {
                news.push(error.to_string());
            }
        }
        news
    }
}

impl Supervisor {
    /// Notes that the threads of a data plane have changed.
    pub(super) fn note_threads(&mut self, whom: Option<&str>, mut threads: Vec<api::Thread>, now: Instant) {
        if let Some(name) = whom {
            threads.retain(|thread| thread.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')));
        }
        self.placement.told.insert(whom.map(str::to_owned), threads);
        let due = self.placement.budget.next(MOST);
        if now < due {
            // The threads are placed then, by the data plane's last report.
            self.placement.again = Some(self.placement.again.map_or(due, |again| again.min(due)));
            return;
        }
        let begun = (self.clock)();
        self.place(now);
        self.placement.budget.done(now, (self.clock)().saturating_duration_since(begun));
    }

    /// Retries placements that are due.
    pub(super) fn attend_placing(&mut self, now: Instant) {
        if self.placement.again.is_some_and(|again| now >= again) {
            self.place(now);
        }
        self.attend_following(now);
        let Some(promises) = self.placement.promises.as_mut().filter(|promises| now >= promises.due) else {
            return;
        };
        promises.due = now + PAUSE;
        if self.is_up() && !self.request_router.is_asked_by(&Requester::Promises) {
            self.ask_all(api::Request::Counters { router: None }, Requester::Promises, now);
        }
    }

    /// Stores the observed packet costs for the next run.
    pub(super) fn remember_costs(&mut self) {
        self.placement.promises.iter_mut().for_each(|promises| promises.costs.keep_now());
        self.tell_of_costs();
    }

    /// Reports trouble with the file that stores costs.
    pub(super) fn tell_of_costs(&mut self) {
        let Some(promises) = &mut self.placement.promises else { return };
        if let Some(trouble) = promises.costs.trouble() {
            self.events.record(Kind::Notice, trouble);
            self.display.leave();
        }
    }

    /// Places every thread that is not where it should be.
    pub(super) fn place(&mut self, now: Instant) {
        self.placement.again = None;
        if !self.placement.used {
            return;
        }
        let mut threads = self.placement.vcpus_of(&self.children);
        if self.placement.waits_for(&self.children, &threads) {
            self.placement.again = Some(now + PAUSE);
        }
        let known = |(name, task): ReportedThread<'_>| self.placement.thread(name, task);
        threads.extend(self.threads_told().into_iter().filter_map(known));
        for line in self.placement.place(&threads, now) {
            self.events.record(Kind::Notice, line);
            self.display.leave();
        }
    }

    /// Threads that all data planes have reported and that belong to them.
    pub(super) fn threads_told(&self) -> Vec<ReportedThread<'_>> {
        let isolated = self
            .isolated
            .iter()
            .map(|(name, isolated)| (Some(name.clone()), isolated.lifecycle.plane.as_ref()));
        let planes = std::iter::once((None, self.lifecycle.plane.as_ref())).chain(isolated);
        let mut threads = Vec::new();
        for (whom, plane) in planes {
            threads.extend(plane.into_iter().flat_map(|plane| self.placement.threads_of(&whom, plane)));
        }
        threads.extend(self.napi_threads());
        threads
    }

    /// Tells a data plane, or the process of a router, which of its threads share their CPUs with others.
    pub(super) fn send_cpu_sharing(&mut self, whom: Option<&str>, now: Instant) {
        if self.placement.used || !self.running.plan.groups.is_empty() {
            // A router's process learns nothing of its neighbours.
            let mut threads = self.placement.sharing(whom);
            threads.extend(asleep(&self.running.plan, whom));
            self.say_to(whom, &ToPlane::Share { threads }, Vec::new(), now);
        }
    }

    /// Stops placing threads, because they are about to end.
    pub(super) fn let_go_of_threads(&mut self) {
        self.placement.used = false;
        self.placement.applier.let_go();
    }

    /// Removes what was made on the host. Call it when no thread is left in it.
    pub(super) fn give_back(&mut self) {
        for error in self.placement.applier.undo_all() {
            self.events.record(Kind::Notice, error.to_string());
        }
        for line in self.ceilings.remove() {
            self.events.record(Kind::Notice, line);
        }
    }
}
