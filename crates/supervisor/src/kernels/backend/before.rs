//! Frames that are lost before they reach a kernel router: what the other ends of its pairs count.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kernel_router::{Router, Surroundings};
use netlink::{Netlink, Queue};

use super::{Counted, HostBackend};
use crate::kernels::napi;

/// Frames lost, by NIC.
type Lost = BTreeMap<String, u64>;

impl HostBackend {
    /// Adds the frames that were lost before a router to its counters: those for which the queue of a pair with NAPI threads had no
    /// room, as `edge.wan.queue.drop_full`, and those that a queueing discipline has dropped, as `.drop_qdisc`. If the other end cannot
    /// be read, its counter is omitted.
    pub(super) fn count_before(&mut self, router: &str, counted: &mut Counted) -> Result<()> {
        let held = self.held(router)?;
        let (is_threaded, pairs, queues) =
            (!held.napis.is_empty(), held.spec.pairs.clone(), held.spec.queues.clone());
        let has_queue = held.router.wanted().interfaces.iter().any(|interface| interface.queue.is_some());
        let mut add = |what: &str, lost: Lost| {
            let named = |(nic, frames): (String, u64)| (format!("{router}.{nic}.queue.{what}"), frames);
            counted.counters.extend(lost.into_iter().map(named));
        };
        if is_threaded {
            add("drop_full", self.at_other_ends(router, Router::lost_before));
            add("drop_full", napi::lost_before(&pairs));
        }
        if has_queue {
            add("drop_qdisc", self.at_other_ends(router, Router::dropped_by_queues));
        }
        add("drop_qdisc", dropped_at_home(&queues));
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

/// Frames dropped by the queueing disciplines of the host ends of a container's pairs.
fn dropped_at_home(queues: &[(String, String, Queue)]) -> Lost {
    let Some(kernel) = (!queues.is_empty()).then(Netlink::open).and_then(Result::ok) else {
        return Lost::new();
    };
    let dropped = |end: &str| {
        let index = kernel.link(end).ok()?.index;
        Some(kernel.queue(index).ok()?.drops)
    };
    queues.iter().filter_map(|(nic, end, _)| Some((nic.clone(), dropped(end)?))).collect()
}
