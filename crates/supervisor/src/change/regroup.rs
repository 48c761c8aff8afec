//! Groups with other numbers: of members, of those that are awake, of spare ones, of balancers.

use std::time::Instant;

use anyhow::{Result, anyhow};
use config::{GroupKind, Plan};

use super::{Edit, PendingChange, PreparedPlan};
use crate::Supervisor;
use crate::resources::Resources;

impl Supervisor {
    /// The plan with such a number, where a setting is one.
    pub(super) fn regrouped(&self, Edit { router, key, value, .. }: &Edit) -> Option<Result<Plan>> {
        let plan = &self.running.plan;
        let group = plan.group(router)?;
        let with = match key.as_str() {
            GroupKind::AWAKE_KEY => Plan::with_awake,
            GroupKind::SPARE_KEY => Plan::with_spare,
            GroupKind::BALANCERS_KEY => Plan::with_balancers,
            key if key == group.members_key() => Plan::with_members,
            _ => return None,
        };
        let number = value
            .parse::<u32>()
            .map_err(|_| anyhow!("group {router}: {key}: {value:?} is no number; write e.g. 3"));
        Some(number.and_then(|number| Ok(with(plan, router, number)?)))
    }

    /// Starts opening what such a plan needs, as [`Self::opened_for`] does. Where members only wake or go to sleep all of it is there: a
    /// member that wakes does not wait for a thread.
    pub(super) fn opened_for_group(
        &mut self,
        wish: &PendingChange,
        plan: Plan,
        now: Instant,
    ) -> Result<(PreparedPlan, bool)> {
        if !differ_in_sleep_only(&self.running.plan, &plan) {
            return self.opened_for(wish, plan, now);
        }
        self.need_plane("try")?;
        Ok((PreparedPlan { plan, opened: Resources::default(), threads: None, metrics: None }, true))
    }
}

/// Whether two plans differ in nothing but in which members of groups sleep, and in how many are spare ones.
pub(super) fn differ_in_sleep_only(from: &Plan, to: &Plan) -> bool {
    let mut like = to.clone();
    for (group, before) in like.groups.iter_mut().zip(&from.groups) {
        (group.parked, group.spare) = (before.parked, before.spare);
    }
    like == *from
}
