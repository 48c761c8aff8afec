//! The place of one router: what is to run there, what runs there, and what became of it.

mod launch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::Sharing;
use bootinfo::Role;
use config::{Engine, Restart, Router};
use sandbox::Confinement;
use switch::Switch;
use telemetry::Kind;

use super::ground::Grounds;
use super::running::RunningRouter;
use super::status::{About, Event, RouterStatus, State};
use crate::claims::Claims;
use crate::counts::Counts;
use crate::guest::{Duty, Guest};
use crate::look_after::BackOff;
use crate::supplies::Supplies;
use crate::take_down::TakeDown;
use crate::task::Task;
use crate::tracing::TapBoard;
use crate::watch::{Rules, Watch};
use crate::wiring::Outlet;

/// How long a router that starts waits for a peer that is to be handed its rings, so that its driver is offered what that can do.
pub(crate) const PEER_PATIENCE: Duration = Duration::from_millis(500);
/// How long it may take to build a machine, or to launch a router: as long as a firmware may take to come up
/// ([`Rules::boot`]). What the kernel does for it takes milliseconds, and waits for other guests on a host that has no time.
pub(crate) const LAUNCH_LIMIT: Duration = Duration::from_secs(30);

/// What the slots of an instance have in common.
pub(crate) struct Yard {
    pub(crate) grounds: Grounds,
    pub(crate) confinement: Confinement,
    /// Where one can look at frames.
    pub(crate) board: TapBoard,
    /// Where what counts is noted.
    pub(crate) counts: Counts,
    pub(crate) rules: Rules,
    /// Threads that are to sleep as soon as they have nothing to do, by name.
    pub(crate) sharing: BTreeMap<String, Sharing>,
    /// The time of the last look ([`crate::Instance::look_after`]): nobody here has a clock of their own.
    pub(crate) now: Instant,
    /// What happened and was not yet told.
    pub(crate) news: Vec<Event>,
    /// NICs of routers in processes of their own whose cable has changed, which was not yet told.
    pub(crate) plugged: Vec<String>,
}

/// A router, and what its NICs are plugged into.
pub(crate) struct Plugged {
    pub(crate) plan: Router,
    pub(crate) outlets: Vec<Arc<Outlet>>,
}

impl Plugged {
    /// Finds what the NICs are plugged into.
    pub(crate) fn find(plan: &Router, find: impl FnMut(&config::Nic) -> Result<Arc<Outlet>>) -> Result<Self> {
        let outlets = plan.nics.iter().map(find).collect::<Result<Vec<_>>>()?;
        Ok(Self { plan: plan.clone(), outlets })
    }

    /// What builds the router's machine, as [`builder`].
    pub(crate) fn builder(
        &self,
        grounds: &mut Grounds,
    ) -> Result<impl FnOnce() -> Result<Guest> + Send + use<>> {
        builder(&self.plan, &self.outlets, grounds)
    }
}

/// What a router is made of, before it runs.
pub(crate) struct Parts {
    pub(crate) plugged: Plugged,
    pub(crate) guest: Guest,
}

/// Finds what the NICs of a plan's router are plugged into.
pub(crate) fn outlet_finder<'f>(
    router: &'f Router,
    switches: &'f [Arc<Switch>],
    held: &'f [Arc<Outlet>],
    supplies: &'f mut Supplies,
) -> impl FnMut(&config::Nic) -> Result<Arc<Outlet>> + 'f {
    move |nic| {
        Outlet::find((router, nic), switches, supplies, held)
            .with_context(|| format!("router {}, NIC {}", router.name, nic.name))
    }
}

/// What builds a router's machine, whose NICs offer what their peers can do that have answered by now; nothing runs yet. For a
/// thread of its own: the kernel may have it wait.
fn builder(
    plan: &Router,
    outlets: &[Arc<Outlet>],
    grounds: &mut Grounds,
) -> Result<impl FnOnce() -> Result<Guest> + Send + use<>> {
    let role = match plan.role {
        config::Role::Router => Role::Router,
        config::Role::Echo => Role::Echo,
        config::Role::Hostile(_) => Role::Hostile,
    };
    let (plan, outlets, ground) = (plan.clone(), outlets.to_vec(), grounds.of(plan)?);
    Ok(move || Guest::with_outlets(&plan, Duty { role, ..Duty::default() }, &outlets, &ground))
}

/// A router that runs, and who watches it.
pub(crate) struct Run {
    pub(crate) router: RunningRouter,
    pub(crate) watch: Watch,
    /// Stations that claim its addresses.
    pub(crate) claims: Claims,
    /// Whether it has come up.
    pub(crate) up: bool,
    pub(crate) started: Instant,
}

