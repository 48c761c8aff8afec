//! Answers to what clients of the control socket ask.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::{Context, Result};
use api::{
    Answer, NeighbourShown, NicShown, Outcome, Request, RouteShown, RouterShown, RouterStatus, RunStatus,
};
use config::{Nic, NicModel, Plan, Role, Router, Spin, TransmitMode};
use engine::{Change, Counts, Outside};

use super::{DataPlane, orders};
use crate::link::Orders;
use crate::table;

/// The answer to what can be answered while the routers are being changed: what was counted. Whether there is such a router
/// the supervisor knows.
pub(super) fn at_once(request: &Request, counts: &Counts) -> Option<Outcome> {
    let Request::Counters { router } = request else { return None };
    let all = table::read(counts);
    let wanted = match router {
        Some(name) => of_router(all, name),
        None => all,
    };
    Some(Ok(Answer::Counters(wanted)))
}

impl DataPlane {
    /// The answer to a request, or why there is none.
    pub(super) fn answer(&mut self, request: Request, now: Instant) -> Outcome {
        self.try_answer(request, now).map_err(|error| api::Error::new(format!("{error:#}")))
    }

    fn try_answer(&mut self, request: Request, now: Instant) -> Result<Answer> {
        let done = |message: String| Answer::Done { message };
        Ok(match request {
            Request::Ps {} => Answer::Ps(self.run_status(now)),
            Request::Show { router } => Answer::Show(Box::new(self.show(&router, now)?)),
            Request::Set { router, key, value } => done(told(self.instance.set(&router, &key, &value)?)),
            Request::Stop { name } => {
                self.instance.stop_router(&name)?;
                done(format!("router {name} is stopped"))
            }
            Request::Start { router } => {
                self.instance.start_router(&router)?;
                done(format!("router {router} runs"))
            }
            Request::Restart { router } => {
                self.instance.restart_router(&router)?;
                done(format!("router {router} was started anew"))
            }
            Request::Counters { .. } => anyhow::bail!("the link's own thread answers this"),
            Request::Trace { .. }
            | Request::Capture { .. }
            | Request::Events { .. }
            | Request::Apply { .. } => {
                anyhow::bail!("the supervisor answers this itself")
            }
        })
    }

    /// Makes the instance what another file says.
    pub(super) fn apply(&mut self, orders: &Orders, descriptors: Vec<OwnedFd>, dry_run: bool) -> Outcome {
        self.try_apply(orders, descriptors, dry_run).map_err(|error| api::Error::new(format!("{error:#}")))
    }

    fn try_apply(&mut self, orders: &Orders, descriptors: Vec<OwnedFd>, dry_run: bool) -> Result<Answer> {
        let order = orders::understand(orders, descriptors, &self.wire)?;
        let changes = if dry_run {
            self.instance.changes_to(&order.plan)
        } else {
            let changes = self.instance.apply(&order.plan, order.supplies)?;
            self.locks = order.locks;
            changes
        };
        let changes = changes.into_iter();
        let shown =
            |change: Change| api::Change { hitless: change.is_hitless(), what: change.what, why: change.why };
        Ok(Answer::Applied { changes: changes.map(shown).collect(), dry_run })
    }

    /// How the routers are; the supervisor knows the rest.
    fn run_status(&self, now: Instant) -> RunStatus {
        RunStatus {
            run: self.run.clone(),
            file: String::new(),
            program: String::new(),
            pid: 0,
            data_plane: None,
            restarts: 0,
            up_ms: 0,
            routers: self.routers(now).chain(self.relays()).collect(),
        }
    }

    fn routers(&self, now: Instant) -> impl Iterator<Item = RouterStatus> {
        self.instance.status().into_iter().map(move |known| status(&known, now))
    }

    /// What is here of routers in processes of their own: their threads. The rest the supervisor asks them.
    fn relays(&self) -> impl Iterator<Item = RouterStatus> {
        let thread = |(name, tid)| api::Thread { name, tid };
        self.instance.relay_threads().map(move |(name, threads)| RouterStatus {
            name: name.to_owned(),
            engine: String::new(),
            state: api::State::Waiting,
            since_ms: 0,
            restarts: 0,
            reason: None,
            pid: None,
            threads: threads.into_iter().map(thread).collect(),
        })
    }

    pub(super) fn planned(&self, name: &str) -> Result<(&Plan, &Router)> {
        let plan = self.instance.plan();
        let router = plan.routers.iter().find(|router| router.name == name);
        let names = || plan.routers.iter().map(|router| router.name.as_str()).collect::<Vec<_>>().join(", ");
        Ok((plan, router.with_context(|| format!("there is no router {name:?}; routers: {}", names()))?))
    }

    fn show(&self, name: &str, now: Instant) -> Result<RouterShown> {
        let (plan, router) = self.planned(name)?;
        let known = self.routers(now).find(|status| status.name == name);
        let nic_name =
            |index: usize| router.nics.get(index).map_or_else(|| "?".to_owned(), |nic| nic.name.clone());
        let routes = router.routes.iter().map(|route| RouteShown {
            to: route.to.to_string(),
            via: route.via.map(|via| via.to_string()),
            nic: nic_name(route.nic),
        });
        let neighbours = router.neighbours.iter().map(|neighbour| NeighbourShown {
            address: neighbour.address.to_string(),
            mac: neighbour.mac.to_string(),
            nic: nic_name(neighbour.nic),
        });
        Ok(RouterShown {
            run: self.run.clone(),
            status: known.context("the router is not there any more")?,
            settings: settings(router),
            nics: router
                .nics
                .iter()
                .enumerate()
                .map(|(n, nic)| self.show_nic(plan, router, (n, nic)))
                .collect(),
            routes: routes.collect(),
            neighbours: neighbours.collect(),
        })
    }
}

