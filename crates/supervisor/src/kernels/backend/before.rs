//! Frames that are lost before they reach a kernel router: what the other ends of its pairs count.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kernel_router::{Router, Surroundings};

use super::{Counted, HostBackend};

/// Frames lost, by NIC.
type Lost = BTreeMap<String, u64>;

impl HostBackend {
    /// Adds the frames that were lost before a router to its counters: those for which the queue of a pair with NAPI threads had no
    /// room, as `edge.wan.queue.drop_full`, and those that a queueing discipline has dropped, as `.drop_qdisc`. If the other end cannot
    /// be read, its counter is omitted.
    pub(super) fn count_before(&mut self, router: &str, counted: &mut Counted) -> Result<()> {
        let held = self.held(router)?;
        let is_threaded = !held.napis.is_empty();
        let has_queue = held.router.wanted().interfaces.iter().any(|interface| interface.queue.is_some());
        let mut add = |what: &str, lost: Lost| {
            let named = |(nic, frames): (String, u64)| (format!("{router}.{nic}.queue.{what}"), frames);
            counted.counters.extend(lost.into_iter().map(named));
        };
        if is_threaded {
            add("drop_full", self.at_other_ends(router, Router::lost_before));
        }
        if has_queue {
            add("drop_qdisc", self.at_other_ends(router, Router::dropped_by_queues));
        }
        Ok(())
    }

    /// Reads a counter at the other ends of a router's pairs.
    fn at_other_ends(
        &mut self,
        router: &str,
        read: fn(&Router, &Surroundings<'_>) -> Result<Lost, kernel_router::Error>,
    ) -> Lost {
        let lost = self.sited(|routers, site, _| {
            let held = routers.get(router).context("it has gone")?;
            Ok(read(&held.router, site)?)
        });
        lost.unwrap_or_default()
    }
}