/// What a router was before somebody started it.
pub(crate) struct Rest {
    state: State,
    due: Option<Instant>,
}

/// The place of one router.
pub(crate) struct Slot {
    pub(crate) plan: Router,
    outlets: Vec<Arc<Outlet>>,
    pub(crate) run: Option<Run>,
    /// What launches it. It runs when that is done.
    launch: Option<Task<Result<RunningRouter>>>,
    /// Whether somebody waits until it is up, and so judges it.
    awaited: bool,
    /// Why it could not be launched, for whoever waits for it.
    refusal: Option<anyhow::Error>,
    /// What it is while it does not run.
    rest: State,
    /// When it came into its state.
    since: Instant,
    /// How often it was started, here or in the place that this one has taken.
    starts: u64,
    reason: Option<String>,
    back_off: BackOff,
    /// When it is started again.
    due: Option<Instant>,
    /// What ran here. Until it is down nothing else runs.
    leaving: TakeDown,
    /// Whether it is out of service while somebody changes what runs: it is not started by itself.
    suspended: bool,
    /// Since when it waits for its peers before it is started again.
    peers_awaited: Option<Instant>,
}

impl Slot {
    /// A place for a router that does not run yet; and its guest.
    pub(crate) fn new(parts: Parts, now: Instant) -> (Self, Guest) {
        (Self::at_rest(parts.plugged, now), parts.guest)
    }

