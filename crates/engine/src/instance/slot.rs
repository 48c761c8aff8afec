//! Slot of one router: its plan, its current run, and its state between runs.

mod launch;
mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::CpuSharing;
use config::{Engine, Restart, Router};
use sandbox::Confinement;
use telemetry::Kind;

use super::backend_pool::BackendPool;
use super::running::RunningRouter;
use super::status::{About, Event, RouterStatus, State};
use crate::apply::difference::route_changes;
use crate::arp_conflicts::ArpConflicts;
use crate::control::Learning;
use crate::counts::CounterRegistry;
use crate::ensemble::Ensembles;
use crate::guest::Guest;
use crate::look_after::BackOff;
use crate::next_hops::NextHops;
use crate::observed_time::ObservedTime;
use crate::routes;
use crate::shortages::Shortages;
use crate::tables::Tables;
use crate::take_down::{self, TakeDown};
use crate::task::Task;
use crate::tracing::TapBoard;
use crate::watch::{BOOT_LIMIT, Rules, Watch};
use crate::wiring::Outlet;
pub(crate) use parts::{Parts, Plugged, outlet_finder};

/// Time limit for which a starting router waits for a vhost-user peer that is to be handed its rings, so that
/// its driver is offered the features of that peer.
pub(crate) const PEER_PATIENCE: Duration = Duration::from_millis(500);
/// Time limit for building a machine or launching a router: as long as a firmware may take to come up ([`Rules::boot`]). The kernel's
/// part takes milliseconds, but is delayed by other guests on an overloaded host.
pub(crate) const LAUNCH_LIMIT: Duration = Duration::from_secs(30);
/// Longest time that a healthy instance may take to stop a router, or to change something of one that runs on.
pub const LONGEST_STOP: Duration = take_down::LIMIT;
/// Longest time that a healthy instance may take until a router that it is to start serves, or is given up: its attachments are opened,
/// the previous run is taken down, the machine is built, the router is launched, the firmware boots, and what was replaced is taken
/// down.
pub const LONGEST_START: Duration =
    Duration::from_secs(3 * LAUNCH_LIMIT.as_secs() + BOOT_LIMIT.as_secs() + 2 * LONGEST_STOP.as_secs());

/// State shared by all slots of an instance.
pub(crate) struct RunContext {
    pub(crate) backends: BackendPool,
    pub(crate) confinement: Confinement,
    /// Registry of observers of frames (trace, capture).
    pub(crate) board: TapBoard,
    /// Registry of counters.
    pub(crate) counts: CounterRegistry,
    /// What routers have learned from their control planes.
    pub(crate) learning: Learning,
    /// The tables that members of groups have in common.
    pub(crate) tables: Tables,
    /// Groups whose members share what they are plugged into.
    pub(crate) ensembles: Ensembles,
    pub(crate) rules: Rules,
    /// Threads that share their CPUs and sleep as soon as they have no work, by name.
    pub(crate) sharing: BTreeMap<String, CpuSharing>,
    /// The time of the last look ([`crate::Instance::look_after`]): the only clock of the code in this
    /// module.
    pub(crate) now: Instant,
    /// Events that were not yet reported.
    pub(crate) events: Vec<Event>,
    /// NICs of isolated routers whose cable has changed, not yet reported.
    pub(crate) plugged: Vec<String>,
}

/// A run of a router, and the watch over it.
pub(crate) struct Run {
    pub(crate) router: RunningRouter,
    pub(crate) watch: Watch,
    /// Other stations that claim the router's own addresses.
    pub(crate) conflicts: ArpConflicts,
    /// Neighbours without room, scans, IPv6 addresses that others have.
    pub(crate) shortages: Shortages,
    /// Next hops of groups that it does not reach.
    pub(crate) next_hops: NextHops,
    /// True once the router has come up.
    pub(crate) up: bool,
    pub(crate) started: Instant,
    /// Time for which a caller has waited until the router is up.
    waited: ObservedTime,
}

