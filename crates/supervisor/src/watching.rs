//! Links of NICs are looked at once a second, by a thread: the kernel answers only when nobody else changes interfaces, which
//! any user may do for as long as he likes (in a namespace of his own). Nothing here waits for that thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attach::{View, Watched};
use uplink::Cable;

use super::Supervisor;
use super::errand::Errand;
use super::mending::Ill;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// What is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// By NIC (`edge.wan`): other handles on what is open.
    pub(super) links: Vec<(String, Box<dyn Watched>)>,
    /// The state of what is open that this is a look at.
    pub(super) state: u64,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What is seen of the cables, by NIC. None: there is no socket to ask by.
    pub(super) cables: Option<BTreeMap<String, Option<Cable>>>,
    /// Frames that the kernel has lost before us, by NIC: of links that were moved.
    pub(super) lost: BTreeMap<String, u64>,
    /// What is to be mended.
    pub(super) ill: BTreeMap<String, Ill>,
    /// Of what was open: that of the [`Look`].
    pub(super) state: u64,
}

/// Looks at links.
pub(super) type See = Arc<dyn Fn(Look) -> Seen + Send + Sync>;

/// Looks at links, now and then.
pub(super) struct Watching {
    next: Option<Instant>,
    at_work: Errand<Seen>,
    pub(super) see: See,
    /// What the kernel has lost at links that were moved, as it was seen last.
    pub(super) lost: BTreeMap<String, u64>,
}

impl Default for Watching {
    fn default() -> Self {
        Self { next: None, at_work: Errand::default(), see: Arc::new(see), lost: BTreeMap::new() }
    }
}

impl Watching {
    /// Whether it is time to look again.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = !self.at_work.is_at_work() && self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + LOOK);
        }
        due
    }

    /// What to poll for reading.
    pub(super) fn watched(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.at_work.watched()
    }
}

fn see(look: Look) -> Seen {
    let (view, mut seen) = (View::here(), Seen { state: look.state, ..Seen::default() });
    let mut cables = BTreeMap::new();
    for (nic, link) in look.links {
        let health = link.look(&view);
        cables.insert(nic.clone(), health.cable);
        seen.lost.extend(health.lost.map(|lost| (nic.clone(), lost)));
        if !health.is_there {
            seen.ill.insert(nic, Ill::Gone);
        } else if !health.is_in_place {
            seen.ill.insert(nic, Ill::OutOfPlace(link));
        }
    }
    seen.cables = view.links.is_some().then_some(cables);
    seen
}

impl Supervisor {
    /// Looks at the links, where it is time to, and does what is to be done about what was seen.
    pub(super) fn attend_links(&mut self, now: Instant) {
        match self.watching.at_work.finished() {
            Some(seen) if seen.state == self.resources.state() => {
                self.watching.lost = seen.lost;
                self.mend_what_is_ill(seen.ill, now);
                self.heed_cables(seen.cables, now);
            }
            // What is no look at what is open now says nothing of it, and may be the last that has what was.
            Some(seen) if !seen.ill.is_empty() => self.tending.close(seen.ill),
            _ => {}
        }
        if !self.watching.is_due(now) {
            return;
        }
        let look = self.resources.look(&self.running.plan);
        if !look.links.is_empty() {
            let see = self.watching.see.clone();
            // Where no thread can be had now it is tried again.
            self.watching.at_work.start("ringroad/links", move || see(look));
        }
    }
}