    /// A place for a router that is stopped.
    pub(crate) fn at_rest(plugged: Plugged, now: Instant) -> Self {
        let Plugged { plan, outlets } = plugged;
        Self {
            plan,
            outlets,
            run: None,
            launch: None,
            awaited: false,
            refusal: None,
            rest: State::Stopped,
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

    /// A place for what takes this one's place: its past goes on.
    pub(crate) fn succeeded_by(&self, parts: Parts, now: Instant) -> (Self, Guest) {
        let (slot, guest) = Self::new(parts, now);
        (Self { starts: self.starts, reason: self.reason.clone(), ..slot }, guest)
    }

    /// What its NICs are plugged into.
    pub(crate) fn outlets(&self) -> &[Arc<Outlet>] {
        &self.outlets
    }

    /// How often it was started again.
    fn restarts(&self) -> u64 {
        self.starts.saturating_sub(1)
    }

    /// Somebody starts a router that does not run: its failures are forgotten. What it was is for [`Slot::was_started`].
    pub(crate) fn forget_failures(&mut self) -> Rest {
        self.back_off.forget();
        // What is being started again is due.
        let due = self.due.take().or_else(|| self.launch.as_ref().map(|_| self.since));
        Rest { state: self.rest, due }
    }

    /// It is up, or could not be started: then it is as before.
    pub(crate) fn was_started(&mut self, started: Result<()>, before: &Rest, yard: &mut Yard) -> Result<()> {
        if let Err(error) = started {
            // What waits to be started again goes on waiting.
            self.take_down(before.state, yard.now);
            self.due = before.due;
            return Err(error);
        }
        yard.tell(&self.plan.name, Kind::Started, "on demand");
        Ok(())
    }

    /// Stops a router on demand.
    pub(crate) fn stop(&mut self, yard: &mut Yard) {
        if !self.is_active() && self.rest == State::Stopped {
            return;
        }
        self.take_down(State::Stopped, yard.now);
        yard.tell(&self.plan.name, Kind::Stopped, "on demand");
    }

    /// Its guest has turned itself off: it stays so until somebody starts it.
    pub(crate) fn has_turned_off(&mut self, yard: &mut Yard) {
        self.take_down(State::Stopped, yard.now);
        yard.tell(&self.plan.name, Kind::Stopped, "its guest has turned itself off");
    }

    /// Takes down what runs, and nothing else. It is beside everything else that it goes down ([`Slot::is_leaving`]).
    pub(crate) fn take_down(&mut self, rest: State, now: Instant) {
        self.end_run(now);
        self.rest = rest;
        self.since = now;
        self.peers_awaited = None;
        if rest != State::Waiting {
            self.due = None;
        }
    }

    /// Begins to take down what runs, or is being launched, if something does.
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

    /// Whether what ran here is not down yet.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.is_over()
    }

    /// Looks at what ran here and is not down yet.
    pub(crate) fn look_at_take_down(&mut self, yard: &mut Yard) {
        if let Some(line) = self.leaving.look(yard.now) {
            yard.tell(&self.plan.name, Kind::Notice, line);
        }
    }

    /// Takes down what runs, until [`Slot::resume`]; whether something did.
    pub(crate) fn suspend(&mut self, now: Instant) -> bool {
        self.suspended = true;
        let ran = self.end_run(now);
        if ran {
            self.rest = State::Stopped;
        }
        ran
    }

    /// It is in service again.
    pub(crate) fn resume(&mut self) {
        self.suspended = false;
    }

    /// Takes it down with all that it is plugged into: what ran, and what ran before that and is not down yet.
    pub(crate) fn into_take_downs(mut self, now: Instant) -> [TakeDown; 2] {
        let (before, name) = (std::mem::take(&mut self.leaving), self.plan.name.clone());
        let runs = (self.run.take().map(|run| run.router), self.launch.take());
        // In this order: what runs, and then what that is plugged into.
        [before, TakeDown::begin(&name, (runs, self), now)]
    }

    /// It cannot go on, or may not: takes it down and does what its restart policy says.
    pub(crate) fn fail(&mut self, kind: Kind, line: String, yard: &mut Yard) {
        let ran =
            self.run.as_ref().map_or(Duration::ZERO, |run| yard.now.saturating_duration_since(run.started));
        self.take_down(State::Failed, yard.now);
        yard.tell(&self.plan.name, kind, &line);
        self.reason = Some(line);
        if self.plan.restart == Restart::Always {
            let pause = self.back_off.failed(ran);
            self.rest = State::Waiting;
            self.due = Some(self.since + pause);
            yard.tell(&self.plan.name, Kind::Restarting, format!("in {:.1} s", pause.as_secs_f64()));
        }
    }

    /// Takes over the settings of a plan that can be changed while it runs, from now on and whenever it is started.
    pub(crate) fn adjust(&mut self, to: &Router, now: Instant) {
        if self.plan.restart != to.restart {
            self.follow_restart(to.restart, now);
        }
        (self.plan.restart, self.plan.limit, self.plan.spin) = (to.restart, to.limit, to.spin);
        self.plan.nics.iter_mut().zip(&to.nics).for_each(|(own, to)| own.link = to.link);
        self.adjust_run();
    }

    /// Has what runs follow the settings.
    fn adjust_run(&mut self) {
        let Some(run) = &mut self.run else { return };
        run.router.limit(self.plan.limit);
        run.router.spin(self.plan.spin);
        for (number, (nic, outlet)) in self.plan.nics.iter().zip(&self.outlets).enumerate() {
            run.router.plug(number, !nic.is_pulled(), outlet.link().unwrap_or(true));
        }
    }

    /// Another restart policy: one that has failed, or waits, follows it.
    fn follow_restart(&mut self, restart: Restart, now: Instant) {
        if self.is_active() {
            return;
        }
        match (restart, self.rest) {
            (Restart::Always, State::Failed) => {
                (self.rest, self.since, self.due) = (State::Waiting, now, Some(now));
            }
            (Restart::Never, State::Waiting) => {
                (self.rest, self.since, self.due) = (State::Failed, now, None);
            }
            _ => {}
        }
    }

    /// Starts a failed router whose pause is over, as soon as its peers have answered, or have had their time. Nobody waits for it:
    /// whether it comes up is seen later.
    pub(crate) fn retry(&mut self, yard: &mut Yard) {
        let is_early = yard.now < *self.peers_awaited.get_or_insert(yard.now) + PEER_PATIENCE;
        if is_early && self.outlets.iter().any(|outlet| outlet.awaits_peer()) {
            return;
        }
        self.due = None;
        if let Err(error) = self.launch_anew(yard) {
            self.fail(Kind::Failed, format!("cannot be started again: {error:#}"), yard);
        }
    }

    /// Whether its pause is over.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let is_free = !self.is_active() && !self.suspended && !self.is_leaving();
        is_free && self.due.is_some_and(|due| due <= now)
    }

    /// It has come up again.
    pub(crate) fn is_up_again(&mut self, yard: &mut Yard) {
        self.since = yard.now;
        yard.tell(&self.plan.name, Kind::Restarted, format!("{} times so far", self.restarts()));
    }

    pub(crate) fn state(&self) -> State {
        match &self.run {
            Some(run) if run.up => State::Running,
            _ => self.rest,
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
            threads,
        }
    }
}

impl Yard {
    /// Notes what happened to a router.
    pub(crate) fn tell(&mut self, router: &str, kind: Kind, message: impl Into<String>) {
        self.tell_about(About::Router, router, kind, message);
    }

    /// Notes what happened to what of a router `about` says.
    pub(crate) fn tell_about(&mut self, about: About, router: &str, kind: Kind, message: impl Into<String>) {
        self.news.push(Event { router: router.to_owned(), kind, about, message: message.into() });
    }
}
