//! Reverse-path filter (RFC 3704): packets are dropped if no route leads back to their source.

use frame::ipv6;

use crate::platform::Buffer;
use crate::router::Router;
use crate::routes::{Routes, Routes6};

/// Route that must lead back to the source of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// None.
    #[default]
    Off,
    /// Any one.
    Loose,
    /// One by the NIC from which the packet came.
    Strict,
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Returns true if an IPv4 packet from `source` may come by NIC `nic`.
    pub(crate) fn is_expected(&self, source: u32, nic: usize) -> bool {
        let (wanted, routes) = (self.nics[nic].reverse_path, self.routes);
        match wanted {
            ReversePath::Off => true,
            ReversePath::Loose => routes.next_hop(routes.lookup(source)).leads_on(),
            ReversePath::Strict => routes.leads_by(routes.lookup(source), nic as u8),
        }
    }

    /// Returns true if an IPv6 packet from `source` may come by NIC `nic`. Link-local addresses are on each link.
    pub(crate) fn is_expected6(&self, source: u128, nic: usize) -> bool {
        let (wanted, table) = (self.nics[nic].reverse_path, self.routes.six());
        match wanted {
            ReversePath::Off => true,
            _ if source == 0 || ipv6::is_link_local(source) => true,
            ReversePath::Loose => table.next_hop(table.lookup(source)).leads_on(),
            ReversePath::Strict => table.leads_by(table.lookup(source), nic as u8),
        }
    }
}
