//! Applies a file to a running instance by difference: what is the same in both plans is not touched.
//!
//! | what differs | how it is changed | hitless |
//! |---|---|---|
//! | a switch that is new or removed, or its ageing time | at once; no NIC is on a switch that is removed | yes |
//! | a router that is new | it is started | yes |
//! | a router that is removed | it is taken down | for all others |
//! | a switch port of a kernel router | it is opened or closed; no router is affected | yes |
//! | static routes | in the table that the vCPUs read, in one step for each router | yes |
//! | `pin`, `affinity`, `sched` | not here: the owner of the instance places its threads | yes |
//! | `restart`, `limit` | at once | yes |
//! | `spin` | its I/O threads at once, its firmware at the next boot | yes |
//! | `state`, `link` of a NIC | at once | no: frames that arrive while it is stopped, or the cable is out, are lost |
//! | anything else of a router | it is replaced: built anew, then the old one is taken down, the new one started | no: firmware reads it at boot |
//!
//! Everything that can be refused is acquired before anything is changed. A failure after that point is
//! rolled back, in reverse order.

pub(crate) mod difference;
mod transaction;

use anyhow::{Context, Result};
use config::{Plan, Router};

use crate::instance::{Instance, settled};
use crate::kernel_port::behind;
use crate::supplies::HostServices;
use difference::{RouteChange, Setting, Step, describe_restart, describe_route, router};
use transaction::Transaction;

/// One change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Description: `router edge: route 10.0.0.0/8 via 192.0.2.254 out of wan added`.
    pub what: String,
    /// Why it is not hitless, or not yet complete; `None`: no frame is lost by it.
    pub why: Option<String>,
}

impl Change {
    /// Creates a change that costs no frame.
    pub(crate) fn hitless(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: None }
    }

    /// Returns true if no frame is lost by it.
    pub fn is_hitless(&self) -> bool {
        self.why.is_none()
    }
}

impl Instance {
    /// Returns the changes that [`Instance::apply`] would make, without touching anything.
    pub fn changes_to(&mut self, plan: &Plan) -> Vec<Change> {
        let plan = settled(plan, Some(&self.plan), &mut self.context.backends);
        let steps = difference::difference(&self.plan.without_isolated(), &plan.without_isolated());
        let changes = steps.iter().flat_map(|step| describe(step, &self.plan, &plan));
        changes.chain(self.plugged_anew(&plan)).chain(self.of_groups(&plan)).collect()
    }

    /// Returns the groups whose frames are spread in another way, or that have other members awake.
    fn of_groups(&self, plan: &Plan) -> Vec<Change> {
        let mut changes = Vec::new();
        for group in &plan.groups {
            let Some(old) = self.plan.group(&group.name) else { continue };
            let name = &group.name;
            if old.spread != group.spread {
                changes.push(Change::hitless(format!("group {name}: spread = {}", group.spread.name())));
            }
            if old.balancers() != group.balancers() {
                changes.push(Change::hitless(format!("group {name}: balancers = {}", group.balancers())));
            }
            if old.parked != group.parked {
                let (awake, all) = (group.awake(), group.members);
                changes.push(Change::hitless(format!("group {name}: {awake} of {all} members are awake")));
            }
        }
        changes
    }

    /// Returns the isolated routers whose NICs are plugged in anew.
    fn plugged_anew(&self, plan: &Plan) -> Vec<Change> {
        let isolated_paths = self.isolated_paths.iter().filter(|paths| {
            let stays = plan.isolated().any(|router| router.name == paths.plan.name);
            stays && !plan.isolated().any(|router| paths.fits(router))
        });
        let why = || Some("frames on their way are lost".to_owned());
        let change =
            |name: &str| Change { what: format!("router {name}: its NICs are plugged in anew"), why: why() };
        isolated_paths.map(|paths| change(&paths.plan.name)).collect()
    }

