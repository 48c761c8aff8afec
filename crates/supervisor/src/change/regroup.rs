//! Groups with other numbers: of members, of those that are awake, of spare ones, of balancers.

use std::time::Instant;

use anyhow::Result;
use config::Plan;

use super::{Edit, PendingChange, PreparedPlan};
use crate::Supervisor;
use crate::resources::Resources;

impl Supervisor {
    /// Starts opening what a plan with such a number needs, as [`Self::opened_for`] does. Where members only wake or go to sleep all of it
    /// is there: a member that wakes does not wait for a thread.
    pub(super) fn opened_for_group(
        &mut self,
        wish: &PendingChange,
        Edit { router, key, value, .. }: &Edit,
        now: Instant,
    ) -> Result<(PreparedPlan, bool)> {
        let plan = self.running.plan.with(router, key, value)?;
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