impl DataPlane {
    fn show_nic(&self, plan: &Plan, router: &Router, (number, nic): (usize, &Nic)) -> NicShown {
        let mut shown = show_nic(plan, nic);
        let running = self.instance.router(&router.name);
        let state = match running.and_then(|running| running.outside.get(number)) {
            Some(Outside::Peer(peer)) => Some(peer.state()),
            Some(Outside::Guest(port)) => Some(port.state()),
            Some(Outside::Kernel(kernel)) => Some(kernel.state()),
            _ => None,
        };
        shown.settings.extend(state.map(|state| ("peer".to_owned(), state)));
        if running.is_some_and(|running| running.is_pulled(number)) {
            shown.settings.insert("link".to_owned(), "down".to_owned());
        }
        if let Some(Outside::Xdp { way, .. }) = running.and_then(|running| running.outside.get(number)) {
            shown.settings.insert("xdp".to_owned(), way.clone());
        }
        shown
    }
}

/// A change in one line.
fn told(change: Change) -> String {
    match change.why {
        None => change.what,
        Some(why) => format!("{}; {why}", change.what),
    }
}

/// Those of one router: its own, its threads', and its ports' on switches.
fn of_router(mut counters: api::Counters, name: &str) -> api::Counters {
    let (own, thread) = (format!("{name}."), format!("{name}/"));
    counters.counters.retain(|counter, _| {
        // switch.SWITCH.ROUTER.NIC.COUNTER
        let is_port = counter.starts_with("switch.") && counter.split('.').nth(2) == Some(name);
        counter.starts_with(&own) || counter.starts_with(&thread) || is_port
    });
    counters.cpu_ns.retain(|known, _| known.starts_with(&thread));
    counters
}

fn status(status: &engine::RouterStatus, now: Instant) -> RouterStatus {
    let state = match status.state {
        engine::State::Running => api::State::Running,
        engine::State::Stopped => api::State::Stopped,
        engine::State::Failed => api::State::Failed,
        engine::State::Waiting => api::State::Waiting,
    };
    let thread = |(name, tid): &(String, i32)| api::Thread { name: name.clone(), tid: *tid };
    RouterStatus {
        name: status.name.clone(),
        engine: status.engine.name().to_owned(),
        state,
        since_ms: u64::try_from(now.saturating_duration_since(status.since).as_millis()).unwrap_or(u64::MAX),
        restarts: u32::try_from(status.restarts).unwrap_or(u32::MAX),
        reason: status.reason.clone(),
        pid: status.pid.map(i32::unsigned_abs),
        threads: status.threads.iter().map(thread).collect(),
    }
}

/// What a file says of a router, as it would be written there.
fn settings(router: &Router) -> BTreeMap<String, String> {
    let vhost = router.vhost.name();
    let role = match router.role {
        Role::Router => "router",
        Role::Echo => "echo",
        Role::Hostile(_) => "hostile",
    };
    let spin = match router.spin {
        Spin::Always => "always".to_owned(),
        Spin::For(time) => format!("{}us", time.as_micros()),
    };
    let any = |cpus: &Option<config::CpuSet>| cpus.as_ref().map_or("any".to_owned(), ToString::to_string);
    let mut settings = BTreeMap::from([
        ("engine", router.engine.map_or("", config::Engine::name).to_owned()),
        ("memory", format!("{}M", router.memory >> 20)),
        ("pin.vcpu", any(&router.pin.vcpu)),
        ("pin.vhost", any(&router.pin.vhost)),
        ("restart", router.restart.name().to_owned()),
        ("role", role.to_owned()),
        ("spin", spin),
        ("vcpus", router.vcpus.to_string()),
        ("vhost", vhost.to_owned()),
    ]);
    if let Some(limit) = router.limit {
        settings.insert("limit", limit.to_string());
    }
    if let Role::Hostile(misdeed) = router.role {
        settings.insert("misdeed", misdeed.name().to_owned());
    }
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn show_nic(plan: &Plan, nic: &Nic) -> NicShown {
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let mut settings = BTreeMap::from([
        ("deliver", word(&nic.deliver)),
        ("hash", word(&nic.hash)),
        ("itr", nic.itr.to_string()),
        ("model", nic.model.name().to_owned()),
        ("mtu", nic.mtu.to_string()),
        ("queue_len", nic.queue_len.to_string()),
        ("queues", nic.queues.to_string()),
        ("ring", nic.ring.to_string()),
    ]);
    if nic.model == NicModel::E1000 {
        settings.insert("mode", nic.mode.name().to_owned());
    }
    if nic.mode == TransmitMode::SendCombining && nic.combine > 0 {
        settings.insert("combine", nic.combine.to_string());
    }
    NicShown {
        name: nic.name.clone(),
        attach: plan.attachment(nic),
        mac: nic.mac.to_string(),
        addresses: nic.addresses.iter().map(ToString::to_string).collect(),
        settings: settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

#[cfg(test)]
mod tests;
