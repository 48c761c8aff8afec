//! Links of NICs are looked at once a second, by a thread: the kernel answers only when nobody else changes interfaces, which
//! any user may do for as long as he likes (in a namespace of his own). Nothing here waits for that thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uplink::{Cable, LinkTable, Links, Membership, Opened};

use super::Supervisor;
use super::errand::Errand;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// What is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Links, by NIC (`edge.wan`): other handles on what is open.
    pub(super) links: Vec<(String, Opened)>,
    /// Those of them that are in a bridge.
    pub(super) members: Vec<(String, Membership)>,
    /// The state of what is open that this is a look at.
    pub(super) state: u64,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What is seen of the cables, by NIC. None: there is no socket to ask by.
    pub(super) cables: Option<BTreeMap<String, Option<Cable>>>,
    /// Frames that the kernel has received from links and lost, and those that it was to send there, by NIC: of those that were moved.
    pub(super) lost: BTreeMap<String, (u64, u64)>,
    /// Links that somebody has deleted.
    pub(super) gone: BTreeSet<String>,
    /// Those of which it cannot be said that they are in their bridge, without those that are gone.
    pub(super) out_of_place: Vec<(String, Membership)>,
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
    pub(super) lost: BTreeMap<String, (u64, u64)>,
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
    let table = LinkTable::here().ok();
    let is_moved = |opened: &Opened| {
        let tap = opened.tap()?;
        let table = table.as_ref().filter(|table| table.of(tap.name()).is_none())?;
        tap.kernel_counters(table)
    };
    let lost = look.links.iter().filter_map(|(nic, opened)| {
        let counted = is_moved(opened)?;
        Some((nic.clone(), (counted.rx_drops, counted.tx_drops)))
    });
    let gone = look.links.iter().filter(|(_, opened)| !opened.is_there());
    let gone: BTreeSet<_> = gone.map(|(nic, _)| nic.clone()).collect();
    let cables = Links::here()
        .ok()
        .map(|links| look.links.iter().map(|(nic, opened)| (nic.clone(), opened.cable(&links))).collect());
    let mut out_of_place = look.members;
    out_of_place.retain(|(nic, member)| !gone.contains(nic) && !member.looks_well());
    Seen { cables, lost: lost.collect(), gone, out_of_place, state: look.state }
}

impl Supervisor {
    /// Looks at the links, where it is time to, and does what is to be done about what was seen.
    pub(super) fn attend_links(&mut self, now: Instant) {
        // What is no look at what is open now says nothing of it.
        if let Some(seen) = self.watching.at_work.finished()
            && seen.state == self.resources.state()
        {
            self.watching.lost = seen.lost;
            self.mend_what_is_broken(seen.gone, seen.out_of_place, now);
            self.heed_cables(seen.cables, now);
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