/// State of a slot before an explicit start.
pub(crate) struct StateBeforeStart {
    state: State,
    due: Option<Instant>,
}

/// Slot of one router.
pub(crate) struct Slot {
    pub(crate) plan: Router,
    outlets: Vec<Arc<Outlet>>,
    pub(crate) run: Option<Run>,
    /// The task that launches the router; the run begins when it is done.
    launch: Option<Task<Result<RunningRouter>>>,
    /// True while a caller waits for the router to come up, and so judges it.
    awaited: bool,
    /// Why the launch failed, for the caller that waits for it.
    refusal: Option<anyhow::Error>,
    /// Its state while it does not run.
    idle_state: State,
    /// When it entered its current state.
    since: Instant,
    /// Number of starts, including those in the slot that this one has replaced.
    starts: u64,
    reason: Option<String>,
    back_off: BackOff,
    /// When it is due to be restarted.
    due: Option<Instant>,
    /// The take-down of the previous run. The next run cannot begin before it is over.
    leaving: TakeDown,
    /// True while it is out of service during a change of the instance: it is not restarted automatically.
    suspended: bool,
    /// When it began to wait for its peers before a restart.
    peers_awaited: Option<Instant>,
}

impl Slot {
    /// Creates a slot for a router that does not run yet; also returns its guest.
    pub(crate) fn new(parts: Parts, now: Instant) -> (Self, Guest) {
        (Self::stopped(parts.plugged, now), parts.guest)
    }

    /// Creates a slot for a stopped router.
    pub(crate) fn stopped(plugged: Plugged, now: Instant) -> Self {
        let Plugged { plan, outlets } = plugged;
        Self {
            plan,
            outlets,
            run: None,
            launch: None,
            awaited: false,
            refusal: None,
            idle_state: State::Stopped,
            since: now,
            starts: 0,
            reason: None,
            back_off: BackOff::default(),
            due: None,
            leaving: TakeDown::default(),
            suspended: false,
            peers_awaited: None,
        }
    }

    /// Creates the slot that replaces this one; start count and last reason are carried over.
    pub(crate) fn succeeded_by(&self, parts: Parts, now: Instant) -> (Self, Guest) {
        let (slot, guest) = Self::new(parts, now);
        (Self { starts: self.starts, reason: self.reason.clone(), ..slot }, guest)
    }

    /// Returns the outlets that its NICs are plugged into.
    pub(crate) fn outlets(&self) -> &[Arc<Outlet>] {
        &self.outlets
    }

    /// Returns how often it was restarted.
    fn restarts(&self) -> u64 {
        self.starts.saturating_sub(1)
    }

    /// Clears its failures before an explicit start. Returns the state that [`Slot::was_started`] restores if
    /// the start fails.
    pub(crate) fn forget_failures(&mut self) -> StateBeforeStart {
        self.back_off.forget();
        // A restart in progress counts as due.
        let due = self.due.take().or_else(|| self.launch.as_ref().map(|_| self.since));
        StateBeforeStart { state: self.idle_state, due }
    }

    /// Ends an explicit start: reports it, or restores the previous state if it failed.
    pub(crate) fn was_started(
        &mut self,
        started: Result<()>,
        before: &StateBeforeStart,
        context: &mut RunContext,
    ) -> Result<()> {
        if let Err(error) = started {
            // A pending automatic restart stays pending.
            self.take_down(before.state, context.now);
            self.due = before.due;
            return Err(error);
        }
        context.record_event(&self.plan.name, Kind::Started, "on demand");
        Ok(())
    }

    /// Stops a router on request.
    pub(crate) fn stop(&mut self, context: &mut RunContext) {
        if !self.is_active() && self.idle_state == State::Stopped {
            return;
        }
        self.take_down(State::Stopped, context.now);
        context.record_event(&self.plan.name, Kind::Stopped, "on demand");
    }

    /// Tells the hosts behind the router that it is about to go by order.
    pub(crate) fn bid_farewell(&self) {
        if let Some(run) = &self.run {
            run.router.bid_farewell();
        }
    }

