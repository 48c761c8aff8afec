//! Health checks of NICs' links, once a second, in a thread: the kernel answers only while no other process
//! changes interfaces, which any user may do for as long as he likes (in a namespace of his own). The event
//! loop never waits for that thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attach::{HostInterfaces, Watched};
use uplink::Cable;

use super::Supervisor;
use super::background_job::BackgroundJob;
use super::link_repair::LinkFault;

/// Time between two checks.
const LOOK: Duration = Duration::from_secs(1);

/// Links to check.
#[derive(Debug, Default)]
pub(super) struct LinkCheck {
    /// Handles of open links, by NIC (`edge.wan`).
    pub(super) links: Vec<(String, Box<dyn Watched>)>,
    /// Generation number of the set of links that these belong to.
    pub(super) state: u64,
}

/// Result of a check.
#[derive(Debug, Default)]
pub(super) struct LinkCheckResult {
    /// State of the cables, by NIC. `None`: no netlink socket was available.
    pub(super) cables: Option<BTreeMap<String, Option<Cable>>>,
    /// Frames that the kernel has dropped before they reached us, by NIC, for links that were moved.
    pub(super) lost: BTreeMap<String, u64>,
    /// Links to repair.
    pub(super) ill: BTreeMap<String, LinkFault>,
    /// Generation number of the [`LinkCheck`].
    pub(super) state: u64,
}

/// Checks links.
pub(super) type CheckLinks = Arc<dyn Fn(LinkCheck) -> LinkCheckResult + Send + Sync>;

/// Periodic check of links.
pub(super) struct LinkMonitor {
    next: Option<Instant>,
    at_work: BackgroundJob<LinkCheckResult>,
    pub(super) see: CheckLinks,
    /// Last known drops of the kernel at links that were moved.
    pub(super) lost: BTreeMap<String, u64>,
}

impl Default for LinkMonitor {
    fn default() -> Self {
        Self { next: None, at_work: BackgroundJob::default(), see: Arc::new(see), lost: BTreeMap::new() }
    }
}

impl LinkMonitor {
    /// Returns true if the next check is due.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = !self.at_work.is_at_work() && self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + LOOK);
        }
        due
    }

    /// Descriptor to poll for reading.
    pub(super) fn watched(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.at_work.watched()
    }
}

fn see(look: LinkCheck) -> LinkCheckResult {
    let (view, mut seen) =
        (HostInterfaces::here(), LinkCheckResult { state: look.state, ..LinkCheckResult::default() });
    let mut cables = BTreeMap::new();
    for (nic, link) in look.links {
        let health = link.look(&view);
        cables.insert(nic.clone(), health.cable);
        seen.lost.extend(health.lost.map(|lost| (nic.clone(), lost)));
        if !health.is_there {
            seen.ill.insert(nic, LinkFault::Gone);
        } else if !health.is_in_place {
            seen.ill.insert(nic, LinkFault::OutOfPlace(link));
        }
    }
    seen.cables = view.links.is_some().then_some(cables);
    seen
}

impl Supervisor {
    /// Starts a check when one is due, and acts on the result of the last one.
    pub(super) fn attend_links(&mut self, now: Instant) {
        match self.link_monitor.at_work.finished() {
            Some(seen) if seen.state == self.resources.state() => {
                self.link_monitor.lost = seen.lost;
                self.mend_what_is_ill(seen.ill, now);
                self.handle_carrier_changes(seen.cables, now);
            }
            // The result of a check of an older set of links is ignored; its handles may be the last on what
            // was replaced, so they are closed in a thread.
            Some(seen) if !seen.ill.is_empty() => self.link_jobs.close(seen.ill),
            _ => {}
        }
        // Links that are away, to be prepared for a data plane, are looked at when they are back.
        if self.resources.are_being_prepared() || !self.link_monitor.is_due(now) {
            return;
        }
        let look = self.resources.look(&self.running.plan);
        if look.links.is_empty() {
            // What was seen before are links that are not there any more.
            self.handle_carrier_changes(Some(BTreeMap::new()), now);
        } else {
            let see = self.link_monitor.see.clone();
            // If no thread can be started now, a later call tries again.
            self.link_monitor.at_work.start("ringroad/links", move || see(look));
        }
    }
}
