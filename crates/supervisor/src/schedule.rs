//! Settings of routers that run, by hand and by another file. Each is judged here as its file would be; those that say where
//! threads are, how they are scheduled and what is promised are carried out here, the others by the data plane.

use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use api::{Answer, Change, Request, Ticket};
use config::{Allowed, CpuSet, Key, Plan, Router, Setting};

use super::Supervisor;
use super::following::Whose;
use super::placing::Planned;

/// Why no further change of where threads are is taken.
pub(super) const ANOTHER: &str =
    "threads are placed otherwise as soon as another run lets go of what all share: try again in a second";

/// Whether the data plane carries a setting out.
const fn is_of_data_plane(key: Key) -> bool {
    match key {
        Key::Limit | Key::Spin | Key::Restart | Key::State | Key::Link => true,
        Key::Guarantee
        | Key::GuaranteeRate
        | Key::GuaranteeFrame
        | Key::PinVcpu
        | Key::PinVhost
        | Key::AffinityVcpu
        | Key::AffinityVhost
        | Key::Sched => false,
    }
}

/// Whether both the process of a router and the data plane have to know a setting: each has a part of what it is about.
pub(super) fn is_of_both(request: &Request) -> bool {
    let Request::Set { key, .. } = request else { return false };
    Setting::find(key).is_some_and(|setting| matches!(setting.key, Key::Limit | Key::Spin | Key::Link))
}

/// Whether a request plugs a cable in or pulls it out.
pub(super) fn is_of_cable(request: &Request) -> bool {
    let Request::Set { key, .. } = request else { return false };
    Setting::find(key).is_some_and(|setting| setting.key == Key::Link)
}

/// What is said of the threads of a router, by key.
pub fn settings(router: &Router) -> Vec<(&'static str, String)> {
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
    /// A client changes a setting: judges it, and carries it out or has the data plane do it.
    pub(super) fn set(&mut self, ticket: Ticket, request: Request, now: Instant) {
        let Request::Set { router, key, value } = &request else { return };
        match self.judged((router, key, value), now) {
            Ok((setting, _)) if is_of_data_plane(setting.key) => self.request_running(ticket, request, now),
            Ok((_, planned)) => self.follow(Whose::Setting(ticket, request), planned, now),
            Err(error) => self.reply(ticket, Err(api::Error::new(format!("{error:#}"))), now),
        }
    }

    /// The threads are where a client's setting says, or stay where they were.
    pub(super) fn was_planned(
        &mut self,
        ticket: Ticket,
        request: &Request,
        outcome: Result<()>,
        now: Instant,
    ) {
        let Request::Set { router, key, value } = request else { return };
        let answer = match outcome {
            Ok(()) => {
                self.note_set(request);
                let message = told_of(request, format!("router {router}: {key} = {value}"));
                Ok(Answer::Done { message })
            }
            Err(error) => Err(api::Error::new(format!("router {router}: {key}: {error:#}"))),
        };
        self.reply(ticket, answer, now);
    }

    /// Whether a file could say so, and what would be planned for the threads.
    fn judged(
        &self,
        (router, key, value): (&str, &str, &str),
        now: Instant,
    ) -> Result<(&'static Setting, Planned)> {
        // What other clients were not refused, and the data plane does just now.
        let mut plan = self.running.plan.clone();
        self.desk.under_way().for_each(|request| set(&mut plan, request));
        if let Some(waiting) = self.placing.following.setting() {
            // It may be carried out soon, or not at all: with either this has to agree.
            let mut then = plan.clone();
            set(&mut then, waiting);
            then.with(router, key, value)?;
        }
        let plan = plan.with(router, key, value)?;
        let setting = Setting::find(key).ok_or_else(|| anyhow!("{key:?} is no setting"))?;
        let is_of_plan = !matches!(setting.key, Key::State | Key::Link);
        ensure!(
            !(is_of_plan && self.desk.is_applying()),
            "a file is being applied: try again when that is done"
        );
        ensure!(is_of_data_plane(setting.key) || !self.placing.following.is_waiting(), "{ANOTHER}");
        if is_of_data_plane(setting.key) && setting.key != Key::Spin {
            // It says nothing of threads.
            return Ok((setting, Planned::default()));
        }
        let planned = self.placing.planned(&plan, now);
        Ok((setting, planned.map_err(|errors| errors.of_setting(router, key))?))
    }

    /// What was set is in the plan from now on.
    fn note_set(&mut self, request: &Request) {
        set(&mut self.running.plan, request);
    }

    /// The data plane has done what a client has set.
    pub(super) fn was_set(&mut self, request: &Request, now: Instant) {
        self.note_set(request);
        let Request::Set { key, .. } = request else { return };
        // Who never sleeps is scheduled otherwise, and by that costs are judged.
        if Setting::find(key).is_some_and(|setting| setting.key == Key::Spin) {
            self.follow_what_runs(now);
        }
    }
}

/// What the data plane says that it has set, with what that loses.
pub(super) fn told_of(request: &Request, message: String) -> String {
    let Request::Set { key, .. } = request else { return message };
    Setting::find(key).map_or(message.clone(), |setting| told(setting, message))
}

fn told(setting: &Setting, what: String) -> String {
    let lost = setting.loses.map_or_else(|| "no packet is lost".to_owned(), |what| format!("{what} is lost"));
    format!("{what} ({lost})")
}

/// Changes a plan as somebody has asked who was not refused.
fn set(plan: &mut Plan, request: &Request) {
    let Request::Set { router, key, value } = request else { return };
    if let Some(router) = plan.routers.iter_mut().find(|known| known.name == *router) {
        // A word that is none was refused.
        let _ = router.set(key, value);
    }
}
