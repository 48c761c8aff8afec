//! Launches a router as a task on a thread of its own: the kernel, a busy CPU or a starting process may block
//! that thread, but not the caller.

use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use telemetry::Kind;

use super::parts::builder;
use super::{LAUNCH_LIMIT, Run, RunContext, Slot};
use crate::apply::difference::route_changes;
use crate::arp_conflicts::ArpConflicts;
use crate::guest::Guest;
use crate::instance::RunningRouter;
use crate::instance::State;
use crate::next_hops::NextHops;
use crate::observed_time::ObservedTime;
use crate::routes;
use crate::shortages::Shortages;
use crate::take_down::TakeDown;
use crate::task::{Progress, Task};
use crate::watch::Watch;

impl Slot {
    /// Begins to launch a guest in this slot ([`Slot::look_at_launch`]).
    pub(crate) fn launch(&mut self, guest: Guest, context: &RunContext) -> Result<()> {
        self.begin_launch(|| Ok(guest), context)
    }

    /// Begins to build its guest and to launch it.
    pub(crate) fn launch_anew(&mut self, context: &mut RunContext) -> Result<()> {
        let known = (&context.learning, &context.tables);
        let build = builder(&self.plan, &self.outlets, &mut context.backends, known)?;
        self.begin_launch(build, context)
    }

    fn begin_launch(
        &mut self,
        guest: impl FnOnce() -> Result<Guest> + Send + 'static,
        context: &RunContext,
    ) -> Result<()> {
        let (outlets, board, confinement) =
            (self.outlets.clone(), context.board.clone(), context.confinement);
        let work = move || RunningRouter::launch(guest()?, &outlets, &board, confinement);
        let name = format!("{}/launch", self.plan.name);
        let task =
            Task::begin(name, LAUNCH_LIMIT, work, context.now).context("no thread can be had for it")?;
        self.launch = Some(task);
        self.idle_state = State::Waiting;
        (self.since, self.due, self.peers_awaited) = (context.now, None, None);
        Ok(())
    }

    /// Returns true while it is being launched.
    pub(crate) fn is_launching(&self) -> bool {
        self.launch.is_some()
    }

    /// Begins the run once the launch is done; returns true if it began during this call. A failure is left
    /// for the caller that waits for the router, or handled as if the router had failed while it ran.
    pub(crate) fn look_at_launch(&mut self, context: &mut RunContext) -> bool {
        let Some(launch) = self.launch.take() else { return false };
        let launched = match launch.look(context.now) {
            Progress::Going(launch) => {
                self.launch = Some(launch);
                return false;
            }
            Progress::Done(launched) => launched,
            Progress::Abandoned(why) => Err(anyhow!("router {}: its launch {why}", self.plan.name)),
        };
        let launched = launched.and_then(|router| self.with_present_routes(router, context.now));
        let is_launched = launched.is_ok();
        match launched {
            Ok(router) => self.set_running(router, context),
            Err(error) if self.awaited => self.refusal = Some(error),
            Err(error) => self.fail(Kind::Failed, format!("cannot be started again: {error:#}"), context),
        }
        is_launched
    }

    /// Gives a launched router the static routes that were changed since its launch began.
    ///
    /// # Errors
    /// Its table has no room for them; it is then taken down.
    fn with_present_routes(&mut self, router: RunningRouter, now: Instant) -> Result<RunningRouter> {
        let guest = &router.router;
        let changed = routes::change(guest.table(), &self.plan, &route_changes(guest.plan(), &self.plan));
        if let Err(error) = changed {
            self.leaving = TakeDown::begin(&self.plan.name, router, now);
            return Err(error.context(format!("router {}", self.plan.name)));
        }
        Ok(router)
    }

    /// Begins to watch a launched router, and applies the current settings, which may have changed since the
    /// launch began.
    fn set_running(&mut self, mut router: RunningRouter, context: &RunContext) {
        router.count(&context.counts);
        router.share(&context.sharing, self.plan.spin);
        let (watch, conflicts) = (Watch::new(context.rules), ArpConflicts::default());
        let (shortages, next_hops) = (Shortages::default(), NextHops::default());
        let (up, started) = (false, context.now);
        let waited = ObservedTime::since(started);
        self.run = Some(Run { router, watch, conflicts, shortages, next_hops, up, started, waited });
        self.adjust_run();
        self.starts += 1;
        self.since = context.now;
    }

    /// Returns true if it runs or is being launched.
    pub(crate) fn is_active(&self) -> bool {
        self.run.is_some() || self.is_launching()
    }

    /// Sets whether a caller waits for the router to come up, and so judges it.
    pub(crate) fn set_awaited(&mut self, awaited: bool) {
        self.awaited = awaited && self.is_active();
        self.refusal = None;
    }

    /// Returns true if a caller waits for the router to come up.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Returns true unless a launch is still in progress.
    ///
    /// # Errors
    /// The launch failed.
    pub(crate) fn is_launched(&mut self) -> Result<bool> {
        self.refusal.take().map_or_else(|| Ok(!self.is_launching()), Err)
    }

    /// Returns true once the router that a caller has been waiting for since `since` is up; one that does not
    /// come up in observed time is taken down.
    ///
    /// # Errors
    /// It does not come up.
    pub(crate) fn is_up_after(&mut self, since: Instant, now: Instant) -> Result<bool> {
        let is_launched = self.is_launched()?;
        let Some(run) = &mut self.run else { return Ok(is_launched) };
        if run.router.router.is_ready() {
            run.comes_up();
            self.awaited = false;
            self.since = now;
            return Ok(true);
        }
        run.waited.forget_before(since);
        let waited = run.waited.look(now);
        if let Some(line) = run.router.fault().or_else(|| run.router.router.late_boot(waited)) {
            self.take_down(State::Stopped, now);
            bail!("router {}: {line}", self.plan.name);
        }
        Ok(false)
    }
}

impl Run {
    /// Notes that its guest serves its NICs.
    pub(crate) fn comes_up(&mut self) {
        self.up = true;
        self.router.router.steps_mut().end("boot");
    }
}
