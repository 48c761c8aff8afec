//! Changes of the threads' placement, carried out at once, or as soon as no other run changes what all runs
//! of an owner share.
//!
//! The event loop does not block on that other run. It retries for a minute; then the change that the
//! placement belongs to is refused.

use std::time::{Duration, Instant};

use anyhow::Result;
use sched::Outline;
use sched::promises::Promises;
use telemetry::Kind;

use super::Supervisor;
use super::thread_placement::Planned;

/// Time for which another run may hold what all runs share. Some milliseconds are usual; on a busy host it may wait for a grace period of
/// the kernel, which takes seconds, for each thread and process that it moves to another control group.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(10);

/// Placement that waits to be carried out.
struct Waiting {
    planned: Planned,
    next: Instant,
    until: Instant,
}

/// Queue of at most one placement.
#[derive(Default)]
pub(super) struct PendingPlacement {
    waiting: Option<Waiting>,
    /// Since when the weights that promises ask for differ from those in force.
    owed: Option<Instant>,
}

impl PendingPlacement {
    /// Queues a placement, in place of any that waits.
    pub(super) fn queue(&mut self, planned: Planned, now: Instant) {
        self.waiting = Some(Waiting { planned, next: now, until: now + PATIENCE });
    }

    /// Returns true if a placement waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Drops the placement that waits.
    pub(super) fn give_up(&mut self) {
        self.waiting = None;
    }

    /// When to try again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|waiting| waiting.next)
    }
}

impl Supervisor {
    /// Carries out the placement that waits, if that is possible now.
    pub(super) fn attend_following(&mut self, now: Instant) {
        let pending = &mut self.placement.pending;
        let Some(waiting) = pending.waiting.take_if(|waiting| now >= waiting.next) else { return };
        let outcome = match self.try_outline(&waiting.planned.outline, now) {
            Ok(true) => {
                self.promise(waiting.planned.promises);
                Ok(())
            }
            Ok(false) if now < waiting.until => {
                self.placement.pending.waiting = Some(Waiting { next: now + LOOK, ..waiting });
                return;
            }
            Ok(false) => Err(self.placement.locked_out()),
            Err(error) => Err(error),
        };
        self.threads_have_followed(outcome, now);
    }

    /// Replaces the promises.
    fn promise(&mut self, promises: Option<Promises>) {
        if promises.is_none() {
            self.remember_costs();
        }
        let before = std::mem::replace(&mut self.placement.promises, promises);
        if let (Some(promises), Some(before)) = (&mut self.placement.promises, before) {
            // The old controller kept working while the new one was made and the processes followed.
            promises.resume(&before);
        }
        self.tell_of_costs();
    }

    /// Moves threads to the places of another outline. Returns false while another run holds what all runs
    /// share.
    fn try_outline(&mut self, outline: &Outline, now: Instant) -> Result<bool> {
        let before = self.placement.sharing(None);
        if !self.placement.applier.try_lock(outline)? {
            return Ok(false);
        }
        let followed = self.placement.follow(outline.clone(), now);
        self.placement.applier.unlock();
        followed?;
        self.place(now);
        if self.placement.sharing(None) != before {
            let names: Vec<String> = self.isolated.keys().cloned().collect();
            for whom in std::iter::once(None).chain(names.iter().map(|name| Some(name.as_str()))) {
                self.send_cpu_sharing(whom, now);
            }
        }
        Ok(true)
    }

    /// Adjusts the scheduling for promises by what was counted.
    pub(super) fn keep_promises(&mut self, counters: &api::Counters, now: Instant) {
        let Some((changed, news)) = self.placement.look_at_promises(counters, now) else { return };
        for (router, line) in news {
            self.events.record_from_data_plane(Kind::Notice.name(), Some(&router), line, now);
            self.display.leave();
        }
        if changed || self.placement.pending.owed.is_some() {
            self.weigh(now);
        }
        self.tell_of_costs();
    }

    /// Sets the weights that promises ask for. If that is impossible now, their next look tries again.
    fn weigh(&mut self, now: Instant) {
        let pending = &mut self.placement.pending;
        let since = *pending.owed.get_or_insert(now);
        if pending.is_waiting() {
            return;
        }
        let weighed = self.placement.weighed();
        let why = match weighed.and_then(|outline| self.try_outline(&outline, now)) {
            Ok(true) => None,
            Ok(false) if now < since + PATIENCE => return,
            Ok(false) => Some(self.placement.locked_out()),
            Err(error) => Some(error),
        };
        self.placement.pending.owed = None;
        if let Some(why) = why {
            self.events.record(Kind::Notice, format!("weights stay as they were: {why:#}"));
        }
    }
}
