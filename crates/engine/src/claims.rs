//! Other stations that say that they have an address of a router: told when the first one does, and while it goes on at most once a
//! minute.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use bootinfo::VcpuShared;
use config::Router;

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// What one vCPU shows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sign {
    /// ARP packets that claimed an address.
    heard: u64,
    /// Of the last one: the number of the NIC, the address, and the station.
    last: (u8, u32, [u8; 6]),
}

impl Sign {
    pub(crate) fn read(shared: &VcpuShared) -> Self {
        // The count first: what it counts is there then.
        Self { heard: shared.router.arp_conflicts.get(), last: shared.claim.get() }
    }
}

/// What is known of it.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Packets heard, by vCPU.
    heard: Vec<u64>,
    /// Packets of which nothing was told.
    untold: u64,
    last: Option<(u8, u32, [u8; 6])>,
    told: Option<Instant>,
}

impl Claims {
    /// Looks at what each vCPU shows; a line if there is one to be told.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        plan: &Router,
        signs: impl Iterator<Item = Sign>,
    ) -> Option<String> {
        for (vcpu, sign) in signs.enumerate() {
            if self.heard.len() <= vcpu {
                self.heard.push(0);
            }
            let more = sign.heard.wrapping_sub(self.heard[vcpu]);
            if more > 0 {
                self.heard[vcpu] = sign.heard;
                (self.untold, self.last) = (self.untold.saturating_add(more), Some(sign.last));
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
