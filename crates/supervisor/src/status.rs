//! Status of a run and its routers: what a data plane reports, completed by the supervisor.

use std::collections::BTreeMap;
use std::time::Instant;

use api::{LAST_START, RouterDetails, RouterStatus, RunStatus, State};

use super::{Supervisor, plan_report};

impl Supervisor {
    /// Completes a router's report from the data plane or its own process, which says how long its start took: adds the settings of the
    /// plan, and the state of its promise.
    pub(super) fn shown(&self, mut shown: RouterDetails) -> RouterDetails {
        let name = shown.status.name.clone();
        let plan = &self.running.plan;
        let Some(router) = plan.routers.iter().find(|router| router.name == name) else { return shown };
        let start = shown.settings.remove_entry(LAST_START);
        shown.settings = plan_report::settings(router);
        shown.settings.extend(start);
        let standing = self.placement.promises.as_ref().and_then(|promises| promises.standing(&name));
        shown.settings.extend(standing.map(|standing| ("guarantee is".to_owned(), standing.into())));
        let seen = std::mem::take(&mut shown.nics).into_iter();
        let mut seen: BTreeMap<String, plan_report::Settings> =
            seen.map(|nic| (nic.name, nic.settings)).collect();
        if let Some(isolated) = self.isolated.get(&name) {
            shown.status = isolated.completed(shown.status);
            // An isolated router has only our own data plane at its NICs, which is not worth showing.
            seen.clear();
        }
        for nic in &router.nics {
            let mut nic = plan_report::nic(router, nic);
            nic.settings.extend(seen.remove(&nic.name).unwrap_or_default());
            shown.nics.push(nic);
        }
        shown.interfaces = plan_report::interfaces(router);
        (shown.routes, shown.neighbours) = (plan_report::routes(router), plan_report::neighbours(router));
        shown
    }

    /// A group of the plan as the router that it is outside; how its members are is told of each ([`Request::Ps`](api::Request::Ps)).
    pub(super) fn shown_group(&self, name: &str) -> Option<RouterDetails> {
        let group = self.running.plan.group(name)?;
        let router = &group.pattern;
        let mut settings = plan_report::settings(router);
        settings.extend(plan_report::group(group));
        settings.extend(self.resources.tables.shown(name));
        settings.extend((group.parked > 0).then(|| ("awake".to_owned(), group.awake().into())));
        Some(RouterDetails {
            run: self.running.run.clone(),
            status: RouterStatus {
                name: name.to_owned(),
                engine: router.engine.map_or("", config::Engine::name).to_owned(),
                state: if self.is_up() { State::Running } else { State::Waiting },
                since_ms: 0,
                restarts: 0,
                reason: None,
                pid: None,
                member: None,
                threads: Vec::new(),
            },
            settings,
            nics: router.nics.iter().map(|nic| plan_report::nic(router, nic)).collect(),
            interfaces: plan_report::interfaces(router),
            routes: plan_report::routes(router),
            neighbours: plan_report::neighbours(router),
        })
    }

    /// Status of the run, given that of its routers.
    pub(super) fn run_status(&self, routers: Vec<RouterStatus>, now: Instant) -> RunStatus {
        RunStatus {
            run: self.running.run.clone(),
            file: self.running.file.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            data_plane: self.lifecycle.plane.as_ref().map(super::Plane::pid),
            restarts: self.lifecycle.restarts,
            up_ms: u64::try_from(self.up_time(now).as_millis()).unwrap_or(u64::MAX),
            routers: self.with_kernels(routers, now),
        }
    }

    /// Reply to requests for the data plane before it is up.
    pub(super) fn why_not_up(&self) -> &'static str {
        match self.lifecycle.plane {
            Some(_) => "the data plane is coming up",
            None => "the data plane is down and will be started again soon",
        }
    }

    /// Status of the routers while the data plane cannot report it.
    pub(super) fn routers_that_wait(&self) -> Vec<RouterStatus> {
        let engine = |engine: Option<config::Engine>| engine.map_or("", config::Engine::name).to_owned();
        let reason = if self.is_up() {
            "the data plane is busy or does not answer any more"
        } else {
            self.why_not_up()
        };
        let routers = self.running.plan.routers.iter().map(|router| RouterStatus {
            name: router.name.clone(),
            engine: engine(router.engine),
            state: State::Waiting,
            since_ms: 0,
            restarts: 0,
            reason: Some(reason.to_owned()),
            pid: None,
            member: None,
            threads: Vec::new(),
        });
        routers.collect()
    }
}
