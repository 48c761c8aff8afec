//! Spare members of groups: one that has woken is followed by another one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::Ticket;
use config::{Group, GroupKind};
use telemetry::Kind;

use super::{Edit, QueuedRequest, RequestedChange};
use crate::Supervisor;

/// Time that a member gets to take over its part before another one is started beside it.
const SETTLES: Duration = Duration::from_millis(100);
/// Time between two attempts to start one.
const PAUSE: Duration = Duration::from_secs(10);

/// Groups that lack spare members.
#[derive(Default)]
pub(super) struct Spares {
    /// When the missing ones are to be started, by group.
    due: BTreeMap<String, Instant>,
    /// Why they could not be started, as far as that was told, by group.
    told: BTreeMap<String, String>,
}

impl RequestedChange {
    /// That a group has all its spare members.
    fn spares(group: &Group) -> Self {
        let (router, key) = (group.name.clone(), GroupKind::SPARE_KEY.to_owned());
        Self::Setting(Edit { router, key, value: group.spare.to_string(), answer: None })
    }
}

impl Supervisor {
    /// Starts members in the place of spare ones that have woken.
    pub(super) fn attend_spares(&mut self, now: Instant) {
        let groups = &self.running.plan.groups;
        let lacks = |name: &String| groups.iter().any(|group| group.name == *name && group.lacks_spares());
        let Spares { due, told } = &mut self.changes.spares;
        due.retain(|name, _| lacks(name));
        told.retain(|name, _| lacks(name));
        for group in groups.iter().filter(|group| group.lacks_spares()) {
            due.entry(group.name.clone()).or_insert(now + SETTLES);
        }
        let next = due.iter().find(|(_, due)| now >= **due).map(|(name, _)| name.clone());
        let Some(group) = next.and_then(|name| self.running.plan.group(&name)) else { return };
        if self.may_start_spares() {
            let wanted = RequestedChange::spares(group);
            self.changes.spares.due.insert(group.name.clone(), now + PAUSE);
            self.want(Ticket::NOBODY, QueuedRequest::Change(wanted), now);
        }
    }

    /// Whether nothing else is changed, and somebody can follow.
    fn may_start_spares(&self) -> bool {
        let is_up = self.lifecycle.was_up && self.is_up() && self.times.ending.is_none();
        is_up && self.changes.is_idle() && self.rolling.is_none()
    }

    /// When it is time to.
    pub(crate) fn spares_due(&self) -> Option<Instant> {
        self.changes.spares.due.values().min().copied().filter(|_| self.may_start_spares())
    }

    /// Reports why a group has no spare members: once, as long as the reason stays.
    pub(super) fn tell_of_spares(&mut self, wanted: &RequestedChange, why: &str, now: Instant) {
        let RequestedChange::Setting(Edit { router, key, .. }) = wanted else { return };
        if key != GroupKind::SPARE_KEY {
            return;
        }
        let told = self.changes.spares.told.insert(router.clone(), why.to_owned());
        if told.as_deref() != Some(why) {
            let what = format!("no spare member can be started, which is tried again: {why}");
            self.tell_of(router, Kind::Notice, what, now);
        }
    }
}
