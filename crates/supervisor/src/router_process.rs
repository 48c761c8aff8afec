//! Routers in processes of their own (`isolate = "process"`). Each such process is a small data plane for one
//! router, whose NICs the main data plane serves by vhost-user. The supervisor starts it once the main one is
//! up, and restarts it when it dies alone.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use api::{Request, RouterStatus, State};
use config::{Plan, Restart, Router};
use link::{PlanWithSupplies, ToPlane, ToSupervisor};
use telemetry::Kind;

use super::lifecycle::{MOST_FAILED_STARTS, described, with_locks};
use super::plane::Plane;
use super::resources::Resources;
use super::{PlaneLifecycle, Supervisor};

/// Process of a router, or the date of its next start.
#[derive(Default)]
pub(super) struct RouterProcess {
    pub(super) lifecycle: PlaneLifecycle,
    /// True if it died and its file forbids a restart.
    given_up: bool,
    /// Reason of its last end.
    reason: Option<String>,
    /// Counters as it last reported them.
    pub(super) counted: BTreeMap<String, u64>,
    /// Ways of packets for which it was asked, and that it has not told yet.
    pub(super) asked_ways: u32,
}

/// The processes, by router.
pub(super) type RouterProcesses = BTreeMap<String, RouterProcess>;

impl RouterProcess {
    pub(super) fn is_up(&self) -> bool {
        self.lifecycle.plane.as_ref().is_some_and(|plane| plane.is_up)
    }

    /// Returns true if the process can be asked this and is expected to answer; it gets `most` for counters.
    pub(super) fn listens_to(&self, request: &Request, most: Duration, now: Instant) -> bool {
        let counters = matches!(request, Request::Counters { .. });
        let is_late = |plane: &Plane| if counters { plane.is_silent(most, now) } else { plane.is_late(now) };
        self.lifecycle.plane.as_ref().is_some_and(|plane| plane.is_up && !is_late(plane))
    }

    fn is_due(&self, now: Instant) -> bool {
        self.lifecycle.plane.is_none()
            && !self.given_up
            && self.lifecycle.again.is_none_or(|again| now >= again)
    }

    /// Makes the process due for a start at once, because a client wants the router to run.
    pub(super) fn make_due(&mut self) {
        self.given_up = false;
        self.lifecycle.again = None;
        self.lifecycle.back_off.forget();
    }

    /// Status of its router while the process cannot report one.
    pub(super) fn status(&self, plan: &Router) -> RouterStatus {
        let state = if self.given_up { State::Failed } else { State::Waiting };
        RouterStatus {
            name: plan.name.clone(),
            engine: plan.engine.map_or("", config::Engine::name).to_owned(),
            state,
            since_ms: 0,
            restarts: self.lifecycle.restarts,
            reason: Some(self.why_silent()),
            pid: self.lifecycle.plane.as_ref().map(Plane::pid),
            member: None,
            threads: Vec::new(),
        }
    }

    fn why_silent(&self) -> String {
        match &self.reason {
            _ if self.is_up() => "its process is busy or does not answer any more".to_owned(),
            Some(reason) => reason.clone(),
            None => "its process is coming up".to_owned(),
        }
    }

    /// Completes the status that the process reports with what only the supervisor knows.
    pub(super) fn completed(&self, mut status: RouterStatus) -> RouterStatus {
        status.pid = self.lifecycle.plane.as_ref().map(Plane::pid);
        status.restarts = status.restarts.saturating_add(self.lifecycle.restarts);
        status.reason = status.reason.or_else(|| self.reason.clone());
        status
    }
}

impl Supervisor {
    /// Starts the processes that should exist, reads their messages, and notices their end.
    ///
    /// # Errors
    /// A process of the first start cannot be brought up.
    pub(super) fn attend_router_processes(&mut self, now: Instant) -> Result<()> {
        let names: Vec<String> = self.running.plan.isolated().map(|router| router.name.clone()).collect();
        for name in &names {
            if self.isolated.entry(name.clone()).or_default().is_due(now)
                && !self.changes.holds_processes()
                && self.is_up()
                && self.times.ending.is_none()
            {
                self.start_isolated(name, now)?;
            }
            self.attend_one(name, now)?;
        }
        Ok(())
    }

