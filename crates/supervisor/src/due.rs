//! When something is to be done next, whatever comes until then.

use std::time::{Duration, Instant};

use super::apart::Apart;
use super::{SECOND, Supervisor};

impl Supervisor {
    /// How long nothing is due.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let due = [
            self.life.again,
            self.times.tick,
            self.times.end,
            self.times.ending,
            self.metrics.deadline(),
            self.placing.due(),
            self.accounting.due(),
            self.lock.due(),
            self.ceilings.due(),
            self.gathers_due(),
            self.dying.due(),
            self.children.dying.due(),
        ];
        // Without a data plane none of them is started.
        let again = |apart: &Apart| apart.life.again.filter(|_| self.is_up());
        let lives = self.apart.values().map(|apart| &apart.life).chain([&self.life]);
        let planes = lives.filter_map(|life| life.plane.as_ref());
        let planes = planes.flat_map(|plane| [plane.due(), plane.stderr.due()]);
        let left = due
            .into_iter()
            .chain(self.apart.values().map(again))
            .chain(planes)
            .flatten()
            .min()
            .map(|due| due.saturating_duration_since(now));
        left.map_or(SECOND, |left| left.min(SECOND)).min(self.desk.server.patience())
    }
}
