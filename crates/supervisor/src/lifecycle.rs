//! Life cycle of the data plane: its orders, its messages, its death, and its restart.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use attach::DataPlaneChange;
use config::Plan;
use link::{PlanWithSupplies, Supply, SupplyKind, ToPlane, ToSupervisor};
use sched::promises::Promises;
use serde_json::Value;
use telemetry::Kind;
use vmm::Firmware;

use super::notify::notify;
use super::plane::Plane;
use super::resources::Resources;
use super::router_process::RouterProcess;
use super::{PlaneLifecycle, SECOND, Supervisor};

/// Deaths after which a run that never came up is given up.
pub(super) const MOST_FAILED_STARTS: u32 = 5;

/// Descriptors for a data plane, and what each of them is.
pub(super) type Attached = (Vec<Supply>, Vec<OwnedFd>);

/// Time in each iteration of the event loop for the messages of all data planes.
const TURN: Duration = Duration::from_millis(20);

impl PlaneLifecycle {
    /// Counts a failed start before everything has been up. Returns true if there were too many.
    pub(super) fn has_failed_to_start(&mut self) -> bool {
        self.failed_starts += 1;
        self.failed_starts >= MOST_FAILED_STARTS
    }

    /// Computes the delay before the next start, and sets its date.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        let ran = self.up_since.take().map_or(Duration::ZERO, |up| now.saturating_duration_since(up));
        let pause = self.back_off.failed(ran);
        self.again = Some(now + pause);
        pause
    }
}

impl Supervisor {
    /// Until when to read the messages of one data plane: the rest waits for the next iteration of the loop.
    pub(super) fn turn(&self) -> Instant {
        let planes = u32::try_from(self.isolated.len()).unwrap_or(u32::MAX).saturating_add(1);
        (self.clock)() + TURN / planes
    }

    /// Tells a new data plane what to run.
    pub(super) fn order(&mut self, now: Instant) -> Result<()> {
        let (orders, descriptors) = self.orders_of_what_runs(None)?;
        let Some(plane) = &mut self.lifecycle.plane else { return Ok(()) };
        plane.order(orders, descriptors, now);
        self.send_cpu_sharing(None, now);
        Ok(())
    }