    fn attend_one(&mut self, name: &str, now: Instant) -> Result<()> {
        let Some(plane) = self.plane_of(Some(name)) else { return Ok(()) };
        let trouble = plane.listen(now);
        let said = plane.stderr.hear(now);
        self.repeat(Some(name), said, now);
        let until = self.turn();
        while let Some(message) = self.plane_of(Some(name)).and_then(Plane::next) {
            self.handle_isolated_message(name, message, now)?;
            if (self.clock)() >= until {
                break;
            }
        }
        let Some(plane) = self.plane_of(Some(name)) else { return Ok(()) };
        let Some(how) = plane.verdict(trouble, now) else { return Ok(()) };
        self.router_process_died(name, &how, now)
    }

    /// Process of a router, or, for `None`, the data plane.
    pub(super) fn plane_of(&mut self, whom: Option<&str>) -> Option<&mut Plane> {
        match whom {
            None => self.lifecycle.plane.as_mut(),
            Some(name) => self.isolated.get_mut(name)?.lifecycle.plane.as_mut(),
        }
    }

    /// Starts the process of a router. If that cannot be done now, it is tried again later.
    ///
    /// # Errors
    /// The run was never up, and starts of this process have failed too often.
    fn start_isolated(&mut self, name: &str, now: Instant) -> Result<()> {
        let Some(isolated) = self.isolated.get_mut(name) else { return Ok(()) };
        let again = isolated.lifecycle.again.take().is_some() || isolated.lifecycle.was_up;
        if again {
            isolated.lifecycle.restarts = isolated.lifecycle.restarts.saturating_add(1);
        }
        let started =
            self.resources.renew_passages(Some(name)).and_then(|()| self.new_plane(Some(name), now));
        let outcome = started.and_then(|mut plane| match self.orders_of_what_runs(Some(name)) {
            Ok((orders, descriptors)) => {
                plane.order(orders, descriptors, now);
                Ok(plane)
            }
            Err(error) => {
                self.kill(Some(name), plane, now);
                Err(error)
            }
        });
        let Some(isolated) = self.isolated.get_mut(name) else { return Ok(()) };
        match outcome {
            Ok(plane) => {
                isolated.lifecycle.plane = Some(plane);
                isolated.asked_ways = 0;
                self.let_learn(name, now);
                self.send_cpu_sharing(Some(name), now);
            }
            Err(error) => {
                let what = format!("its process cannot be started: {error:#}");
                if !self.lifecycle.was_up && isolated.lifecycle.has_failed_to_start() {
                    bail!("router {name}: {what}; {MOST_FAILED_STARTS} starts have failed");
                }
                let pause = isolated.lifecycle.pause(now);
                self.tell_of(name, Kind::Failed, format!("{what}; once more in {pause:?}"), now);
            }
        }
        Ok(())
    }

    /// Orders for the process of a router: its own part of the plan, and the lock on its name. It learns
    /// nothing of its neighbours.
    ///
    /// # Errors
    /// There is no such router, or the process is out of descriptors.
    pub(super) fn isolated_orders(
        &self,
        (opened, plan): (&Resources, &Plan),
        name: &str,
    ) -> Result<(PlanWithSupplies, Vec<OwnedFd>)> {
        let router = router(plan, name);
        let router = router.with_context(|| format!("there is no router {name} in a process of its own"))?;
        let own = plan.of_isolated(name).context("its plan is that of nobody")?;
        let attached =
            with_locks(self.resources.isolated_supplies(opened, router)?, self.lock.descriptor_of(name)?);
        let (orders, descriptors) = self.orders(own, attached);
        Ok((PlanWithSupplies { isolated: Some(name.to_owned()), ..orders }, descriptors))
    }

    /// Kills the process of a router, because the data plane saw that router break the rules at its NICs.
    pub(super) fn charge_isolated(&mut self, name: &str, line: String, now: Instant) -> Result<()> {
        self.tell_of(name, Kind::Charged, line, now);
        self.router_process_died(name, "was killed for it", now)
    }

