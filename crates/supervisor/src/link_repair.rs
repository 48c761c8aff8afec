//! Repair of NICs' links. A link that somebody has deleted, ours or one that we only use (`xdp:`), is opened
//! anew as soon as possible and handed to the process that serves it. Attempts start after a second, with
//! pauses that double up to half a minute. A link that is out of its bridge, because the bridge was deleted
//! and made again or Open vSwitch has lost the port, is put back. A thread does one repair at a time: Open
//! vSwitch may take seconds to answer, and the event loop must not wait for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use attach::{HandedOver, HostResource, NicRequirements, Restored, Watched};
use link::ToPlane;
use telemetry::Kind;

use super::Supervisor;
use super::background_job::BackgroundJob;
use super::resources::wanted;

/// Delay of the first attempt.
const LOOK: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(30);

/// Links to repair, with the date of the next attempt.
#[derive(Debug, Default)]
pub(super) struct LinkRepair {
    /// By NIC (`edge.wan`).
    links: BTreeMap<String, RepairSchedule>,
    at_work: BackgroundJob<RepairResult>,
}

/// Damage to a link.
#[derive(Debug)]
pub(super) enum LinkFault {
    /// Somebody has deleted it.
    Gone,
    /// It is not where it belongs; this handle can put it back.
    OutOfPlace(Box<dyn Watched>),
}

/// A damaged link.
#[derive(Debug)]
struct RepairSchedule {
    next: Instant,
    /// Pause after the next attempt.
    pause: Duration,
    told: bool,
}

/// Result of a repair by the thread.
#[derive(Debug)]
enum RepairResult {
    /// Attempted to open anew what this NIC wants; `None` if that needs nothing of the host.
    Opened(NicRequirements, Result<Option<Box<dyn HostResource>>>),
    /// Attempted to put the link of this NIC back where it belongs.
    Restored(String, Result<Restored>),
}

impl LinkRepair {
    /// Returns true if an attempt to repair the link of a NIC is due now, and schedules the next one.
    fn try_now(&mut self, nic: &str, now: Instant) -> bool {
        let first = RepairSchedule { next: now + LOOK, pause: LOOK, told: false };
        let trouble = self.links.entry(nic.to_owned()).or_insert(first);
        if now < trouble.next || self.at_work.is_at_work() {
            return false;
        }
        trouble.pause = (trouble.pause * 2).min(LONGEST);
        trouble.next = now + trouble.pause;
        true
    }

    /// Returns true once for each damage, so that it is reported once.
    fn is_news(&mut self, nic: &str) -> bool {
        self.links.get_mut(nic).is_some_and(|trouble| !std::mem::replace(&mut trouble.told, true))
    }

    /// Notes that a link is repaired. Returns true if its damage was reported.
    fn is_over(&mut self, nic: &str) -> bool {
        self.links.remove(nic).is_some_and(|trouble| trouble.told)
    }

    fn start(&mut self, work: impl FnOnce() -> RepairResult + Send + 'static) {
        // If no thread can be started now, a later attempt follows.
        self.at_work.start("ringroad/mending", work);
    }

    /// Starts a repair that has opened this for a NIC.
    #[cfg(test)]
    pub(super) fn has_opened(&mut self, wanted: NicRequirements, opened: Box<dyn HostResource>) {
        self.start(move || RepairResult::Opened(wanted, Ok(Some(opened))));
    }

    /// Descriptor to poll for reading.
    pub(super) fn watched(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.at_work.watched()
    }
}

impl Supervisor {
    /// Returns true if a repaired link can be put in its place: the links are here, and the data plane follows
    /// the running plan. During a change it may follow the next one, in which the NIC may have another link.
    pub(super) fn may_mend(&self) -> bool {
        !self.resources.are_being_prepared() && self.changes.plan().is_none()
    }

    /// Takes the result of a finished repair.
    pub(super) fn mend(&mut self, now: Instant) {
        if !self.may_mend() {
            return;
        }
        match self.link_repair.at_work.finished() {
            Some(RepairResult::Opened(wanted, opened)) => self.put_in_place(wanted, opened, now),
            Some(RepairResult::Restored(nic, restored)) => self.note_restored(&nic, restored),
            None => {}
        }
    }

    /// Starts repairs of damaged links, given what the last look at the links found.
    pub(super) fn mend_what_is_ill(&mut self, ill: BTreeMap<String, LinkFault>, now: Instant) {
        self.link_repair.links.retain(|nic, _| ill.contains_key(nic));
        for (nic, ill) in ill {
            let Some(planned) = wanted(&self.running.plan, &nic) else { continue };
            // With the queues that it was made with.
            let queues = self.resources.wanted(&nic).map_or(planned.queues, |opened| opened.queues);
            let wanted = NicRequirements { queues, ..planned };
            let is_due = self.link_repair.try_now(&nic, now);
            if matches!(ill, LinkFault::Gone) && self.link_repair.is_news(&nic) {
                // What is opened for a kernel router is a TAP.
                let what = if wanted.in_kernel || wanted.attach.traits().is_made {
                    "its link was deleted; it is made again as soon as that can be done"
                } else {
                    "its interface is gone; it is taken again as soon as it is there and up"
                };
                self.events.record(Kind::Notice, format!("NIC {nic}: {what}"));
            }
            if is_due {
                self.link_repair.start(move || match ill {
                    LinkFault::Gone => {
                        let opened = wanted.open();
                        RepairResult::Opened(wanted, opened)
                    }
                    LinkFault::OutOfPlace(link) => RepairResult::Restored(nic, link.restore()),
                });
            }
        }
    }

    /// Hands a reopened attachment to the process that serves the NIC. One that the NIC no longer wants is
    /// closed.
    fn put_in_place(
        &mut self,
        wanted: NicRequirements,
        opened: Result<Option<Box<dyn HostResource>>>,
        now: Instant,
    ) {
        let (Ok(Some(opened)), nic) = (opened, wanted.label()) else { return };
        let kernel_router = wanted.in_kernel.then(|| wanted.router.clone());
        let replaced = self.resources.replace(&self.running.plan, (wanted, opened), &mut self.link_jobs);
        let Ok(Some(HandedOver { what, descriptors })) = replaced else { return };
        self.link_repair.links.remove(&nic);
        self.events.record(Kind::Notice, format!("NIC {nic}: its link is there again"));
        if let Some(plane) = &mut self.lifecycle.plane {
            plane.say(&ToPlane::Replace { nic, what }, descriptors, now);
        }
        // The TAP is in the host's namespace, and the router has to move it in.
        if let Some(router) = kernel_router {
            self.kernels.repair_soon(&router, now);
        }
    }

    fn note_restored(&mut self, nic: &str, restored: Result<Restored>) {
        match restored {
            Ok(Restored { was_out, place }) => {
                self.resources.has_changed();
                if self.link_repair.is_over(nic) || was_out {
                    self.events.record(Kind::Notice, format!("NIC {nic}: its link is in {place} again"));
                }
            }
            Err(error) if self.link_repair.is_news(nic) => {
                let line = format!("NIC {nic}: {error:#}; it is put in again as soon as that can be done");
                self.events.record(Kind::Notice, line);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let (mut link_repair, start) = (LinkRepair::default(), Instant::now());
        let mut tries = Vec::new();
        for second in 0..200 {
            if link_repair.try_now("edge.wan", start + Duration::from_secs(second)) {
                tries.push(second);
            }
        }
        assert_eq!(tries, [1, 3, 7, 15, 31, 61, 91, 121, 151, 181]);
    }
}
