//! Settings that can be changed while a router runs.

use anyhow::{Context, Result, bail};
use config::{Key, is_link_up, is_running};

use super::slot::Slot;
use super::{Instance, find};
use crate::apply::Change;
use crate::apply::difference::describe_restart;

impl Instance {
    /// Changes one setting of a router as its file would: `limit`, `restart`, `spin`, and `state`, which no file says; and the
    /// cable of a NIC, until the router is started anew. What [`config::Setting`] has beside these is for whoever places the
    /// threads, and whether the plan may be so as a whole was asked before.
    ///
    /// # Errors
    /// There is no such router or key, or the value is not one; then nothing has changed.
    pub fn set(&mut self, router: &str, key: &str, value: &str) -> Result<Change> {
        if self.relays.iter().any(|relay| relay.plan.name == router) {
            return self.set_apart(router, key, value);
        }
        let slot = find(&mut self.slots, router)?;
        let mut plan = slot.plan.clone();
        let change = match plan.set(key, value)?.key {
            Key::Limit => {
                slot.set_limit(plan.limit);
                Change::hitless(format!("router {router}: limit = {value}"))
            }
            Key::Restart => {
                slot.set_restart(plan.restart, self.yard.now);
                Change::hitless(format!("router {router} is {}", describe_restart(plan.restart)))
            }
            Key::Spin => {
                slot.plan.spin = plan.spin;
                spin(slot, value)
            }
            Key::State => return self.set_state(router, value),
            Key::Link => link(slot, key, value)?,
            _ => bail!("router {router}: {key} is set by whoever places its threads"),
        };
        let now = slot.plan.clone();
        if let Some(plan) = self.plan.routers.iter_mut().find(|plan| plan.name == router) {
            (plan.restart, plan.spin, plan.limit) = (now.restart, now.spin, now.limit);
        }
        Ok(change)
    }

    /// What there is here of a router in a process of its own: the threads that serve its NICs, and their cables.
    fn set_apart(&mut self, name: &str, key: &str, value: &str) -> Result<Change> {
        let found = self.relays.iter_mut().find(|relay| relay.plan.name == name);
        let relay = found.with_context(|| format!("there is no router {name:?}"))?;
        let mut plan = relay.plan.clone();
        match plan.set(key, value)?.key {
            Key::Spin => relay.spin(plan.spin),
            Key::Limit => relay.limit(plan.limit),
            Key::Link => relay.plug(plan.nic_of(key)?, is_link_up(value)?),
            _ => bail!("router {name}: {key:?} is for the router's own process to set"),
        }
        let now = (relay.plan.spin, relay.plan.limit);
        if let Some(plan) = self.plan.routers.iter_mut().find(|plan| plan.name == name) {
            (plan.spin, plan.limit) = now;
        }
        Ok(Change::hitless(format!("router {name}: {key} = {value}")))
    }

    fn set_state(&mut self, name: &str, value: &str) -> Result<Change> {
        if is_running(value)? {
            self.start_router(name)?
        } else {
            self.stop_router(name)?
        }
        Ok(Change::hitless(format!("router {name} is {value}")))
    }
}

/// Plugs the cable of a NIC in, or pulls it out: its driver sees the carrier come and go. Where a peer is at the other end, the
/// carrier is there if both are.
fn link(slot: &mut Slot, key: &str, value: &str) -> Result<Change> {
    let (number, up) = (slot.plan.nic_of(key)?, is_link_up(value)?);
    let is_there = slot.outlets().get(number).and_then(|outlet| outlet.link()).unwrap_or(true);
    slot.run.as_mut().context("the router does not run")?.router.plug(number, up, is_there);
    let nic = key.split('.').next().unwrap_or(key);
    Ok(Change::hitless(format!("router {}: the link of {nic} is {value}", slot.plan.name)))
}

fn spin(slot: &Slot, value: &str) -> Change {
    let what = format!("router {}: spin = {value}", slot.plan.name);
    let Some(run) = &slot.run else { return Change::hitless(what) };
    run.router.spin(slot.plan.spin);
    let why = "its I/O threads follow at once, its firmware is told when it boots: restart it for both";
    Change { what, why: Some(why.to_owned()) }
}