    /// Handles the death of a router's process: only that process is restarted, if its file says so.
    pub(super) fn router_process_died(&mut self, name: &str, how: &str, now: Instant) -> Result<()> {
        let policy = router(&self.running.plan, name).map(|router| router.restart);
        self.tell_of_ceilings(now);
        let Some(isolated) = self.isolated.get_mut(name) else { return Ok(()) };
        let Some(mut plane) = isolated.lifecycle.plane.take() else { return Ok(()) };
        isolated.counted.clear();
        self.placement.forget(Some(name));
        let (pid, said) = (plane.pid(), plane.stderr.rest());
        self.kill(Some(name), plane, now);
        self.repeat(Some(name), said, now);
        let Some(isolated) = self.isolated.get_mut(name) else { return Ok(()) };
        if self.times.ending.is_some() {
            self.forget_questions_of(Some(name), now);
            return Ok(());
        }
        let what = format!("its process (pid {pid}) {how}");
        isolated.reason = Some(what.clone());
        if !self.lifecycle.was_up && isolated.lifecycle.has_failed_to_start() {
            bail!("router {name}: {what}, for the {MOST_FAILED_STARTS}th time, and never came up");
        }
        let next = if policy == Some(Restart::Never) && self.lifecycle.was_up {
            isolated.given_up = true;
            "its file says that it is not started again".to_owned()
        } else {
            format!("it is started again in {:?}", isolated.lifecycle.pause(now))
        };
        self.forget_questions_of(Some(name), now);
        self.tell_of(name, Kind::Failed, format!("{what}; {next}"), now);
        Ok(())
    }

    pub(super) fn tell_of(&mut self, name: &str, kind: Kind, what: String, now: Instant) {
        self.events.record_from_data_plane(kind.name(), Some(name), what, now);
        self.display.leave();
    }

    /// Handles a message from the process of a router. It speaks for that router alone; its requests are
    /// refused.
    fn handle_isolated_message(&mut self, name: &str, message: ToSupervisor, now: Instant) -> Result<()> {
        let refused = || "not for the process of one router".to_owned();
        match message {
            ToSupervisor::Started { .. } => self.isolated_came_up(name, now),
            ToSupervisor::Failed { why } if !self.lifecycle.was_up => return Err(anyhow!("{why}")),
            ToSupervisor::Failed { why } => {
                return self.router_process_died(name, &format!("cannot bring it up: {why}"), now);
            }
            ToSupervisor::Answer { id, outcome } => self.answered(Some(name), id, outcome, now),
            ToSupervisor::Event { kind, router, of_peer, message, .. } => {
                // The data plane serves its NICs; an end of theirs is reported by the data plane.
                if router.is_none_or(|router| router == name) && !of_peer {
                    self.events.record_from_process(&kind, name, message, now);
                    self.display.leave();
                }
            }
            ToSupervisor::Threads { threads } => self.note_threads(Some(name), threads, now),
            ToSupervisor::FindThread { owner } => {
                self.say_to(Some(name), &ToPlane::FoundThread { owner, thread: None }, Vec::new(), now);
            }
            ToSupervisor::Spawn { router, .. } => {
                let answer = ToPlane::NotSpawned { router, why: refused() };
                self.say_to(Some(name), &answer, Vec::new(), now);
            }
            ToSupervisor::Learned { router, late, epoch } => {
                self.process_has_learned((name, &router), (late, epoch), now);
            }
            ToSupervisor::FoundWay { of, way } => self.found_way(name, of, way, now),
            // It has no children and serves no other router's NIC; `Pong` is handled where the link is read.
            ToSupervisor::Kill { .. }
            | ToSupervisor::Plugged { .. }
            | ToSupervisor::SilentGateways { .. }
            | ToSupervisor::FindWay { .. }
            | ToSupervisor::Pong => {}
        }
        Ok(())
    }

