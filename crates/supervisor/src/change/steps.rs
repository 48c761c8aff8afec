//! Steps of a change: the processes that have to follow it are told one after the other, and rolled back if
//! one of them refuses.

use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use api::{Answer, Outcome};
use config::{Plan, Router};
use link::{PlanWithSupplies, ToPlane};
use telemetry::Kind;

use super::regroup::differ_in_sleep_only;
use super::{Change, PendingChange, Phase, PreparedPlan, RequestedChange, followed_here};
use crate::lifecycle::Attached;
use crate::plane::Plane;
use crate::request_router::Requester;
use crate::router_process::RouterProcess;
use crate::{Supervisor, control_plane, group_tables, kernels, schedule};

/// Reason given for a change during which the data plane died.
const DIED: &str = "the data plane died of it; it is started again with what ran before";

impl Supervisor {
    /// Starts to carry out a change for which everything that the plan needs is open.
    pub(super) fn make(&mut self, wish: PendingChange, next: PreparedPlan, now: Instant) {
        next.opened.notices().for_each(|line| self.events.record(Kind::Notice, line));
        self.changes.under_way = Some(Box::new(Change::new(wish, next)));
        let told = self.tell_data_plane(now);
        self.advance(told, now);
    }

    /// Does the next step once no reply is outstanding.
    fn advance(&mut self, told: Result<()>, now: Instant) {
        let Some(change) = &mut self.changes.under_way else { return };
        if let Err(error) = told {
            change.refusal.get_or_insert(error);
        }
        if !change.asked.is_empty() || change.waits_for_kernel {
            return;
        }
        match change.phase {
            Phase::Rollback => self.change_refused(now),
            _ if change.refusal.is_some() => self.roll_back(now),
            Phase::Plane => {
                change.phase = Phase::Processes;
                let told = self.tell_processes(now);
                self.advance(told, now);
            }
            Phase::Processes => {
                change.phase = Phase::Kernel;
                let told = self.tell_kernel();
                self.advance(told, now);
            }
            Phase::Kernel => {
                change.phase = Phase::Threads;
                let is_dry_run = change.wish.wanted.is_dry_run();
                match change.next.threads.take().filter(|_| !is_dry_run) {
                    Some(threads) => {
                        self.placement.pending.queue(threads, now);
                        self.attend_following(now);
                    }
                    None => self.advance(Ok(()), now),
                }
            }
            Phase::Threads => self.change_succeeded(now),
        }
    }

    /// Tells the data plane to follow, if its part of the plan changes.
    fn tell_data_plane(&mut self, now: Instant) -> Result<()> {
        let Some(Change { wish, next, .. }) = self.changes.under_way.as_deref() else { return Ok(()) };
        self.need_plane("try")?;
        let (from, to) = (self.running.plan.of_data_plane(), next.plan.of_data_plane());
        if from == to {
            return Ok(());
        }
        let has_all = differ_in_sleep_only(&self.running.plan, &next.plan);
        let attached = match &wish.wanted {
            RequestedChange::Setting(edit) if has_all || !edit.moves_routers() => Attached::default(),
            RequestedChange::File(_) | RequestedChange::Setting(_) => {
                self.attached(&next.opened, &next.plan)?
            }
        };
        let moves_routers = match &wish.wanted {
            RequestedChange::File(file) => !file.dry_run,
            RequestedChange::Setting(edit) => edit.moves_routers(),
        };
        if moves_routers {
            self.ceilings.allow_both(&self.running.plan, &next.plan);
        }
        let orders = self.orders(to, attached);
        self.ask_to_follow(None, orders, now);
        Ok(())
    }

    /// Tells those processes of routers to follow whose part of the plan changes. A process that is not up
    /// yet is started with the outcome.
    fn tell_processes(&mut self, now: Instant) -> Result<()> {
        let Some(Change { next, .. }) = self.changes.under_way.as_deref() else { return Ok(()) };
        let (from, to) = (&self.running.plan, &next.plan);
        let follows = |router: &&Router| {
            let before = from.of_isolated(&router.name);
            let is_up = self.isolated.get(&router.name).is_some_and(RouterProcess::is_up);
            is_up && before.is_some() && before != to.of_isolated(&router.name)
        };
        let told = to.isolated().filter(follows);
        let orders = |router: &Router| self.isolated_orders((&next.opened, to), &router.name);
        let told = told.map(|router| Ok((router.name.clone(), orders(router)?)));
        for (name, orders) in told.collect::<Result<Vec<_>>>()? {
            self.ask_to_follow(Some(name), orders, now);
        }
        Ok(())
    }

    /// Has the kernel routers follow.
    fn tell_kernel(&mut self) -> Result<()> {
        let Some(change) = &mut self.changes.under_way else { return Ok(()) };
        if !change.wish.wanted.is_dry_run() {
            change.waits_for_kernel = self.kernels.change(&self.running.plan, &change.next.plan)?;
        }
        Ok(())
    }

    /// The kernel routers have followed, or were changed back.
    pub(crate) fn kernel_has_followed(&mut self, outcome: Result<()>, now: Instant) {
        let Some(change) = &mut self.changes.under_way else { return };
        change.waits_for_kernel = false;
        match outcome {
            Err(error) if change.phase == Phase::Rollback => {
                let what = format!("not all that the host's kernel forwards for is what it was: {error:#}");
                self.events.record(Kind::Failed, what);
                self.advance(Ok(()), now);
            }
            outcome => {
                change.kernel_has_followed = change.phase == Phase::Kernel && outcome.is_ok();
                self.advance(outcome, now);
            }
        }
    }

