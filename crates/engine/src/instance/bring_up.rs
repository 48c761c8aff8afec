//! Waiting for routers that come up. All others are looked after meanwhile, as often as ever.

use std::time::{Duration, Instant};

use anyhow::Result;
use telemetry::Kind;

use super::slot::Slot;
use super::{Instance, find};

/// Between two looks at those that are waited for.
const POLL: Duration = Duration::from_micros(100);
/// Between two looks at all others.
const LOOK: Duration = Duration::from_millis(100);

impl Instance {
    /// Waits until these routers are up, one after the other; one that does not come up is taken down.
    ///
    /// # Errors
    /// One line: which one does not come up.
    pub(crate) fn wait_until_up(&mut self, is_meant: impl Fn(&Slot) -> bool) -> Result<()> {
        let meant = self.slots.iter_mut().filter(|slot| is_meant(slot));
        meant.filter_map(|slot| slot.run.as_mut()).for_each(|run| run.awaited = true);
        // Its clock goes on by what is waited here.
        let (asked, now) = (Instant::now(), self.yard.now);
        let waited = self.wait_for_all(&|| now + asked.elapsed());
        self.yard.now = now;
        for run in self.slots.iter_mut().filter_map(|slot| slot.run.as_mut()) {
            run.awaited = false;
        }
        waited
    }

    fn wait_for_all(&mut self, clock: &dyn Fn() -> Instant) -> Result<()> {
        let (now, mut looked) = (clock(), clock());
        for index in 0..self.slots.len() {
            let since = clock();
            while let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.is_awaited()) {
                if slot.is_up_after(clock() - since, now)? {
                    break;
                }
                std::thread::sleep(POLL);
                if clock() - looked >= LOOK {
                    looked = clock();
                    self.look(looked);
                }
            }
        }
        Ok(())
    }

    /// Starts a router that does not run, and waits until it is up.
    pub(super) fn bring_up(&mut self, name: &str) -> Result<()> {
        let (launched, before) = find(&mut self.slots, name)?.start(&mut self.yard);
        let started = launched.and_then(|()| self.wait_until_up(|slot| slot.plan.name == name));
        find(&mut self.slots, name)?.was_started(started, &before, &mut self.yard)
    }

    /// Starts a router again that was suspended, and waits until it is up; what fails is as if it had failed by itself.
    pub(crate) fn revive(&mut self, name: &str) -> Result<()> {
        let launched = find(&mut self.slots, name)?.launch_anew(&mut self.yard);
        let revived = launched.and_then(|()| self.wait_until_up(|slot| slot.plan.name == name));
        if let Err(error) = &revived {
            let slot = find(&mut self.slots, name)?;
            slot.fail(Kind::Failed, format!("{error:#}"), &mut self.yard);
        }
        revived
    }
}

impl Slot {
    fn is_awaited(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.awaited)
    }
}
