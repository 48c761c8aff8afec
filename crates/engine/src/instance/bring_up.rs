//! Brings routers up while the caller waits, and takes them out of service.

use anyhow::{Context, Result};
use telemetry::Kind;

use super::slot::Slot;
use super::waiting::Wait;
use super::{Instance, find};
use crate::guest::Guest;

impl Instance {
    /// Waits until these routers are up, one after the other; a router that does not come up is taken down.
    ///
    /// # Errors
    /// One line that names the router that does not come up.
    pub(crate) fn wait_until_up(&mut self, is_meant: impl Fn(&Slot) -> bool) -> Result<()> {
        self.slots.iter_mut().filter(|slot| is_meant(slot)).for_each(|slot| slot.set_awaited(true));
        let outcome = self.waits(Self::wait_for_all);
        self.slots.iter_mut().for_each(|slot| slot.set_awaited(false));
        outcome
    }

    fn wait_for_all(&mut self, wait: &mut Wait) -> Result<()> {
        for index in 0..self.slots.len() {
            let since = wait.now();
            while let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.is_awaited()) {
                let now = wait.now();
                if slot.is_up_after(since, now)? {
                    break;
                }
                self.poll_once(wait);
            }
        }
        Ok(())
    }

    /// Launches a guest in a new slot, and waits until it is launched, so that it attaches to its ports
    /// before the routers that follow. The slot is added even if the launch fails.
    pub(crate) fn launch_in(&mut self, mut slot: Slot, guest: Guest) -> Result<()> {
        let (name, launched) = (slot.plan.name.clone(), slot.launch(guest, &self.context));
        slot.set_awaited(true);
        self.slots.push(slot);
        launched?;
        self.waits(|instance, wait| {
            while !find(&mut instance.slots, &name)?.is_launched()? {
                instance.poll_once(wait);
            }
            Ok(())
        })
    }

    /// Starts a router that does not run, and waits until it is up.
    pub(super) fn bring_up(&mut self, name: &str) -> Result<()> {
        let before = find(&mut self.slots, name)?.forget_failures();
        let started = self.launch(name);
        find(&mut self.slots, name)?.was_started(started, &before, &mut self.context)
    }

    /// Restarts a suspended router, and waits until it is up; an error is handled as if the router had failed
    /// while it ran.
    pub(crate) fn revive(&mut self, name: &str) -> Result<()> {
        let revived = self.launch(name);
        if let Err(error) = &revived {
            let slot = find(&mut self.slots, name)?;
            slot.fail(Kind::Failed, format!("{error:#}"), &mut self.context);
        }
        revived
    }

    /// Launches a router once its previous run is down and its peers have answered, and waits until it is up.
    fn launch(&mut self, name: &str) -> Result<()> {
        self.wait_until_down(|slot| slot.plan.name == name);
        let outlets = find(&mut self.slots, name)?.outlets().to_vec();
        self.wait_for_peers(outlets.iter());
        let slot = find(&mut self.slots, name)?;
        if !slot.is_active() {
            slot.launch_anew(&mut self.context)?;
        }
        self.wait_until_up(|slot| slot.plan.name == name)
    }

    /// Takes a router down, waits for that, and removes its slot from the instance; also returns whether it
    /// ran.
    ///
    /// # Errors
    /// There is no router of this name.
    pub(crate) fn take_out(&mut self, name: &str) -> Result<(Slot, bool)> {
        let now = self.context.now;
        let ran = find(&mut self.slots, name)?.suspend(now);
        self.wait_until_down(|slot| slot.plan.name == name);
        let mut out: Vec<Slot> = self.slots.extract_if(.., |slot| slot.plan.name == name).collect();
        let slot = out.pop().context("a router that is not there")?;
        Ok((slot, ran))
    }
}
