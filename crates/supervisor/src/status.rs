//! What clients are told of a run and its routers beyond what a data plane knows.

use std::time::Instant;

use api::{RouterShown, RouterStatus, RunStatus, State};

use super::{Supervisor, schedule};

impl Supervisor {
    /// A router as its data plane shows it, with how it is scheduled and promised; one in a process of its own as its file has
    /// it: that process knows only where its rings are handed to.
    pub(super) fn shown(&self, mut shown: RouterShown) -> RouterShown {
        let name = shown.status.name.clone();
        let plan = &self.running.plan;
        if let Some(router) = plan.routers.iter().find(|router| router.name == name) {
            let settings = schedule::settings(router).into_iter();
            shown.settings.extend(settings.map(|(key, value)| (key.to_owned(), value.into())));
            let standing = self.placing.promises.as_ref().and_then(|promises| promises.standing(&name));
            shown.settings.extend(standing.map(|standing| ("guarantee is".to_owned(), standing.into())));
        }
        let (Some(router), Some(apart)) =
            (plan.apart().find(|router| router.name == name), self.apart.get(&name))
        else {
            return shown;
        };
        shown.status = apart.completed(shown.status);
        shown.settings.insert("isolate".to_owned(), "process".into());
        for nic in &mut shown.nics {
            if let Some(known) = router.nics.iter().find(|known| known.name == nic.name) {
                nic.attach = known.attach.to_string();
                nic.settings.remove("peer");
            }
        }
        shown
    }

    /// How a run is, with what is known of its routers.
    pub(super) fn run_status(&self, routers: Vec<RouterStatus>, now: Instant) -> RunStatus {
        RunStatus {
            run: self.running.run.clone(),
            file: self.running.file.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            data_plane: self.life.plane.as_ref().map(super::Plane::pid),
            restarts: self.life.restarts,
            up_ms: u64::try_from(self.up_time(now).as_millis()).unwrap_or(u64::MAX),
            routers,
        }
    }

    /// What is told to whoever asks the data plane before it is up.
    pub(super) fn why_not_up(&self) -> &'static str {
        match self.life.plane {
            Some(_) => "the data plane is coming up",
            None => "the data plane is down and will be started again soon",
        }
    }

    /// The routers while the data plane cannot tell how they are.
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
            threads: Vec::new(),
        });
        routers.collect()
    }
}
