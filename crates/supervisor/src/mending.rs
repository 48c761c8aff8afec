//! Links of NICs that somebody has deleted, ours or those that we have only taken (`xdp:`), are opened anew as soon as that can be
//! done, and handed to whoever serves them: after a second, then after pauses that double up to half a minute. So are those put in again that are out of their
//! bridge, because that was deleted and made again, or Open vSwitch has lost them. A thread does it, one thing at a time:
//! Open vSwitch may take seconds to answer, for which nobody else waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use engine::open_uplink;
use link::ToPlane;
use telemetry::Kind;
use uplink::{Membership, Opened};

use super::Supervisor;
use super::errand::Errand;

/// Before the first attempt.
const LOOK: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(30);

/// What is to be mended, and when.
#[derive(Debug, Default)]
pub(super) struct Mending {
    /// By NIC (`edge.wan`).
    links: BTreeMap<String, Trouble>,
    at_work: Errand<Mended>,
}

/// A link that is not as it should be.
#[derive(Debug)]
struct Trouble {
    next: Instant,
    /// After that.
    pause: Duration,
    told: bool,
}

/// What the thread has done for a NIC.
#[derive(Debug)]
enum Mended {
    /// Opened its link anew, if it has one.
    Link(String, Result<Option<Opened>>),
    /// Put its link into the bridge again; true if it was out.
    Bridge(String, Result<(Membership, bool), uplink::Error>),
}

impl Mending {
    /// Whether to try now to mend the link of a NIC.
    fn try_now(&mut self, nic: &str, now: Instant) -> bool {
        let first = Trouble { next: now + LOOK, pause: LOOK, told: false };
        let trouble = self.links.entry(nic.to_owned()).or_insert(first);
        if now < trouble.next || self.at_work.is_at_work() {
            return false;
        }
        trouble.pause = (trouble.pause * 2).min(LONGEST);
        trouble.next = now + trouble.pause;
        true
    }

    /// True the first time, as long as it is not mended.
    fn is_news(&mut self, nic: &str) -> bool {
        self.links.get_mut(nic).is_some_and(|trouble| !std::mem::replace(&mut trouble.told, true))
    }

    /// Whether somebody was told; it is mended now.
    fn is_over(&mut self, nic: &str) -> bool {
        self.links.remove(nic).is_some_and(|trouble| trouble.told)
    }

    fn start(&mut self, work: impl FnOnce() -> Mended + Send + 'static) {
        // Where none can be started now it is tried again later.
        self.at_work.start("ringroad/mending", work);
    }

    /// What to poll for reading.
    pub(super) fn watched(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.at_work.watched()
    }
}

impl Supervisor {
    /// Takes what was mended.
    pub(super) fn mend(&mut self, now: Instant) {
        match self.mending.at_work.finished() {
            Some(Mended::Link(nic, opened)) => self.put_in_place(nic, opened, now),
            Some(Mended::Bridge(nic, joined)) => self.note_membership(&nic, joined),
            None => {}
        }
    }

    /// Looks after links that are gone or out of their bridge, as it was seen.
    pub(super) fn mend_what_is_broken(
        &mut self,
        gone: BTreeSet<String>,
        out: Vec<(String, Membership)>,
        now: Instant,
    ) {
        let gone = self.resources.are_made(&self.running.plan, gone);
        self.mending.links.retain(|nic, _| gone.contains_key(nic) || out.iter().any(|(out, _)| out == nic));
        for (nic, is_made) in gone {
            self.open_anew(nic, is_made, now);
        }
        for (nic, mut member) in out {
            if self.mending.try_now(&nic, now) {
                self.mending.start(move || {
                    let joined = member.restore();
                    Mended::Bridge(nic, joined.map(|was_out| (member, was_out)))
                });
            }
        }
    }

    fn open_anew(&mut self, nic: String, is_made: bool, now: Instant) {
        let due = self.mending.try_now(&nic, now);
        if self.mending.is_news(&nic) {
            let what = if is_made {
                "its link was deleted; it is made again as soon as that can be done"
            } else {
                "its interface is gone; it is taken again as soon as it is there and up"
            };
            self.events.tell(Kind::Notice, format!("NIC {nic}: {what}"));
        }
        let found =
            self.running.plan.nics().find(|(router, found)| is_named(&nic, &router.name, &found.name));
        if let (true, Some((router, found))) = (due, found) {
            let (router, found) = (router.clone(), found.clone());
            self.mending.start(move || Mended::Link(nic, open_uplink(&router, &found)));
        }
    }

    /// Hands a link that was opened anew to whoever serves it.
    fn put_in_place(&mut self, nic: String, opened: Result<Option<Opened>>, now: Instant) {
        let Ok(Some(opened)) = opened else { return };
        let Ok(Some((what, descriptors))) = self.resources.replace(&self.running.plan, &nic, opened) else {
            return;
        };
        self.mending.links.remove(&nic);
        self.events.tell(Kind::Notice, format!("NIC {nic}: its link is there again"));
        if let Some(plane) = &mut self.life.plane {
            plane.say(&ToPlane::Replace { nic, what }, descriptors, now);
        }
    }

    fn note_membership(&mut self, nic: &str, joined: Result<(Membership, bool), uplink::Error>) {
        match joined {
            Ok((member, was_out)) => {
                let place = member.place();
                self.resources.set_membership(&self.running.plan, nic, member);
                if self.mending.is_over(nic) || was_out {
                    self.events.tell(Kind::Notice, format!("NIC {nic}: its link is in {place} again"));
                }
            }
            Err(error) if self.mending.is_news(nic) => {
                let line = format!("NIC {nic}: {error}; it is put in again as soon as that can be done");
                self.events.tell(Kind::Notice, line);
            }
            Err(_) => {}
        }
    }
}

/// Whether a NIC of a router is the one called `edge.wan`.
fn is_named(name: &str, router: &str, nic: &str) -> bool {
    name.split_once('.') == Some((router, nic))
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
