//! Settings of routers that run and say where their threads are and how they are scheduled: by hand, and by another file.
//! The data plane has nothing to do with them.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use api::{Answer, Change, Outcome, Request};
use config::{Allowed, CpuSet, Guarantee, Plan, Router};

use super::Supervisor;
use super::desk::is_of_cable;

/// All keys that can be set, with those of the data plane.
const KEYS: &str = "guarantee, limit, sched, sched.KEY, sched.vcpu.KEY, sched.vhost.KEY, affinity.vcpu, affinity.vhost, pin.vcpu, pin.vhost, \
                    restart, spin, state, NIC.link";
/// Those of the data plane, beside that of a NIC.
const OF_DATA_PLANE: [&str; 4] = ["limit", "restart", "spin", "state"];

/// Whether a request sets what is set here. What nobody knows is refused here too, by the list of all keys.
pub(super) fn is_for_it(request: &Request) -> bool {
    let Request::Set { key, .. } = request else { return false };
    !OF_DATA_PLANE.contains(&key.as_str()) && !is_of_cable(key)
}

/// What is said of the threads of a router, by key.
pub(super) fn settings(router: &Router) -> Vec<(&'static str, String)> {
    let pin = |cpus: &Option<CpuSet>| cpus.as_ref().map_or_else(|| "any".to_owned(), ToString::to_string);
    let mut settings = vec![("pin.vcpu", pin(&router.pin.vcpu)), ("pin.vhost", pin(&router.pin.vhost))];
    let affinity = [("affinity.vcpu", &router.affinity.vcpu), ("affinity.vhost", &router.affinity.vhost)];
    settings.extend(affinity.into_iter().filter_map(|(key, allowed)| match allowed {
        Allowed::Auto => None,
        Allowed::Free => Some((key, "free".to_owned())),
        Allowed::Within(cpus) => Some((key, cpus.to_string())),
    }));
    settings.extend(router.guarantee.map(|promised| ("guarantee", promised.to_string())));
    settings.extend((!router.sched.is_empty()).then(|| ("sched", router.sched.to_string())));
    settings
}

/// What another file changes for the threads of routers that stay.
pub(super) fn changes(from: &Plan, to: &Plan) -> Vec<Change> {
    let old = |new: &Router| from.routers.iter().find(|old| old.name == new.name);
    let both = to.routers.iter().filter_map(|new| Some((old(new)?, new)));
    both.filter(|(old, new)| settings(old) != settings(new)).map(|(_, new)| change(new)).collect()
}

fn change(router: &Router) -> Change {
    let settings = settings(router).into_iter().map(|(key, value)| format!("{key} = {value}"));
    let what = format!("router {}: {}", router.name, settings.collect::<Vec<_>>().join(", "));
    Change { hitless: true, what, why: None }
}

impl Supervisor {
    /// Changes a setting of a router as its file would.
    pub(super) fn set_schedule(&mut self, request: &Request, now: Instant) -> Outcome {
        let Request::Set { router, key, value } = request else {
            return Err(api::Error::new("not a setting"));
        };
        match self.try_set(router, key, value, now) {
            Ok(()) => Ok(Answer::Done { message: format!("router {router}: {key} = {value}") }),
            Err(error) => Err(api::Error::new(format!("{error:#}"))),
        }
    }

    fn try_set(&mut self, name: &str, key: &str, value: &str, now: Instant) -> Result<()> {
        ensure!(!self.desk.is_applying(), "a file is being applied: try again when that is done");
        let mut plan = self.running.plan.clone();
        let routers = || self.running.plan.routers.iter().map(|router| router.name.as_str());
        let place = || format!("router {name}: {key}");
        let router = plan.routers.iter_mut().find(|router| router.name == name);
        let router = router.with_context(|| {
            format!("there is no router {name:?}; routers: {}", routers().collect::<Vec<_>>().join(", "))
        })?;
        set(router, key, value).with_context(place)?;
        let planned = self.placing.planned(&plan).map_err(|errors| {
            let lines: Vec<_> = errors.lines().collect();
            anyhow::anyhow!("{}", lines.join("; "))
        });
        self.follow_planned(planned.with_context(place)?, now).with_context(place)?;
        self.running.plan = plan;
        Ok(())
    }
}

fn set(router: &mut Router, key: &str, value: &str) -> Result<()> {
    let (pin, affinity) = (&router.pin, &router.affinity);
    match key {
        "affinity.vcpu" => router.affinity.vcpu = allowed(value, pin.vcpu.is_some(), "pin.vcpu")?,
        "affinity.vhost" => router.affinity.vhost = allowed(value, pin.vhost.is_some(), "pin.vhost")?,
        "pin.vcpu" => router.pin.vcpu = pinned(value, &affinity.vcpu, "affinity.vcpu")?,
        "pin.vhost" => router.pin.vhost = pinned(value, &affinity.vhost, "affinity.vhost")?,
        "guarantee" => router.guarantee = guarantee(value)?,
        "sched" => router.sched = router.sched.with("", value)?,
        _ => match key.strip_prefix("sched.") {
            Some(rest) => router.sched = router.sched.with(rest, value)?,
            None => bail!("{key:?} cannot be set while a router runs; keys: {KEYS}"),
        },
    }
    Ok(())
}

fn guarantee(value: &str) -> Result<Option<Guarantee>> {
    if value == "none" { Ok(None) } else { Ok(Some(value.parse()?)) }
}

fn allowed(value: &str, is_pinned: bool, pin: &str) -> Result<Allowed> {
    let allowed = match value {
        "auto" => Allowed::Auto,
        "free" => Allowed::Free,
        cpus => Allowed::Within(self::cpus(cpus, "auto or free")?),
    };
    ensure!(allowed == Allowed::Auto || !is_pinned, "{pin} says where they are: set {pin}=any first");
    Ok(allowed)
}

fn pinned(value: &str, affinity: &Allowed, key: &str) -> Result<Option<CpuSet>> {
    if value == "any" {
        return Ok(None);
    }
    let cpus = cpus(value, "any")?;
    ensure!(*affinity == Allowed::Auto, "{key} says where they may run: set {key}=auto first");
    Ok(Some(cpus))
}

fn cpus(value: &str, or: &str) -> Result<CpuSet> {
    let set: Result<CpuSet, _> = value.parse();
    set.ok().with_context(|| format!("{value:?} is not a list of CPUs; write e.g. 1 or 0-1,3, or {or}"))
}
