//! Waiting for routers and peers on somebody's behalf. All others are looked after meanwhile, as often as ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Instance;
use super::slot::{PEER_PATIENCE, Slot};
use crate::take_down::{Progress, TakeDown};
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
        std::thread::sleep(POLL);
        let now = wait.now();
        if now - wait.looked >= LOOK {
            wait.looked = now;
            self.look(now);
        }
    }

    /// Waits until nothing of these routers is being taken down any more.
    pub(crate) fn wait_until_down(&mut self, is_meant: impl Fn(&Slot) -> bool) {
        self.waits(|instance, wait| {
            while instance.slots.iter().any(|slot| is_meant(slot) && slot.is_leaving()) {
                instance.pass(wait);
            }
        });
    }

    /// Waits until the ways are closed of routers in processes of their own that are to be.
    pub(crate) fn wait_until_closed(&mut self) {
        self.waits(|instance, wait| {
            while instance.relays.iter().any(|relay| relay.is_leaving()) {
                instance.pass(wait);
            }
        });
    }

    /// Waits until the peers at these have answered, or have had their time.
    pub(crate) fn wait_for_peers<'o>(&mut self, outlets: impl Iterator<Item = &'o Arc<Outlet>> + Clone) {
        self.waits(|instance, wait| {
            let end = wait.now() + PEER_PATIENCE;
            while wait.now() < end && outlets.clone().any(|outlet| outlet.awaits_peer()) {
                instance.pass(wait);
            }
        });
    }

    /// Drops what is not needed any more, which may have to wait for threads and programs, and waits until that is done.
    pub(crate) fn discard(&mut self, what: impl Send + 'static) {
        let mut take_down = TakeDown::begin("ringroad", what, self.yard.now);
        self.waits(|instance, wait| {
            // What takes too long is left behind.
            while take_down.look(wait.now()) == Progress::Going {
                instance.pass(wait);
            }
        });
    }
}

/// Waits for the end of everything, with nothing else to look after. What takes too long is left behind.
pub(super) fn finish(take_downs: Vec<TakeDown>, now: Instant) {
    let (mut left, wait) = (take_downs, Wait::begin(now));
    loop {
        left.retain_mut(|take_down| take_down.look(wait.now()) == Progress::Going);
        if left.is_empty() {
            return;
        }
        std::thread::sleep(POLL);
    }
}
