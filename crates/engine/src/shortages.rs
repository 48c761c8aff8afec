//! Neighbours for which a router has no room, scans that it slows down, and IPv6 addresses that others have: reported when
//! first seen, and at most once a minute while they continue.

use std::time::{Duration, Instant};

use bootinfo::VcpuShared;
use config::Router;

/// Minimum time between two reports of one kind.
const PAUSE: Duration = Duration::from_secs(60);

/// Counters of all vCPUs of a router that are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sign {
    /// Neighbours that took the place of others.
    replaced: u64,
    /// Packets to unknown neighbours from sources that caused too many requests.
    paced: u64,
    /// Messages by which others claim IPv6 addresses of the router.
    claimed: u64,
}

impl Sign {
    /// Adds up the counters of the vCPUs.
    pub(crate) fn read<'s>(vcpus: impl Iterator<Item = &'s VcpuShared>) -> Self {
        vcpus.fold(Self::default(), |sum, shared| Self {
            replaced: sum.replaced.wrapping_add(shared.router.neighbours_replaced.get()),
            paced: sum.paced.wrapping_add(shared.router.drop_neighbour_paced.get()),
            claimed: sum.claimed.wrapping_add(shared.router.nd_conflicts.get()),
        })
    }
}

/// One kind of report.
#[derive(Debug, Default)]
struct Told {
    count: u64,
    at: Option<Instant>,
}

impl Told {
    /// Returns how much the counter has grown since the last report, if one is due now.
    fn look(&mut self, now: Instant, count: u64) -> Option<u64> {
        let more = count.wrapping_sub(self.count);
        if more == 0 || self.at.is_some_and(|at| now < at + PAUSE) {
            return None;
        }
        (self.count, self.at) = (count, Some(now));
        Some(more)
    }
}

/// State of the reports about a router.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    replaced: Told,
    paced: Told,
    claimed: Told,
}

impl Shortages {
    /// Evaluates the counters; returns the lines that are to be reported.
    pub(crate) fn look(&mut self, now: Instant, plan: &Router, sign: Sign) -> Vec<String> {
        let size = plan.forwarding.neighbours;
        let replaced = self.replaced.look(now, sign.replaced).map(|more| no_room(more, size));
        let paced = self.paced.look(now, sign.paced).map(|more| {
            format!(
                "{more} packets to unknown neighbours were dropped because their source causes too many requests; a host \
                 may scan a network of this router: see drop_neighbour_paced"
            )
        });
        let claimed = self.claimed.look(now, sign.claimed).map(|more| {
            format!(
                "another station says that it has an IPv6 address of this router; expected nobody else to: give one of \
                 them another address ({more} messages since it was last told)"
            )
        });
        [replaced, paced, claimed].into_iter().flatten().collect()
    }
}

fn no_room(more: u64, size: u32) -> String {
    format!(
        "the neighbour table has no room: {more} neighbours took the place of others; expected at most {size}: write a \
         larger number for neighbours"
    )
}

/// State of the reports about the neighbour table that the members of a group share.
#[derive(Debug, Default)]
pub(crate) struct CommonShortage(Told);

impl CommonShortage {
    /// Evaluates how many neighbours have displaced others in a table with room for `size`; returns the line that is to be reported.
    pub(crate) fn look(&mut self, now: Instant, size: u32, replaced: u64) -> Option<String> {
        self.0.look(now, replaced).map(|more| no_room(more, size))
    }
}

#[cfg(test)]
mod tests;
