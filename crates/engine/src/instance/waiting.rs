//! Waiting for routers and peers on somebody's behalf. All others are looked after meanwhile, as often as ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Instance;
use super::slot::{LAUNCH_LIMIT, PEER_PATIENCE, Plugged, Slot};
use crate::guest::Guest;
use crate::relay::Relay;
use crate::take_down::TakeDown;
use crate::task::{Progress, Task};
use crate::wiring::Outlet;

/// Between two looks at what is waited for.
const POLL: Duration = Duration::from_micros(100);
/// Between two looks at all others.
const LOOK: Duration = Duration::from_millis(100);

/// The time while somebody waits.
pub(super) struct Wait {
    asked: Instant,
    /// The instance's time at that moment.
    from: Instant,
    /// When all others were looked at last.
    looked: Instant,
}

impl Wait {
    fn begin(from: Instant) -> Self {
        Self { asked: Instant::now(), from, looked: from }
    }

    /// What time it is by the instance's clock, which goes on by what is waited.
    pub(super) fn now(&self) -> Instant {
        self.from + self.asked.elapsed()
    }
}

impl Instance {
    /// Has somebody wait.
    pub(super) fn waits<T>(&mut self, body: impl FnOnce(&mut Self, &mut Wait) -> T) -> T {
        let mut wait = Wait::begin(self.yard.now);
        let outcome = body(self, &mut wait);
        self.yard.now = wait.now();
        outcome
    }

    /// Lets a moment pass.
    pub(super) fn pass(&mut self, wait: &mut Wait) {
        // A task that is done wakes it.
        std::thread::park_timeout(POLL);
        let now = wait.now();
        self.yard.now = now;
        self.look_at_launches();
        if now - wait.looked >= LOOK {
            wait.looked = now;
            self.look(now);
        }
    }

    /// Lets time pass while this holds, at the time that it is told.
    fn wait_while(&mut self, mut holds: impl FnMut(&Self, Instant) -> bool) {
        self.waits(|instance, wait| {
            while holds(instance, wait.now()) {
                instance.pass(wait);
            }
        });
    }

    /// Waits until nothing of these routers is being taken down any more.
    pub(crate) fn wait_until_down(&mut self, is_meant: impl Fn(&Slot) -> bool) {
        self.wait_while(|instance, _| instance.slots.iter().any(|slot| is_meant(slot) && slot.is_leaving()));
    }

    /// Waits until the ways are closed of routers in processes of their own that are to be.
    pub(crate) fn wait_until_closed(&mut self) {
        self.wait_while(|instance, _| instance.relays.iter().any(Relay::is_leaving));
    }

    /// Waits until the peers at these have answered, or have had their time.
    pub(crate) fn wait_for_peers<'o>(&mut self, outlets: impl Iterator<Item = &'o Arc<Outlet>> + Clone) {
        let end = self.yard.now + PEER_PATIENCE;
        self.wait_while(|_, now| now < end && outlets.clone().any(|outlet| outlet.awaits_peer()));
    }

    /// Drops what is not needed any more, which may have to wait for threads and programs, and waits until that is done.
    pub(crate) fn discard(&mut self, what: impl Send + 'static) {
        let mut take_down = TakeDown::begin("ringroad", what, self.yard.now);
        // Nobody is told that something is left behind: it is of no router that is there.
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
        let build = plugged.builder(&mut self.yard.grounds)?;
        let what = format!("router {name}: the building of its machine");
        self.beside((format!("{name}/build"), &what), build)?
    }

    /// Has a thread of its own do what may have to wait, and waits until that is done. `name` is the thread's, `what` says what it
    /// does.
    ///
    /// # Errors
    /// One line: no thread can be had, or it takes too long.
    pub(crate) fn beside<T: Send + 'static>(
        &mut self,
        (name, what): (String, &str),
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let begun = Task::begin(name, LAUNCH_LIMIT, work, self.yard.now);
        let mut task = begun.with_context(|| format!("{what}: no thread can be had for that"))?;
        self.waits(|instance, wait| {
            loop {
                task = match task.look(wait.now()) {
                    Progress::Going(task) => task,
                    Progress::Done(done) => return Ok(done),
                    Progress::Lost(why) => bail!("{what} {why}"),
                };
                instance.pass(wait);
            }
        })
    }
}

/// Waits for the end of everything, with nothing else to look after. What takes too long is left behind.
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
