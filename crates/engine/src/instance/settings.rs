//! Settings that can be changed while a router runs.

use anyhow::{Context, Result, bail};
use config::{CpuSet, Pin, Rate, Restart, Router, Spin};

use super::slot::Slot;
use super::{Instance, find};
use crate::apply::Change;
use crate::apply::difference::describe_restart;

/// The keys, with what they take.
const KEYS: &str = "limit, pin.vcpu, pin.vhost, restart, spin, state, NIC.link";

/// The key that ends in this is of a NIC.
const LINK: &str = ".link";

impl Instance {
    /// Changes one setting of a router as its file would: `limit` (a rate, or `none`), `pin.vcpu` and `pin.vhost` (CPUs, or `any`), `restart`
    /// (`always`, `never`), `spin` (a time, or `always`), and `state` (`running`, `stopped`); and, which no file says, the
    /// cable of a NIC: `NIC.link` (`up`, `down`), until the router is started anew.
    ///
    /// # Errors
    /// There is no such router or key, or the value is not one; then nothing has changed.
    pub fn set(&mut self, router: &str, key: &str, value: &str) -> Result<Change> {
        if self.relays.iter().any(|relay| relay.plan.name == router) {
            return self.set_apart(router, key, value);
        }
        let slot = find(&mut self.slots, router)?;
        let name = slot.plan.name.clone();
        let change = match key {
            "pin.vcpu" => pin(slot, |pin, cpus| pin.vcpu = cpus, value, key),
            "pin.vhost" => pin(slot, |pin, cpus| pin.vhost = cpus, value, key),
            "limit" => limit(slot, value),
            "restart" => restart(slot, value),
            "spin" => spin(slot, value),
            "state" => return self.set_state(&name, value),
            _ if key.ends_with(LINK) => link(slot, key.trim_end_matches(LINK), value),
            _ => bail!("{key:?} cannot be set while a router runs; keys: {KEYS}"),
        };
        let change = change.with_context(|| format!("router {name}: {key}"))?;
        let now = slot.plan.clone();
        if let Some(plan) = self.plan.routers.iter_mut().find(|plan| plan.name == name) {
            (plan.pin, plan.restart, plan.spin) = (now.pin, now.restart, now.spin);
            plan.limit = now.limit;
        }
        Ok(change)
    }

    /// What there is here of a router in a process of its own: the threads that serve its NICs, and their cables.
    fn set_apart(&mut self, name: &str, key: &str, value: &str) -> Result<Change> {
        let found = self.relays.iter_mut().find(|relay| relay.plan.name == name);
        let relay = found.with_context(|| format!("there is no router {name:?}"))?;
        let place = || format!("router {name}: {key}");
        match key {
            "pin.vhost" => {
                let pin = Pin { vhost: cpus(value).with_context(place)?, ..relay.plan.pin.clone() };
                relay.pin(pin).with_context(place)?;
            }
            "spin" => relay.spin(value.parse::<Spin>().with_context(place)?),
            "limit" => relay.limit(rate(value).with_context(place)?),
            _ if key.ends_with(LINK) => {
                let nic = known(&relay.plan, key.trim_end_matches(LINK)).with_context(place)?;
                relay.plug(nic, is_up(value).with_context(place)?);
            }
            _ => bail!("router {name}: {key:?} is for the router's own process to set"),
        }
        let now = (relay.plan.pin.clone(), relay.plan.spin, relay.plan.limit);
        if let Some(plan) = self.plan.routers.iter_mut().find(|plan| plan.name == name) {
            (plan.pin, plan.spin, plan.limit) = now;
        }
        Ok(Change::hitless(format!("router {name}: {key} = {value}")))
    }

    fn set_state(&mut self, name: &str, value: &str) -> Result<Change> {
        match value {
            "running" => self.start_router(name)?,
            "stopped" => self.stop_router(name)?,
            _ => bail!("router {name}: state: {value:?} is no state; write running or stopped"),
        }
        Ok(Change::hitless(format!("router {name} is {value}")))
    }
}

/// Plugs the cable of a NIC in, or pulls it out: its driver sees the carrier come and go. Where a peer is at the other end, the
/// carrier is there if both are.
fn link(slot: &mut Slot, nic: &str, value: &str) -> Result<Change> {
    let (number, up) = (known(&slot.plan, nic)?, is_up(value)?);
    let is_there = slot.outlets().get(number).and_then(|outlet| outlet.link()).unwrap_or(true);
    slot.run.as_mut().context("the router does not run")?.router.plug(number, up, is_there);
    Ok(Change::hitless(format!("router {}: the link of {nic} is {value}", slot.plan.name)))
}

/// The number of a NIC.
fn known(router: &Router, nic: &str) -> Result<usize> {
    let number = router.nics.iter().position(|known| known.name == nic);
    number.with_context(|| format!("there is no NIC {nic:?}"))
}

fn is_up(value: &str) -> Result<bool> {
    match value {
        "up" => Ok(true),
        "down" => Ok(false),
        _ => bail!("{value:?} is no state of a link; write up or down"),
    }
}

fn pin(slot: &mut Slot, place: fn(&mut Pin, Option<CpuSet>), value: &str, key: &str) -> Result<Change> {
    let mut pin = slot.plan.pin.clone();
    place(&mut pin, cpus(value)?);
    slot.pin(pin)?;
    let what = format!("router {}: {key} = {value}", slot.plan.name);
    let process = slot.run.as_ref().is_some_and(|run| run.router.router.pid().is_some());
    Ok(if process && key == "pin.vcpu" {
        Change { what, why: Some("the vCPUs of a process are placed when it starts: restart it".to_owned()) }
    } else {
        Change::hitless(what)
    })
}

fn cpus(value: &str) -> Result<Option<CpuSet>> {
    if value == "any" {
        return Ok(None);
    }
    let set: Result<CpuSet, _> = value.parse();
    let wrong = || format!("{value:?} is not a list of CPUs; write e.g. 1 or 0-1,3, or any");
    Ok(Some(set.ok().with_context(wrong)?))
}

fn limit(slot: &mut Slot, value: &str) -> Result<Change> {
    slot.set_limit(rate(value)?);
    Ok(Change::hitless(format!("router {}: limit = {value}", slot.plan.name)))
}

fn rate(value: &str) -> Result<Option<Rate>> {
    if value == "none" {
        return Ok(None);
    }
    let rate: Result<Rate, _> = value.parse();
    rate.map(Some).map_err(|wrong| anyhow::anyhow!("{wrong}, or none"))
}

fn restart(slot: &mut Slot, value: &str) -> Result<Change> {
    let restart: Restart = value.parse()?;
    slot.set_restart(restart);
    Ok(Change::hitless(format!("router {} is {}", slot.plan.name, describe_restart(restart))))
}

fn spin(slot: &mut Slot, value: &str) -> Result<Change> {
    let spin: Spin = value.parse()?;
    slot.plan.spin = spin;
    let what = format!("router {}: spin = {value}", slot.plan.name);
    let Some(run) = &slot.run else { return Ok(Change::hitless(what)) };
    run.router.spin(spin);
    let why = "its I/O threads follow at once, its firmware is told when it boots: restart it for both";
    Ok(Change { what, why: Some(why.to_owned()) })
}
