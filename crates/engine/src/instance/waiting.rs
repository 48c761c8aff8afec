//! Waits for routers and peers on behalf of a caller. All other routers are looked after meanwhile, at the
//! usual interval.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Instance;
use super::slot::{LAUNCH_LIMIT, PEER_PATIENCE, Plugged, Slot};
use crate::guest::Guest;
use crate::isolated_paths::IsolatedRouterPaths;
use crate::take_down::TakeDown;
use crate::task::{Progress, Task};
use crate::wiring::Outlet;

/// Interval between checks of the awaited condition.
const POLL: Duration = Duration::from_micros(100);
/// What a member that leaves has for the frames in its rings.
const DRAIN: Duration = Duration::from_millis(50);
/// Interval between looks at all other routers.
const LOOK: Duration = Duration::from_millis(100);

/// Keeps the instance's time during a wait.
pub(super) struct Wait {
    asked: Instant,
    /// The instance's time when the wait began.
    from: Instant,
    /// When all other routers were last looked at.
    looked: Instant,
}

impl Wait {
    fn begin(from: Instant) -> Self {
        Self { asked: Instant::now(), from, looked: from }
    }

    /// Returns the time by the instance's clock, advanced by the time waited so far.
    pub(super) fn now(&self) -> Instant {
        self.from + self.asked.elapsed()
    }
}

impl Instance {
    /// Runs a body that waits; the instance's time is advanced by the time it takes.
    pub(super) fn waits<T>(&mut self, body: impl FnOnce(&mut Self, &mut Wait) -> T) -> T {
        let mut wait = Wait::begin(self.context.now);
        let outcome = body(self, &mut wait);
        self.context.now = wait.now();
        outcome
    }

    /// Sleeps for one polling interval, then checks launches and, when due, all routers.
    pub(super) fn poll_once(&mut self, wait: &mut Wait) {
        // A finished task unparks this thread.
        std::thread::park_timeout(POLL);
        let now = wait.now();
        self.context.now = now;
        self.look_at_launches();
        if now - wait.looked >= LOOK {
            wait.looked = now;
            self.look(now);
        }
    }

    /// Waits while a condition holds; the condition is given the current time.
    fn wait_while(&mut self, mut holds: impl FnMut(&Self, Instant) -> bool) {
        self.waits(|instance, wait| {
            while holds(instance, wait.now()) {
                instance.poll_once(wait);
            }
        });
    }

    /// Waits until none of these routers is being taken down any more.
    pub(crate) fn wait_until_down(&mut self, is_meant: impl Fn(&Slot) -> bool) {
        self.wait_while(|instance, _| instance.slots.iter().any(|slot| is_meant(slot) && slot.is_leaving()));
    }

    /// Has members of groups leave that a plan does not have any more: others own their queues from now on, and they have a moment for
    /// the frames that they have.
    pub(crate) fn part_with_members(&mut self, plan: &config::Plan) {
        if self.context.ensembles.leave(plan) {
            let end = self.context.now + DRAIN;
            self.wait_while(|_, now| now < end);
        }
    }

    /// Waits until the I/O paths of those isolated routers that are to be closed are closed.
    pub(crate) fn wait_until_closed(&mut self) {
        self.wait_while(|instance, _| instance.isolated_paths.iter().any(IsolatedRouterPaths::is_leaving));
    }

    /// Waits until the peers at these outlets have answered, or their time is up.
    pub(crate) fn wait_for_peers<'o>(&mut self, outlets: impl Iterator<Item = &'o Arc<Outlet>> + Clone) {
        let end = self.context.now + PEER_PATIENCE;
        self.wait_while(|_, now| now < end && outlets.clone().any(|outlet| outlet.awaits_peer()));
    }

    /// Drops something no longer needed, which may have to wait for threads and programs, and waits until
    /// that is done.
    pub(crate) fn discard(&mut self, what: impl Send + 'static) {
        let mut take_down = TakeDown::begin("ringroad", what, self.context.now);
        // A take-down that gets stuck is not reported: it belongs to no current router.
        self.wait_while(|_, now| take_down.look(now).is_none() && !take_down.is_over());
    }

    /// Waits until no router is being launched.
    pub(crate) fn wait_for_launches(&mut self) {
        self.wait_while(|instance, _| instance.slots.iter().any(Slot::is_launching));
    }

    /// Builds a router's machine, and waits until that is done.
    ///
    /// # Errors
    /// One line: what is refused, or that it takes too long.
    pub(crate) fn build(&mut self, plugged: &Plugged) -> Result<Guest> {
        let name = &plugged.plan.name;
        let context = &mut self.context;
        let build = plugged.builder(&mut context.backends, &context.learning, &context.tables)?;
        let what = format!("router {name}: the building of its machine");
        self.run_in_background((format!("{name}/build"), &what), build)?
    }

    /// Runs work that may block on a thread of its own, and waits until that is done. `name` is the name of
    /// the thread, `what` describes the work in error messages.
    ///
    /// # Errors
    /// One line: the thread cannot be started, or the work takes too long.
    pub(crate) fn run_in_background<T: Send + 'static>(
        &mut self,
        (name, what): (String, &str),
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let begun = Task::begin(name, LAUNCH_LIMIT, work, self.context.now);
        let mut task = begun.with_context(|| format!("{what}: no thread can be had for that"))?;
        self.waits(|instance, wait| {
            loop {
                task = match task.look(wait.now()) {
                    Progress::Going(task) => task,
                    Progress::Done(done) => return Ok(done),
                    Progress::Abandoned(why) => bail!("{what} {why}"),
                };
                instance.poll_once(wait);
            }
        })
    }
}

/// Waits for all take-downs, while nothing else needs to be looked after. One that takes too long is left
/// behind.
pub(super) fn finish(take_downs: Vec<TakeDown>, now: Instant) {
    let (mut left, wait) = (take_downs, Wait::begin(now));
    loop {
        left.retain_mut(|take_down| take_down.look(wait.now()).is_none() && !take_down.is_over());
        if left.is_empty() {
            return;
        }
        std::thread::sleep(POLL);
    }
}