    /// Handles a guest that has powered itself off: the router stays stopped until it is started explicitly.
    pub(crate) fn has_turned_off(&mut self, context: &mut RunContext) {
        self.take_down(State::Stopped, context.now);
        context.record_event(&self.plan.name, Kind::Stopped, "its guest has turned itself off");
    }

    /// Begins to take down the run, and nothing else; the take-down continues in the background
    /// ([`Slot::is_leaving`]).
    pub(crate) fn take_down(&mut self, idle_state: State, now: Instant) {
        self.end_run(now);
        self.idle_state = idle_state;
        self.since = now;
        self.peers_awaited = None;
        if idle_state != State::Waiting {
            self.due = None;
        }
    }

    /// Begins to take down the run or the launch in progress; returns true if there was one.
    fn end_run(&mut self, now: Instant) -> bool {
        self.awaited = false;
        let (name, launch) = (self.plan.name.clone(), self.launch.take());
        if let Some(mut run) = self.run.take() {
            run.router.stop_counting();
            self.leaving = TakeDown::begin(&name, run.router, now);
        } else if let Some(launch) = launch {
            self.leaving = TakeDown::begin(&name, launch, now);
        } else {
            return false;
        }
        true
    }

    /// Returns true while the previous run is still being taken down.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.is_over()
    }

    /// Checks the take-down of the previous run, and reports one that takes too long.
    pub(crate) fn look_at_take_down(&mut self, context: &mut RunContext) {
        if let Some(line) = self.leaving.look(context.now) {
            context.record_event(&self.plan.name, Kind::Notice, line);
        }
    }

    /// Takes down the run until [`Slot::resume`] is called; returns true if there was one.
    pub(crate) fn suspend(&mut self, now: Instant) -> bool {
        self.suspended = true;
        let ran = self.end_run(now);
        if ran {
            self.idle_state = State::Stopped;
        }
        ran
    }

    /// Puts it back into service.
    pub(crate) fn resume(&mut self) {
        self.suspended = false;
    }

    /// Takes it down with its outlets: the current run, and the previous one if its take-down is not over
    /// yet.
    pub(crate) fn into_take_downs(mut self, now: Instant) -> [TakeDown; 2] {
        self.bid_farewell();
        let (before, name) = (std::mem::take(&mut self.leaving), self.plan.name.clone());
        let runs = (self.run.take().map(|run| run.router), self.launch.take());
        // In this order: the run, then its outlets.
        [before, TakeDown::begin(&name, (runs, self), now)]
    }

    /// Handles a router that has failed or was charged: takes it down and applies its restart policy.
    pub(crate) fn fail(&mut self, kind: Kind, line: String, context: &mut RunContext) {
        let ran = self
            .run
            .as_ref()
            .map_or(Duration::ZERO, |run| context.now.saturating_duration_since(run.started));
        self.take_down(State::Failed, context.now);
        context.record_event(&self.plan.name, kind, &line);
        self.reason = Some(line);
        if self.plan.restart == Restart::Always {
            let pause = self.back_off.failed(ran);
            self.idle_state = State::Waiting;
            self.due = Some(self.since + pause);
            context.record_event(
                &self.plan.name,
                Kind::Restarting,
                format!("in {:.1} s", pause.as_secs_f64()),
            );
        }
    }

    /// Applies the settings of a plan that can be changed at run time, now and for later starts.
    pub(crate) fn adjust(&mut self, to: &Router, now: Instant) {
        if self.plan.restart != to.restart {
            self.follow_restart(to.restart, now);
        }
        (self.plan.restart, self.plan.limit, self.plan.spin) = (to.restart, to.limit, to.spin);
        self.plan.nics.iter_mut().zip(&to.nics).for_each(|(own, to)| own.link = to.link);
        self.adjust_run();
    }

    /// Changes its static routes to those of a plan with the same NICs: in the table of the current run, and for launches in
    /// progress and later ones.
    ///
    /// # Errors
    /// The table has no room; then nothing is changed.
    pub(crate) fn change_routes(&mut self, to: &Router) -> Result<()> {
        if let Some(run) = &self.run {
            routes::change(run.router.router.table(), &self.plan, &route_changes(&self.plan, to))
                .with_context(|| format!("router {}", self.plan.name))?;
        }
        self.plan.routes.clone_from(&to.routes);
        Ok(())
    }

    /// Applies the settings to the current run.
    fn adjust_run(&mut self) {
        let Some(run) = &mut self.run else { return };
        run.router.limit(self.plan.limit);
        run.router.spin(self.plan.spin);
        for (number, (nic, outlet)) in self.plan.nics.iter().zip(&self.outlets).enumerate() {
            run.router.plug(number, !nic.is_pulled(), outlet.link().unwrap_or(true));
        }
    }

    /// Applies a changed restart policy to a router that has failed, or waits to be restarted.
    fn follow_restart(&mut self, restart: Restart, now: Instant) {
        if self.is_active() {
            return;
        }
        match (restart, self.idle_state) {
            (Restart::Always, State::Failed) => {
                (self.idle_state, self.since, self.due) = (State::Waiting, now, Some(now));
            }
            (Restart::Never, State::Waiting) => {
                (self.idle_state, self.since, self.due) = (State::Failed, now, None);
            }
            _ => {}
        }
    }

    /// Restarts a failed router whose pause is over, once its peers have answered or their time is up. Does
    /// not wait for the router to come up; that is checked later.
    pub(crate) fn retry(&mut self, context: &mut RunContext) {
        let is_early = context.now < *self.peers_awaited.get_or_insert(context.now) + PEER_PATIENCE;
        if is_early && self.outlets.iter().any(|outlet| outlet.awaits_peer()) {
            return;
        }
        self.due = None;
        if let Err(error) = self.launch_anew(context) {
            self.fail(Kind::Failed, format!("cannot be started again: {error:#}"), context);
        }
    }

    /// Returns true if its pause is over and it can be restarted.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let is_free = !self.is_active() && !self.suspended && !self.is_leaving();
        is_free && self.due.is_some_and(|due| due <= now)
    }

    /// Reports that it has come up again.
    pub(crate) fn is_up_again(&mut self, context: &mut RunContext) {
        self.since = context.now;
        context.record_event(&self.plan.name, Kind::Restarted, format!("{} times so far", self.restarts()));
    }

    pub(crate) fn state(&self) -> State {
        match &self.run {
            Some(run) if run.up => State::Running,
            _ => self.idle_state,
        }
    }

    pub(crate) fn status(&self) -> RouterStatus {
        let running = self.run.as_ref().map(|run| &run.router);
        let threads = running.map_or_else(Vec::new, |running| {
            let io = running.io_threads().iter().map(|io| io.thread());
            let all = running.router.threads().iter().chain(io);
            let all = all.map(|thread| (thread.name().to_owned(), thread.tid()));
            let kernel = running.kernel_nics().flat_map(|nic| nic.threads());
            all.chain(kernel.map(|(name, id)| (name.to_owned(), id))).collect()
        });
        RouterStatus {
            name: self.plan.name.clone(),
            engine: self.plan.engine.unwrap_or(Engine::Kvm),
            state: self.state(),
            since: self.since,
            restarts: self.restarts(),
            reason: self.reason.clone(),
            pid: running.and_then(|running| running.router.pid()),
            member: self.outlets.first().and_then(|outlet| outlet.member_state()),
            threads,
        }
    }
}

impl RunContext {
    /// Records an event of a router.
    pub(crate) fn record_event(&mut self, router: &str, kind: Kind, message: impl Into<String>) {
        self.record_event_about(About::Router, router, kind, message);
    }

    /// Records an event of the part of a router that `about` names.
    pub(crate) fn record_event_about(
        &mut self,
        about: About,
        router: &str,
        kind: Kind,
        message: impl Into<String>,
    ) {
        self.events.push(Event { router: router.to_owned(), kind, about, message: message.into() });
    }
}