    /// Orders that describe the running plan: for the data plane, or for the process of a router.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(super) fn orders_of_what_runs(&self, whom: Option<&str>) -> Result<(PlanWithSupplies, Vec<OwnedFd>)> {
        let plan = &self.running.plan;
        match whom {
            Some(name) => self.isolated_orders((&Resources::default(), plan), name),
            None => Ok(self.orders(plan.of_data_plane(), self.attached(&Resources::default(), plan)?)),
        }
    }

    /// Descriptors that the data plane needs for a plan, from the resources held and those just opened, and
    /// the locks that it holds as long as it lives.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(super) fn attached(&self, opened: &Resources, plan: &Plan) -> Result<Attached> {
        Ok(with_locks(self.resources.supplies(opened, plan)?, self.lock.descriptors()?))
    }

    /// Orders for the data plane.
    pub(super) fn orders(
        &self,
        plan: Plan,
        (supplies, descriptors): Attached,
    ) -> (PlanWithSupplies, Vec<OwnedFd>) {
        (PlanWithSupplies { run: self.running.run.clone(), plan, isolated: None, supplies }, descriptors)
    }

    /// Reads the messages of the data plane, notices its end, and starts the next one when it is due.
    ///
    /// # Errors
    /// The first data plane cannot be brought up.
    pub(super) fn attend_plane(&mut self, now: Instant) -> Result<()> {
        if let Some((DataPlaneChange::Begins(_), outcome)) = self.resources.turned() {
            self.go_on_starting(outcome, now)?;
        }
        if self.lifecycle.again.is_some_and(|again| now >= again) && self.may_start() {
            self.lifecycle.again = None;
            self.start_again(now)?;
        }
        let Some(plane) = &mut self.lifecycle.plane else { return Ok(()) };
        let trouble = plane.listen(now);
        let said = plane.stderr.hear(now);
        self.repeat(None, said, now);
        let until = self.turn();
        while let Some(message) = self.lifecycle.plane.as_mut().and_then(Plane::next) {
            self.handle_message(message, now)?;
            if (self.clock)() >= until {
                break;
            }
        }
        self.attend_finding(now);
        let Some(plane) = &mut self.lifecycle.plane else { return Ok(()) };
        let pid = plane.pid();
        let Some(how) = plane.verdict(trouble, now) else { return Ok(()) };
        self.plane_died(pid, &how, now)
    }

    /// Handles the death of the data plane, or kills it now: everything that belongs to it is ended, and the
    /// next one is scheduled.
    pub(super) fn plane_died(&mut self, pid: u32, how: &str, now: Instant) -> Result<()> {
        if let Some(mut plane) = self.lifecycle.plane.take() {
            self.repeat(None, plane.stderr.rest(), now);
            self.kill(None, plane, now);
        }
        let _ = self.resources.prepare_attachments(DataPlaneChange::Ended);
        self.children.end_all(now);
        self.placement.forget(None);
        self.forget_questions_of(None, now);
        self.change_has_lost_plane(now);
        self.renew_ceilings(now);
        if self.times.ending.is_some() {
            return Ok(());
        }
        if !self.lifecycle.was_up && self.lifecycle.has_failed_to_start() {
            bail!("the data plane (pid {pid}) {how}, for the {MOST_FAILED_STARTS}th time, and never came up");
        }
        let pause = self.lifecycle.pause(now);
        let message = format!("data plane (pid {pid}) {how}; it is started again in {pause:?}, links stay");
        self.events.record(Kind::DataPlaneDied, message);
        self.display.leave();
        Ok(())
    }

    /// Returns true if a data plane may be started: the run does not end, and what it is to be handed is not
    /// away being renewed.
    pub(super) fn may_start(&self) -> bool {
        self.times.ending.is_none() && !self.resources.are_being_prepared()
    }

    /// Begins to start the next data plane.
    ///
    /// # Errors
    /// Those of [`Self::go_on_starting`].
    fn start_again(&mut self, now: Instant) -> Result<()> {
        self.lifecycle.restarts = self.lifecycle.restarts.saturating_add(1);
        match self.resources.prepare_attachments(DataPlaneChange::Begins(self.lifecycle.restarts)) {
            Some(outcome) => self.go_on_starting(outcome, now),
            None => Ok(()),
        }
    }

    /// Continues the start once the resources to be handed over are ready, or cannot be had now.
    ///
    /// # Errors
    /// No data plane has ever come up, and starts have failed too often.
    fn go_on_starting(&mut self, outcome: Result<()>, now: Instant) -> Result<()> {
        if self.times.ending.is_some() {
            return Ok(());
        }
        let started = outcome
            .and_then(|()| self.resources.renew_passages(None))
            .and_then(|()| self.new_plane(None, now));
        let outcome = started.and_then(|plane| {
            self.lifecycle.plane = Some(plane);
            self.order(now)
        });
        if let Err(error) = outcome {
            if let Some(plane) = self.lifecycle.plane.take() {
                self.kill(None, plane, now);
            }
            let _ = self.resources.prepare_attachments(DataPlaneChange::Ended);
            if !self.lifecycle.was_up && self.lifecycle.has_failed_to_start() {
                bail!("the data plane cannot be started: {error:#}; {MOST_FAILED_STARTS} starts have failed");
            }
            let pause = self.lifecycle.pause(now);
            let what = format!("the data plane cannot be started: {error:#}; once more in {pause:?}");
            self.events.record(Kind::Failed, what);
        }
        Ok(())
    }

    /// Starts the process of a data plane, and moves it into the control groups before it is told anything.
    pub(super) fn new_plane(&mut self, whom: Option<&str>, now: Instant) -> Result<Plane> {
        ensure!(
            !self.killed.are_many(&described(whom)),
            "too many of its kind were killed and have not ended"
        );
        let plane = (self.start_plane)(now)?;
        self.ceilings.enter(plane.pid());
        Ok(plane)
    }

    /// Kills a data plane, or the process of a router. Its end is watched for, without waiting.
    pub(super) fn kill(&mut self, whom: Option<&str>, plane: Plane, now: Instant) {
        self.killed.kill(&described(whom), plane.into_process(), now);
    }

    /// Attends to processes that were killed.
    pub(super) fn attend_dying(&mut self, now: Instant) {
        let late = self.killed.attend(now).into_iter().chain(self.children.killed.attend(now));
        for line in late.collect::<Vec<_>>() {
            self.events.record(Kind::Notice, line);
            self.display.leave();
        }
    }

    /// Waits, for a limited time, for the processes that were killed: what they hold of the run cannot be
    /// released before. Returns true if none is left.
    pub(super) fn bury_all(&mut self, clock: &impl Fn() -> Instant) -> bool {
        let mut killed = std::mem::take(&mut self.killed);
        killed.append(std::mem::take(&mut self.children.killed));
        let line = killed.wait_for_all(clock);
        let none_is_left = line.is_none();
        line.into_iter().for_each(|line| self.events.record(Kind::Notice, line));
        none_is_left
    }

    /// Handles a message of the data plane.
    fn handle_message(&mut self, message: ToSupervisor, now: Instant) -> Result<()> {
        match message {
            ToSupervisor::Started { at_ns } => self.came_up(at_ns, now),
            ToSupervisor::Failed { why } => self.did_not_come_up(&why, now)?,
            ToSupervisor::Answer { id, outcome } => self.answered(None, id, outcome, now),
            ToSupervisor::Event { kind, router, process, message, .. } => {
                let message = with_process(message, process);
                let known =
                    |name: &String| self.running.plan.routers.iter().any(|router| router.name == *name);
                let router = router.filter(known);
                self.display.leave();
                match router {
                    Some(name) if kind == Kind::Charged.name() && self.isolated.contains_key(&name) => {
                        self.charge_isolated(&name, message, now)?;
                    }
                    router => self.events.record_from_data_plane(&kind, router.as_deref(), message, now),
                }
            }
            ToSupervisor::Learned { router, late, epoch } => {
                self.has_learned((None, &router), (late, epoch), now);
            }
            ToSupervisor::Threads { threads } => self.note_threads(None, threads, now),
            ToSupervisor::FindThread { owner } => self.asked_to_find(owner, now),
            ToSupervisor::Plugged { nic } => self.cable_changed(nic, now),
            ToSupervisor::SilentGateways { group, gateways } => self.avoid_gateways(&group, &gateways, now),
            ToSupervisor::FindWay { of, question } => self.find_way(of, question, now),
            ToSupervisor::Spawn { router, jumbo } => self.spawn(&router, jumbo, now),
            ToSupervisor::Kill { router, pid } => self.children.kill(&router, pid, now),
            // `Pong` is handled where the link is read, and only processes of routers are asked for a way.
            ToSupervisor::Pong | ToSupervisor::FoundWay { .. } => {}
        }
        Ok(())
    }

    fn came_up(&mut self, at_ns: u64, now: Instant) {
        let Some(plane) = &mut self.lifecycle.plane else { return };
        if !plane.has_come_up(now) {
            return;
        }
        let pid = plane.pid();
        self.lifecycle.up_since = Some(now);
        self.display.reset(at_ns);
        if self.lifecycle.was_up {
            self.events.record(Kind::Restarted, format!("a new data plane (pid {pid}) forwards"));
        }
        self.times.tick = Some(now + SECOND);
        self.controls.tell_anew();
        self.tell_gateways(now);
        self.announce(now);
    }

    /// Announces, once, that everything is up.
    pub(super) fn announce(&mut self, now: Instant) {
        let waits = |name: &str| !self.isolated.get(name).is_some_and(RouterProcess::is_up);
        if self.lifecycle.was_up
            || !self.is_up()
            || self.running.plan.isolated().any(|router| waits(&router.name))
        {
            return;
        }
        self.lifecycle.was_up = true;
        let after = self.up_time(now).as_secs_f64() * 1e3;
        let message = format!("everything of {} is up after {after:.1} ms", self.running.file);
        notify("READY=1");
        let promises =
            self.placement.promises.iter().flat_map(Promises::promised).map(|promised| promised.to_string());
        promises.for_each(|line| self.events.record(Kind::Started, line));
        self.events.record(Kind::Started, message);
        self.times.end = self.options.time.map(|time| now + time);
    }

    /// Handles a data plane that cannot follow its orders. At the first start this ends the run; later it is
    /// retried, since the host may have lost something for a while.
    fn did_not_come_up(&mut self, why: &str, now: Instant) -> Result<()> {
        if !self.lifecycle.was_up {
            return Err(anyhow!("{why}"));
        }
        let Some(plane) = &self.lifecycle.plane else { return Ok(()) };
        let pid = plane.pid();
        self.plane_died(pid, &format!("cannot bring the run up again: {why}"), now)
    }

    fn spawn(&mut self, router: &str, jumbo: bool, now: Instant) {
        let engine = self.planned_engine(router);
        let firmware = if jumbo { Firmware::Jumbo } else { Firmware::Plain };
        let spawned = match engine {
            Some(config::Engine::Process) => {
                self.children.spawn((router, firmware), |pid| self.ceilings.enter(pid), now)
            }
            _ => Err(anyhow!("the file has no router '{router}' that is a process")),
        };
        let (message, descriptors) = match spawned {
            Ok((descriptors, pid)) => (ToPlane::Spawned { router: router.to_owned(), pid }, descriptors),
            Err(error) => {
                (ToPlane::NotSpawned { router: router.to_owned(), why: format!("{error:#}") }, Vec::new())
            }
        };
        if let Some(plane) = &mut self.lifecycle.plane {
            plane.say(&message, descriptors, now);
        }
    }

    fn planned_engine(&self, router: &str) -> Option<config::Engine> {
        let plans = [Some(&self.running.plan), self.changes.plan()];
        let mut routers = plans.into_iter().flatten().flat_map(|plan| &plan.routers);
        routers.find(|known| known.name == router && known.engine == Some(config::Engine::Process))?.engine
    }

    /// Reports children that ended by themselves.
    pub(super) fn attend_children(&mut self, now: Instant) {
        for ended in self.children.ended() {
            self.events.record_from_data_plane(Kind::Notice.name(), Some(&ended.router), ended.message, now);
            self.display.leave();
        }
    }

    /// Time since the start of the run.
    pub(super) fn up_time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.times.started)
    }
}

/// Description of a killed data plane, or process of a router.
pub(super) fn described(whom: Option<&str>) -> String {
    whom.map_or_else(|| "the data plane".to_owned(), |name| format!("the process of router {name}"))
}

/// Adds to a line about a peer that has connected its process and that process's user: the data plane knows
/// no users but its own.
fn with_process(message: String, process: Option<i32>) -> String {
    let Some(process) = process else { return message };
    match std::fs::metadata(format!("/proc/{process}")) {
        Ok(facts) => format!("{message} (process {process} of user {})", facts.uid()),
        Err(_) => format!("{message} (process {process}, which has ended)"),
    }
}

/// Adds locks to the descriptors for a process, which holds them as long as it lives.
pub(super) fn with_locks((mut supplies, mut descriptors): Attached, locks: Vec<OwnedFd>) -> Attached {
    let (need, of, what) = (SupplyKind::Locks, String::new(), Value::Null);
    supplies.push(Supply { need, of, what, descriptors: locks.len() });
    descriptors.extend(locks);
    (supplies, descriptors)
}
