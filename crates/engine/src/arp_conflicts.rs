//! Address conflicts: other stations that claim an address of a router. Reported when first seen, and at most
//! once a minute while they continue.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use bootinfo::VcpuShared;
use config::Router;

/// Minimum time between two reports.
const PAUSE: Duration = Duration::from_secs(60);

/// Address conflicts as published by one vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConflictSample {
    /// ARP packets received that claimed one of the router's addresses.
    heard: u64,
    /// The last one: number of the NIC, address, and MAC address of the station.
    last: (u8, u32, [u8; 6]),
}

impl ConflictSample {
    pub(crate) fn read(shared: &VcpuShared) -> Self {
        // Read the count first, so that the claim that it counts is visible.
        Self { heard: shared.router.arp_conflicts.get(), last: shared.claim.get() }
    }
}

/// Conflicts of one router, as reported so far.
#[derive(Debug, Default)]
pub(crate) struct ArpConflicts {
    /// Claiming packets received, by vCPU.
    heard: Vec<u64>,
    /// Packets not yet reported.
    untold: u64,
    last: Option<(u8, u32, [u8; 6])>,
    told: Option<Instant>,
}

impl ArpConflicts {
    /// Evaluates the state of each vCPU; returns a line if one is to be reported.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        plan: &Router,
        samples: impl Iterator<Item = ConflictSample>,
    ) -> Option<String> {
        for (vcpu, sample) in samples.enumerate() {
            if self.heard.len() <= vcpu {
                self.heard.push(0);
            }
            let more = sample.heard.wrapping_sub(self.heard[vcpu]);
            if more > 0 {
                self.heard[vcpu] = sample.heard;
                (self.untold, self.last) = (self.untold.saturating_add(more), Some(sample.last));
            }
        }
        if self.told.is_some_and(|told| now < told + PAUSE) {
            return None;
        }
        let (nic, address, station) = self.last.take()?;
        let heard = std::mem::take(&mut self.untold);
        self.told = Some(now);
        let nic = plan.nics.get(usize::from(nic)).map_or("?", |nic| nic.name.as_str());
        let [a, b, c, d, e, f] = station;
        let address = Ipv4Addr::from(address);
        Some(format!(
            "NIC {nic}: another station ({a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}) says that it has {address}, which is this router's; \
             expected nobody else to: give one of them another address ({heard} ARP packets since it was last told)"
        ))
    }
}

#[cfg(test)]
mod tests;
