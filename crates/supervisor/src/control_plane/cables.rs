//! What daemons are to see of the cables of their router's NICs, which lead to interfaces of the host. Pure.

use std::collections::{BTreeMap, BTreeSet};

use config::Router;

use super::wanted::LEAST_MTU_6;

/// Cables that are not as the file has their NICs, by NIC (`wan`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cables {
    /// Those that lack a carrier.
    pub(super) lacking: BTreeSet<String>,
    /// MTUs of those that take less than their NICs, in octets.
    pub(super) narrow: BTreeMap<String, u32>,
}

impl Cables {
    /// Looks at those of a router. `seen` returns, for a NIC (`edge.wan`), whether its cable has a carrier, and its MTU if that is known.
    pub(super) fn of(router: &Router, seen: impl Fn(&str) -> (bool, Option<u32>)) -> Self {
        let mut cables = Self::default();
        for nic in &router.nics {
            let (has_carrier, mtu) = seen(&format!("{}.{}", router.name, nic.name));
            if !has_carrier {
                cables.lacking.insert(nic.name.clone());
            }
            if let Some(mtu) = mtu.filter(|mtu| *mtu < nic.mtu) {
                cables.narrow.insert(nic.name.clone(), mtu);
            }
        }
        cables
    }

    /// Returns the router with no larger MTUs than its cables take: of NICs, and of VLANs on these. Only the file makes one smaller than
    /// IPv6 needs: the kernel takes all IPv6 addresses from such an interface, also those that FRR has set.
    pub(super) fn fit(&self, router: &Router) -> Router {
        let mut fitted = router.clone();
        for nic in &mut fitted.nics {
            let taken = self.narrow.get(&nic.name).copied().unwrap_or(nic.mtu);
            nic.mtu = nic.mtu.min(taken.max(LEAST_MTU_6));
        }
        for own in &mut fitted.forwarding.interfaces {
            let most = fitted.nics.get(own.nic).map_or(own.mtu, |nic| nic.mtu);
            own.mtu = own.mtu.min(most);
        }
        fitted
    }
}

#[cfg(test)]
mod tests;