    /// Makes the instance follow the plan. Routers that are new or replaced serve when this returns, except
    /// those that the plan has stopped; a router that has powered itself off stays so unless the plan starts
    /// it.
    ///
    /// # Errors
    /// One line: the request that was refused. Then everything is as it was; a router that had already been
    /// taken down was restarted.
    pub fn apply(&mut self, plan: &Plan, supplies: impl Into<HostServices>) -> Result<Vec<Change>> {
        let mut supplies = supplies.into();
        supplies.learning = self.context.learning.clone();
        supplies.tables = self.context.tables.clone();
        supplies.tables.adopt(std::mem::take(&mut supplies.groups)).context("nothing was changed")?;
        self.context.backends.add(supplies.kvm.take(), supplies.spawner.take());
        // An earlier change may have been refused.
        self.context.backends.keep_images(&self.plan);
        self.context.backends.add_images(std::mem::take(&mut supplies.images));
        let plan = settled(plan, Some(&self.plan), &mut self.context.backends);
        let steps = difference::difference(&self.plan.without_isolated(), &plan.without_isolated());
        let changes = steps.iter().flat_map(|step| describe(step, &self.plan, &plan));
        let changes = changes.chain(self.plugged_anew(&plan)).chain(self.of_groups(&plan)).collect();
        let ports = behind(&plan, &self.kernel_ports, &mut supplies).context("nothing was changed")?;
        let transaction = Transaction::prepare(self, &plan, &steps, supplies)?;
        let closed = self.close_kernel_ports(&plan);
        let done = transaction.carry_out(self, plan, &steps);
        match &done {
            Ok(()) => self.follow_kernel_ports(ports, closed),
            Err(_) => self.reopen_kernel_ports(closed),
        }
        self.context.backends.keep_images(&self.plan);
        self.keep_time();
        done.map(|()| changes)
    }
}

/// Describes a step in words; yields several changes for a step that changes several routes.
fn describe(step: &Step, from: &Plan, to: &Plan) -> Vec<Change> {
    let lost = |what: String, why: &str| Change { what, why: Some(why.to_owned()) };
    vec![match step {
        Step::AddSwitch(name) => Change::hitless(format!("switch {name} added")),
        Step::RemoveSwitch(name) => Change::hitless(format!("switch {name} removed")),
        Step::SetAgeing(name) => {
            let switch = to.switches.iter().find(|switch| switch.name == *name);
            let seconds = switch.map_or(0, |switch| switch.ageing.as_secs());
            Change::hitless(format!("switch {name}: ageing = {seconds}"))
        }
        Step::AddRouter(name) => Change::hitless(format!("router {name} added")),
        Step::RemoveRouter(name) => {
            lost(format!("router {name} removed"), "what it has not yet forwarded is lost")
        }
        Step::ReplaceRouter(name, why) => Change {
            what: format!("router {name} replaced"),
            why: Some(format!("it cannot change this while it runs: {}", why.join(", "))),
        },
        Step::ChangeRoutes(name, routes) => {
            return routes.iter().filter_map(|route| describe_change(route, name, from, to)).collect();
        }
        Step::Adjust(name, settings) => {
            let adjusted = router(to, name).into_iter();
            return adjusted
                .flat_map(|to| settings.iter().map(|setting| describe_setting(setting, to)))
                .collect();
        }
        Step::Power(name) if router(to, name).is_some_and(Router::is_stopped) => {
            lost(format!("router {name} is stopped"), "what arrives while it is stopped is lost")
        }
        Step::Power(name) => Change::hitless(format!("router {name} runs")),
    }]
}

fn describe_setting(setting: &Setting, to: &Router) -> Change {
    let name = &to.name;
    match setting {
        Setting::Restart => Change::hitless(format!("router {name} is {}", describe_restart(to.restart))),
        Setting::Limit => {
            let limit = to.limit.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
            Change::hitless(format!("router {name}: limit = {limit}"))
        }
        Setting::Spin => Change {
            what: format!("router {name}: spin = {}", to.spin),
            why: (!to.is_stopped()).then(|| {
                "its I/O threads follow at once, its firmware is told when it boots: restart it for both"
                    .to_owned()
            }),
        },
        Setting::Link(nic) => {
            let is_pulled = to.nics.iter().any(|known| known.name == *nic && known.is_pulled());
            let what =
                format!("router {name}: the link of {nic} is {}", if is_pulled { "down" } else { "up" });
            Change { what, why: is_pulled.then(|| "what arrives while it is down is lost".to_owned()) }
        }
    }
}

fn describe_change(change: &RouteChange, name: &str, from: &Plan, to: &Plan) -> Option<Change> {
    let (old, new) = (router(from, name)?, router(to, name)?);
    let what = match change {
        RouteChange::Add(route) => format!("route {} added", describe_route(new, route)),
        RouteChange::Turn(_, route) => format!("route now {}", describe_route(new, route)),
        RouteChange::Remove(route) => format!("route {} removed", describe_route(old, route)),
    };
    Some(Change::hitless(format!("router {name}: {what}")))
}
