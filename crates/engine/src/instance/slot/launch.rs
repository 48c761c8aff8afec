//! A router is launched by a task: the kernel, a CPU that is busy or a process that starts may have that wait, and nobody else.

use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use telemetry::Kind;

use super::{LAUNCH_LIMIT, Run, Slot, Yard, builder};
use crate::claims::Claims;
use crate::guest::Guest;
use crate::instance::RunningRouter;
use crate::instance::State;
use crate::task::{Progress, Task};
use crate::watch::{Rules, Watch};

impl Slot {
    /// Begins to let a guest run here ([`Slot::look_at_launch`]).
    pub(crate) fn launch(&mut self, guest: Guest, yard: &Yard) -> Result<()> {
        self.begin_launch(|| Ok(guest), yard)
    }

    /// Begins to build its guest and to let it run.
    pub(crate) fn launch_anew(&mut self, yard: &mut Yard) -> Result<()> {
        let build = builder(&self.plan, &self.outlets, &mut yard.grounds)?;
        self.begin_launch(build, yard)
    }

    fn begin_launch(
        &mut self,
        guest: impl FnOnce() -> Result<Guest> + Send + 'static,
        yard: &Yard,
    ) -> Result<()> {
        let (outlets, board, confinement) = (self.outlets.clone(), yard.board.clone(), yard.confinement);
        let work = move || RunningRouter::launch(guest()?, &outlets, &board, confinement);
        let name = format!("{}/launch", self.plan.name);
        let task = Task::begin(name, LAUNCH_LIMIT, work, yard.now).context("no thread can be had for it")?;
        self.launch = Some(task);
        self.rest = State::Waiting;
        (self.since, self.due, self.peers_awaited) = (yard.now, None, None);
        Ok(())
    }

    /// Whether it is being launched.
    pub(crate) fn is_launching(&self) -> bool {
        self.launch.is_some()
    }

    /// Lets it run as soon as it is launched; whether it runs since this look. What fails is for whoever waits for it, or as if it
    /// had failed while it ran.
    pub(crate) fn look_at_launch(&mut self, yard: &mut Yard) -> bool {
        let Some(launch) = self.launch.take() else { return false };
        let launched = match launch.look(yard.now) {
            Progress::Going(launch) => {
                self.launch = Some(launch);
                return false;
            }
            Progress::Done(launched) => launched,
            Progress::Lost(why) => Err(anyhow!("router {}: its launch {why}", self.plan.name)),
        };
        let is_launched = launched.is_ok();
        match launched {
            Ok(router) => self.set_running(router, yard),
            Err(error) if self.awaited => self.refusal = Some(error),
            Err(error) => self.fail(Kind::Failed, format!("cannot be started again: {error:#}"), yard),
        }
        is_launched
    }

    /// Begins to watch what has been launched. Settings may have changed meanwhile.
    fn set_running(&mut self, mut router: RunningRouter, yard: &Yard) {
        router.count(&yard.counts);
        router.share(&yard.sharing, self.plan.spin);
        let (watch, claims) = (Watch::new(yard.rules), Claims::default());
        self.run = Some(Run { router, watch, claims, up: false, started: yard.now });
        self.adjust_run();
        self.starts += 1;
        self.since = yard.now;
    }

    /// Whether it runs or is being launched.
    pub(crate) fn is_active(&self) -> bool {
        self.run.is_some() || self.is_launching()
    }

    /// Somebody waits until it is up, and judges whether it comes up; or nobody does any more.
    pub(crate) fn set_awaited(&mut self, awaited: bool) {
        self.awaited = awaited && self.is_active();
        self.refusal = None;
    }

    /// Whether somebody waits for that.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Whether it is launched, as far as it is to run.
    ///
    /// # Errors
    /// It could not be.
    pub(crate) fn is_launched(&mut self) -> Result<bool> {
        self.refusal.take().map_or_else(|| Ok(!self.is_launching()), Err)
    }

    /// Whether the router is up that somebody waits for since then; one that does not come up is taken down.
    ///
    /// # Errors
    /// It does not come up.
    pub(crate) fn is_up_after(&mut self, since: Instant, now: Instant) -> Result<bool> {
        let is_launched = self.is_launched()?;
        let Some(run) = &mut self.run else { return Ok(is_launched) };
        if run.router.router.is_ready() {
            run.up = true;
            self.awaited = false;
            self.since = now;
            return Ok(true);
        }
        let waited = now.saturating_duration_since(since.max(run.started));
        if let Some(line) = run.router.fault().or_else(|| Rules::default().late_boot(waited)) {
            self.take_down(State::Stopped, now);
            bail!("router {}: {line}", self.plan.name);
        }
        Ok(false)
    }
}