    fn isolated_came_up(&mut self, name: &str, now: Instant) {
        let Some(isolated) = self.isolated.get_mut(name) else { return };
        let Some(plane) = &mut isolated.lifecycle.plane else { return };
        if !plane.has_come_up(now) {
            return;
        }
        let which = format!("(pid {}) after {:.1} ms", plane.pid(), plane.age(now));
        isolated.lifecycle.up_since = Some(now);
        let speaker = router(&self.running.plan, name).map_or(name, Router::speaker).to_owned();
        self.controls.teach_anew(&speaker);
        let Some(isolated) = self.isolated.get_mut(name) else { return };
        if std::mem::replace(&mut isolated.lifecycle.was_up, true) {
            self.tell_of(name, Kind::Restarted, format!("in a new process {which}"), now);
        } else if self.lifecycle.was_up {
            self.tell_of(name, Kind::Started, format!("in a process of its own {which}"), now);
        }
        self.announce(now);
    }

    /// Ends processes after the plan changed from `before`: those of routers that have none any more, and
    /// those that were started with a part of the plan that has changed and have not `followed`, because they
    /// were still coming up when the others were told. These are started again.
    pub(super) fn end_processes_of(&mut self, before: &Plan, followed: &[Option<String>], now: Instant) {
        for old in before.isolated() {
            let name = old.name.as_str();
            let Some(restart) = router(&self.running.plan, name).map(|router| router.restart) else {
                self.end_isolated(name, now);
                continue;
            };
            if let Some(isolated) =
                self.isolated.get_mut(name).filter(|isolated| isolated.given_up && restart != old.restart)
            {
                isolated.make_due();
            }
            let is_other = before.of_isolated(name) != self.running.plan.of_isolated(name);
            if is_other && !followed.iter().any(|whom| whom.as_deref() == Some(name)) {
                self.end_outdated(name, now);
            }
        }
    }

    /// Kills the process of a router, if it has one, because it runs what an earlier plan says. The next one is
    /// due at once.
    fn end_outdated(&mut self, name: &str, now: Instant) {
        let Some(isolated) = self.isolated.get_mut(name) else { return };
        let Some(plane) = isolated.lifecycle.plane.take() else { return };
        isolated.counted.clear();
        isolated.lifecycle.up_since = None;
        if plane.is_up {
            let what = format!("its process (pid {}) came up during a change, and is replaced", plane.pid());
            self.tell_of(name, Kind::Notice, what, now);
        }
        self.placement.forget(Some(name));
        self.kill(Some(name), plane, now);
        self.forget_questions_of(Some(name), now);
    }

    /// Reclaims routes of groups that no member can have any more: a process that was killed reads them until it has ended.
    pub(super) fn reclaim_routes(&self) {
        let is_gone = |name: &str| {
            let has_process = |isolated: &RouterProcess| isolated.lifecycle.plane.is_some();
            let isolated = self.running.plan.isolated().any(|router| router.name == name);
            isolated
                && !self.isolated.get(name).is_some_and(has_process)
                && !self.killed.has(&described(Some(name)))
        };
        self.resources.tables.reclaim(is_gone);
    }

    fn end_isolated(&mut self, name: &str, now: Instant) {
        self.forget_questions_of(Some(name), now);
        self.placement.forget(Some(name));
        if let Some(mut plane) = self.isolated.remove(name).and_then(|isolated| isolated.lifecycle.plane) {
            self.repeat(Some(name), plane.stderr.rest(), now);
            self.kill(Some(name), plane, now);
        }
    }

    /// Ends all processes of routers in good order. `grace` is the time for all of them together.
    pub(super) fn finish_isolated(&mut self, now: Instant, grace: Duration, clock: &impl Fn() -> Instant) {
        let processes = std::mem::take(&mut self.isolated).into_iter();
        let mut planes: Vec<_> =
            processes.filter_map(|(name, isolated)| Some((name, isolated.lifecycle.plane?))).collect();
        planes.iter_mut().for_each(|(_, plane)| plane.say(&ToPlane::Stop, Vec::new(), now));
        let end = now + grace;
        for (name, plane) in planes {
            let left = if plane.is_up { end.saturating_duration_since(clock()) } else { Duration::ZERO };
            let (said, process) = plane.wait(left, clock, drop);
            self.repeat(Some(&name), said, now);
            self.killed.kill(&described(Some(&name)), process, now);
        }
    }
}

fn router<'p>(plan: &'p Plan, name: &str) -> Option<&'p Router> {
    plan.isolated().find(|router| router.name == name)
}
