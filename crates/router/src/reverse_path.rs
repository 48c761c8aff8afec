//! Reverse-path filter (RFC 3704): packets are dropped if no route leads back to their source.

use frame::ipv6;

use crate::ip::Ip;
use crate::platform::Buffer;
use crate::router::Router;
use crate::routes::{NextHop, Routes, Routes6};

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

impl ReversePath {
    /// Returns true if a packet that came by NIC `nic` passes, and the route to its source is this one.
    fn passes(self, next: NextHop, nic: usize) -> bool {
        match (self, next.neighbour(Ip::default())) {
            (Self::Off, _) | (Self::Loose, Some(_)) => true,
            (Self::Strict, Some((out, _))) => usize::from(out) == nic,
            (_, None) => false,
        }
    }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Returns true if an IPv4 packet from `source` may come by NIC `nic`.
    pub(crate) fn is_expected(&self, source: u32, nic: usize) -> bool {
        let wanted = self.nics[nic].reverse_path;
        wanted == ReversePath::Off || wanted.passes(self.routes.next_hop(self.routes.lookup(source)), nic)
    }

    /// Returns true if an IPv6 packet from `source` may come by NIC `nic`. Link-local addresses are on each link.
    pub(crate) fn is_expected6(&self, source: u128, nic: usize) -> bool {
        let wanted = self.nics[nic].reverse_path;
        let table = self.routes.six();
        wanted == ReversePath::Off
            || source == 0
            || ipv6::is_link_local(source)
            || wanted.passes(table.next_hop(table.lookup(source)), nic)
    }
}
