//! Links of NICs that somebody has deleted are opened anew as soon as that can be done, and handed to whoever serves them:
//! after a second, then after pauses that double up to half a minute.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use telemetry::Kind;

use super::Supervisor;
use crate::link::ToPlane;

/// Between two looks at the links, and before the first attempt.
const LOOK: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(30);

/// What is to be mended, and when.
#[derive(Debug, Default)]
pub(super) struct Mending {
    look: Option<Instant>,
    /// By NIC (`edge.wan`): when to try next, and the pause after that.
    links: BTreeMap<String, (Instant, Duration)>,
}

impl Mending {
    /// Whether it is time to look at the links again.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.look.is_none_or(|look| now >= look);
        if due {
            self.look = Some(now + LOOK);
        }
        due
    }

    /// Whether to try now to open the link of a NIC, which is gone.
    fn try_now(&mut self, nic: &str, now: Instant) -> bool {
        let (at, pause) = self.links.entry(nic.to_owned()).or_insert((now + LOOK, LOOK));
        if now < *at {
            return false;
        }
        *pause = (*pause * 2).min(LONGEST);
        *at = now + *pause;
        true
    }
}

impl Supervisor {
    /// Opens links that are gone, where it is time to.
    pub(super) fn mend(&mut self, now: Instant) {
        if !self.mending.is_due(now) {
            return;
        }
        let gone = self.resources.gone(&self.running.plan);
        self.mending.links.retain(|nic, _| gone.contains(nic));
        for nic in gone {
            if !self.mending.links.contains_key(&nic) {
                let line =
                    format!("NIC {nic}: its link was deleted; it is made again as soon as that can be done");
                self.events.tell(Kind::Notice, line);
            }
            if self.mending.try_now(&nic, now)
                && let Ok(Some((what, descriptors))) = self.resources.reopen(&self.running.plan, &nic)
            {
                self.mending.links.remove(&nic);
                self.events.tell(Kind::Notice, format!("NIC {nic}: its link is there again"));
                if let Some(plane) = &mut self.life.plane {
                    plane.say(&ToPlane::Replace { nic, what }, descriptors, now);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let (mut mending, start) = (Mending::default(), Instant::now());
        let mut tries = Vec::new();
        for second in 0..200 {
            if mending.try_now("edge.wan", start + Duration::from_secs(second)) {
                tries.push(second);
            }
        }
        assert_eq!(tries, [1, 3, 7, 15, 31, 61, 91, 121, 151, 181]);
    }
}
