//! Replies to requests of control socket clients.

use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::{Context, Result};
use api::{Answer, NicDetails, Outcome, Request, RouterDetails};
use config::{Nic, Router};
use engine::{Change, CounterRegistry};
use link::PlanWithSupplies;

use super::known::{PublishedStatus, of_router};
use super::{DataPlane, orders};

/// Reply that is possible while the routers are being changed: the counters, and the status of the routers
/// when they were last looked at. The supervisor checks whether a router exists.
pub(super) fn at_once(
    request: &Request,
    counts: &CounterRegistry,
    known: &PublishedStatus,
) -> Option<Outcome> {
    let router = match request {
        Request::Counters { router } => router,
        Request::Ps {} => return known.status(Instant::now()).map(|status| Ok(Answer::Ps(status))),
        _ => return None,
    };
    let all = counts.read();
    let wanted = match router {
        Some(name) => counters_of(all, name),
        None => all,
    };
    Some(Ok(Answer::Counters(wanted)))
}

impl DataPlane {
    /// Reply to a request, or the reason why it fails.
    pub(super) fn answer(&mut self, request: Request, now: Instant) -> Outcome {
        self.try_answer(request, now).map_err(|error| api::Error::new(format!("{error:#}")))
    }

    fn try_answer(&mut self, request: Request, now: Instant) -> Result<Answer> {
        let done = |message: String| Answer::Done { message };
        Ok(match request {
            Request::Show { router } => Answer::Show(Box::new(self.show(&router, now)?)),
            Request::Start { router } => {
                self.instance.start_router(&router)?;
                done(format!("router {router} runs"))
            }
            Request::Restart { router } => {
                self.instance.restart_router(&router)?;
                done(format!("router {router} was started anew"))
            }
            Request::Ps {} | Request::Counters { .. } => anyhow::bail!("the link's own thread answers this"),
            Request::Set { .. }
            | Request::Stop { .. }
            | Request::Trace { .. }
            | Request::Capture { .. }
            | Request::Events { .. }
            | Request::Remote { .. }
            | Request::Control { .. }
            | Request::Apply { .. } => {
                anyhow::bail!("the supervisor answers this itself")
            }
        })
    }

    /// Applies another plan to the instance.
    pub(super) fn apply(
        &mut self,
        orders: PlanWithSupplies,
        descriptors: Vec<OwnedFd>,
        dry_run: bool,
    ) -> Outcome {
        self.try_apply(orders, descriptors, dry_run).map_err(|error| api::Error::new(format!("{error:#}")))
    }

    fn try_apply(
        &mut self,
        orders: PlanWithSupplies,
        descriptors: Vec<OwnedFd>,
        dry_run: bool,
    ) -> Result<Answer> {
        let order = orders::understand(orders, descriptors, &self.wire)?;
        let changes = if dry_run {
            self.instance.changes_to(&order.plan)
        } else {
            let changes = self.instance.apply(&order.plan, order.supplies)?;
            // An order without locks keeps the present ones.
            if !order.locks.is_empty() {
                self.locks = order.locks;
            }
            changes
        };
        let changes = changes.into_iter();
        let shown =
            |change: Change| api::Change { hitless: change.is_hitless(), what: change.what, why: change.why };
        Ok(Answer::Applied { changes: changes.map(shown).collect(), dry_run })
    }

    pub(super) fn planned(&self, name: &str) -> Result<&Router> {
        let plan = self.instance.plan();
        let router = plan.routers.iter().find(|router| router.name == name);
        let names = || plan.routers.iter().map(|router| router.name.as_str()).collect::<Vec<_>>().join(", ");
        router.with_context(|| format!("there is no router {name:?}; routers: {}", names()))
    }

    /// Status of a router, and of the far ends of its NICs; the supervisor adds the settings of the plan.
    fn show(&self, name: &str, now: Instant) -> Result<RouterDetails> {
        let router = self.planned(name)?;
        let known = self.instance.status().into_iter().find(|status| status.name == name);
        let start = self.instance.last_start(name).map(|told| (api::LAST_START.to_owned(), told.into()));
        Ok(RouterDetails {
            run: self.run.clone(),
            status: of_router(&known.context("the router is not there any more")?, now),
            settings: start.into_iter().collect(),
            nics: router.nics.iter().enumerate().map(|(n, nic)| self.show_nic(name, (n, nic))).collect(),
            interfaces: Vec::new(),
            routes: Vec::new(),
            neighbours: Vec::new(),
        })
    }

    fn show_nic(&self, router: &str, (number, nic): (usize, &Nic)) -> NicDetails {
        let state = self.instance.state_of(router, number);
        NicDetails {
            name: nic.name.clone(),
            attach: String::new(),
            mac: String::new(),
            addresses: Vec::new(),
            settings: state.into_iter().map(|(key, state)| (key.to_owned(), state.into())).collect(),
        }
    }
}

/// Counters of one router, or of a group and all of its members: their own, their threads', and those of their switch ports.
fn counters_of(mut counters: api::Counters, name: &str) -> api::Counters {
    // ROUTER.NIC.COUNTER, ROUTER/THREAD.COUNTER
    let is_its =
        |known: &str| known.split_once(['.', '/']).is_some_and(|(router, _)| config::is_meant(router, name));
    counters.counters.retain(|counter, _| {
        // switch.SWITCH.ROUTER.NIC.COUNTER
        let port = counter.strip_prefix("switch.").and_then(|port| port.split('.').nth(1));
        is_its(counter) || port.is_some_and(|router| config::is_meant(router, name))
    });
    counters.cpu_ns.retain(|thread, _| is_its(thread));
    counters
}

#[cfg(test)]
mod tests;
