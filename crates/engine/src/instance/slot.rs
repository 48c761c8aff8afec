//! The place of one router: what is to run there, what runs there, and what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api::Sharing;
use bootinfo::Role;
use config::{Engine, Plan, Rate, Restart, Router};
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
use crate::tracing::TapBoard;
use crate::watch::{Rules, Watch};
use crate::wiring::Outlet;

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
}

/// What a router is made of, before it runs.
pub(crate) struct Parts {
    pub(crate) plan: Router,
    pub(crate) outlets: Vec<Arc<Outlet>>,
    pub(crate) guest: Guest,
}

impl Parts {
    /// Builds a router's machine and finds what its NICs are plugged into; nothing runs yet.
    pub(crate) fn build(
        plan: &Router,
        grounds: &mut Grounds,
        find: impl FnMut(&config::Nic) -> Result<Arc<Outlet>>,
    ) -> Result<Self> {
        let outlets = plan.nics.iter().map(find).collect::<Result<Vec<_>>>()?;
        let guest = guest(plan, &outlets, grounds)?;
        Ok(Self { plan: plan.clone(), outlets, guest })
    }
}

/// Finds what the NICs of a plan's router are plugged into.
pub(crate) fn outlet_finder<'f>(
    plan: &'f Plan,
    router: &'f Router,
    switches: &'f [Arc<Switch>],
    held: &'f [Arc<Outlet>],
    supplies: &'f mut Supplies,
) -> impl FnMut(&config::Nic) -> Result<Arc<Outlet>> + 'f {
    move |nic| {
        Outlet::find((plan, router, nic), switches, supplies, held)
            .with_context(|| format!("router {}, NIC {}", router.name, nic.name))
    }
}

fn guest(plan: &Router, outlets: &[Arc<Outlet>], grounds: &mut Grounds) -> Result<Guest> {
    let role = match plan.role {
        config::Role::Router => Role::Router,
        config::Role::Echo => Role::Echo,
        config::Role::Hostile(_) => Role::Hostile,
    };
    let peers: Vec<_> = outlets.iter().map(|outlet| outlet.hands()).collect();
    Guest::with_peers(plan, Duty { role, ..Duty::default() }, &peers, &grounds.of(plan)?)
}

/// A router that runs, and who watches it.
pub(crate) struct Run {
    pub(crate) router: RunningRouter,
    pub(crate) watch: Watch,
    /// Stations that claim its addresses.
    pub(crate) claims: Claims,
    /// Whether it has come up.
    pub(crate) up: bool,
    /// Whether somebody waits for that, and so judges it.
    pub(crate) awaited: bool,
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
}

impl Slot {
    /// A place for a router that does not run yet; and its guest.
    pub(crate) fn new(parts: Parts, now: Instant) -> (Self, Guest) {
        let slot = Self {
            plan: parts.plan,
            outlets: parts.outlets,
            run: None,
            rest: State::Stopped,
            since: now,
            starts: 0,
            reason: None,
            back_off: BackOff::default(),
            due: None,
        };
        (slot, parts.guest)
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

    /// Lets a guest run here.
    pub(crate) fn launch(&mut self, guest: Guest, yard: &Yard) -> Result<()> {
        let mut router = RunningRouter::launch(guest, &self.outlets, &yard.board, yard.confinement)?;
        router.count(&yard.counts);
        router.share(&yard.sharing, self.plan.spin);
        let watch = Watch::new(yard.rules);
        let (claims, up, awaited, started) = (Claims::default(), false, false, yard.now);
        self.run = Some(Run { router, watch, claims, up, awaited, started });
        self.rest = State::Waiting;
        self.starts += 1;
        (self.since, self.due) = (yard.now, None);
        Ok(())
    }

    /// How often it was started again.
    fn restarts(&self) -> u64 {
        self.starts.saturating_sub(1)
    }

    /// Whether the router is up that somebody has waited for so long; one that does not come up is taken down.
    ///
    /// # Errors
    /// It does not come up.
    pub(crate) fn is_up_after(&mut self, waited: Duration, now: Instant) -> Result<bool> {
        let Some(run) = &mut self.run else { return Ok(true) };
        if run.router.router.is_ready() {
            (run.up, run.awaited) = (true, false);
            self.since = now;
            return Ok(true);
        }
        let late = || Rules::default().late_boot(waited, run.router.router.most_spent());
        if let Some(line) = run.router.fault().or_else(late) {
            self.take_down(State::Stopped, now);
            bail!("router {}: {line}", self.plan.name);
        }
        Ok(false)
    }

    /// Builds its guest and lets it run.
    pub(crate) fn launch_anew(&mut self, yard: &mut Yard) -> Result<()> {
        guest(&self.plan, &self.outlets, &mut yard.grounds).and_then(|guest| self.launch(guest, yard))
    }

    /// Launches a router that does not run, on demand: its failures are forgotten. What it was is for [`Slot::was_started`].
    pub(crate) fn start(&mut self, yard: &mut Yard) -> (Result<()>, Rest) {
        self.back_off.forget();
        let rest = Rest { state: self.rest, due: self.due };
        (self.launch_anew(yard), rest)
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
        if self.run.is_none() && self.rest == State::Stopped {
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

    /// Takes down what runs, and nothing else.
    pub(crate) fn take_down(&mut self, rest: State, now: Instant) {
        self.run = None;
        self.rest = rest;
        self.since = now;
        if rest != State::Waiting {
            self.due = None;
        }
    }

    /// Takes down what runs, for a while; whether something did.
    pub(crate) fn suspend(&mut self) -> bool {
        let ran = self.run.take().is_some();
        if ran {
            self.rest = State::Stopped;
        }
        ran
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

    /// Lets so many packets a second in, from now on and whenever it is started.
    pub(crate) fn set_limit(&mut self, limit: Option<Rate>) {
        self.plan.limit = limit;
        if let Some(run) = &self.run {
            run.router.limit(limit);
        }
    }

    /// Another restart policy; one that has failed, or waits, follows it.
    pub(crate) fn set_restart(&mut self, restart: Restart, now: Instant) {
        self.plan.restart = restart;
        if self.run.is_some() {
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

    /// Starts a failed router whose pause is over. Nobody waits for it: whether it comes up is seen later.
    pub(crate) fn retry(&mut self, yard: &mut Yard) {
        self.due = None;
        if let Err(error) = self.launch_anew(yard) {
            self.fail(Kind::Failed, format!("cannot be started again: {error:#}"), yard);
        }
    }

    /// Whether its pause is over.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.run.is_none() && self.due.is_some_and(|due| due <= now)
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

    /// The same of that of a router.
    pub(crate) fn tell_about(&mut self, about: About, router: &str, kind: Kind, message: impl Into<String>) {
        self.news.push(Event { router: router.to_owned(), kind, about, message: message.into() });
    }
}