    fn ask_to_follow(&mut self, whom: Option<String>, told: (PlanWithSupplies, Vec<OwnedFd>), now: Instant) {
        let Some(change) = &mut self.changes.under_way else { return };
        change.asked.insert(whom.clone());
        let dry_run = change.wish.wanted.is_dry_run();
        let (id, (orders, descriptors)) =
            (self.request_router.number_of(whom.clone(), Requester::Change), told);
        self.say_to(whom.as_deref(), &ToPlane::Apply { id, orders, dry_run }, descriptors, now);
    }

    /// Records the reply of a process; `None`: the process died.
    pub(crate) fn has_followed(&mut self, whom: Option<&str>, outcome: Option<Outcome>, now: Instant) {
        let whom = whom.map(str::to_owned);
        let Some(change) = &mut self.changes.under_way else { return };
        if !change.asked.remove(&whom) {
            return;
        }
        let told = match outcome {
            Some(Err(error)) if change.phase == Phase::Rollback => {
                return self.rollback_failed(whom.as_deref(), &error.to_string(), now);
            }
            _ if change.phase == Phase::Rollback => Ok(()),
            Some(Ok(Answer::Applied { changes, .. })) => {
                change.changes.extend(changes);
                change.followed.push(whom);
                Ok(())
            }
            Some(Ok(_)) => Err(anyhow!("the data plane did not say what it changed")),
            Some(Err(error)) => Err(error.into()),
            None if whom.is_none() => Err(anyhow!(DIED)),
            // A dead process is restarted with the outcome of the change.
            None => Ok(()),
        };
        self.advance(told, now);
    }

    /// Records whether the threads have moved, or stay where they were.
    pub(crate) fn threads_have_followed(&mut self, outcome: Result<()>, now: Instant) {
        let Some(change) = &self.changes.under_way else { return };
        let outcome = outcome.with_context(|| match &change.wish.wanted {
            RequestedChange::Setting(edit) => format!("router {}: {}", edit.router, edit.key),
            RequestedChange::File(_) => "threads cannot be scheduled as the file says".to_owned(),
        });
        self.advance(outcome, now);
    }

    /// Handles the death of the data plane during a change, whether or not its reply was outstanding:
    /// processes that have followed are rolled back to the plan that it is restarted with.
    pub(crate) fn change_has_lost_plane(&mut self, now: Instant) {
        let Some(change) = &mut self.changes.under_way else { return };
        change.followed.retain(Option::is_some);
        if change.phase != Phase::Rollback {
            self.placement.pending.give_up();
            self.advance(Err(anyhow!(DIED)), now);
        }
    }

    /// Rolls back the processes that have followed, last one first.
    fn roll_back(&mut self, now: Instant) {
        let Some(change) = &mut self.changes.under_way else { return };
        change.phase = Phase::Rollback;
        let mut followed = std::mem::take(&mut change.followed);
        if change.wish.wanted.is_dry_run() {
            followed.clear();
        }
        if std::mem::take(&mut change.kernel_has_followed) {
            // This plan was in force before, so it is valid for `change`.
            change.waits_for_kernel =
                self.kernels.change(&change.next.plan, &self.running.plan).unwrap_or_default();
        }
        for whom in followed.into_iter().rev() {
            match self.orders_of_what_runs(whom.as_deref()) {
                Ok(orders) => self.ask_to_follow(whom, orders, now),
                Err(error) => self.end_it(whom.as_deref(), &format!("{error:#}"), now),
            }
        }
        self.advance(Ok(()), now);
    }

    /// Ends a process that fails to roll back; it is restarted with the running plan.
    fn rollback_failed(&mut self, whom: Option<&str>, why: &str, now: Instant) {
        self.end_it(whom, why, now);
        self.advance(Ok(()), now);
    }

    fn end_it(&mut self, whom: Option<&str>, why: &str, now: Instant) {
        let how = format!("was killed, because it does not become what it was: {why}");
        let pid = self.lifecycle.plane.as_ref().map(Plane::pid);
        // Errors concern a process that never came up; this one did.
        let _ = match (whom, pid) {
            (Some(name), _) => self.router_process_died(name, &how, now),
            (None, Some(pid)) => self.plane_died(pid, &how, now),
            (None, None) => Ok(()),
        };
    }

    fn change_refused(&mut self, now: Instant) {
        let Some(change) = self.changes.under_way.take() else { return };
        let Change { wish, next, refusal, .. } = *change;
        next.opened.close(&mut self.link_jobs);
        self.refuse(wish, &refusal.unwrap_or_else(|| anyhow!("it was taken back")), now);
    }

    fn change_succeeded(&mut self, now: Instant) {
        let Some(mut change) = self.changes.under_way.take() else { return };
        let (from, to) = (&self.running.plan, &change.next.plan);
        change.changes.extend(schedule::changes(from, to));
        change.changes.extend(process_changes(from, to));
        change.changes.extend(group_tables::changes(from, to));
        change.changes.extend(kernels::changes(from, to));
        change.changes.extend(control_plane::changes(from, to));
        change.changes.extend(followed_here::changes(from, to));
        self.commit(*change, now);
    }
}

/// Processes that begin or end by a change.
fn process_changes(from: &Plan, to: &Plan) -> Vec<api::Change> {
    let is_in = |plan: &Plan, router: &Router| plan.isolated().any(|other| other.name == router.name);
    let gone = from.isolated().filter(|old| !is_in(to, old)).map(|old| api::Change {
        hitless: false,
        what: format!("router {}: its process ends", old.name),
        why: Some("what it has not yet forwarded is lost".to_owned()),
    });
    let new = to.isolated().filter(|new| !is_in(from, new)).map(|new| api::Change {
        hitless: true,
        what: format!("router {}: it gets a process of its own", new.name),
        why: None,
    });
    gone.chain(new).collect()
}
