//! IPv6 addresses of the router's NICs, the groups to which they listen, and the choice of a source address.

use arrayvec::ArrayVec;
use frame::ipv6;

use crate::advertising::Advertising;
use crate::config::{Interface, MAX_ADDRESSES, Nic};
use crate::neighbours::Neighbours;
use crate::platform::Buffer;
use crate::router::Router;
use crate::routes::Routes;

/// Milliseconds for which an address is tentative after its solicitation (RFC 4862, 5.4, and RFC 4861, 10:
/// RETRANS_TIMER).
pub(crate) const TENTATIVE: u64 = 1000;
/// Length of the prefix of link-local addresses.
const LINK_LOCAL_PREFIX: u8 = 64;

/// One own address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) ip: u128,
    pub(crate) prefix: u8,
    /// Time in milliseconds until which another station may object; 0: nobody can any more.
    pub(crate) tentative_until: u64,
    /// True if it is used before that time (RFC 4429).
    pub(crate) is_optimistic: bool,
}

impl Own {
    /// Returns an address to which no station can object.
    const fn new(ip: u128, prefix: u8) -> Self {
        Self { ip, prefix, tentative_until: 0, is_optimistic: false }
    }

    /// Returns true if it may be used, unless another station has it.
    const fn is_usable(&self) -> bool {
        self.tentative_until == 0 || self.is_optimistic
    }
}

/// The groups of a NIC: one for each own address, one for the network of each but the link-local one, and that of all routers.
pub(crate) type Groups = ArrayVec<u128, { 2 * (MAX_ADDRESSES + 1) }>;

/// IPv6 state of a NIC.
pub(crate) struct Six {
    /// The own addresses, the link-local one first; none if the NIC takes no part in IPv6.
    pub(crate) own: ArrayVec<Own, { MAX_ADDRESSES + 1 }>,
    pub(crate) advertising: Option<Advertising>,
    /// Time in milliseconds at which groups are reported.
    pub(crate) report_due: Option<u64>,
    /// Time in milliseconds until which reports have version 1 of their protocol.
    pub(crate) reports_v1_until: u64,
}

impl Six {
    /// Creates the state of a NIC.
    pub(crate) fn new(interface: &Interface<'_>) -> Self {
        let mut own = ArrayVec::new();
        if !interface.addresses6.is_empty() {
            let given = interface.addresses6.iter().find(|address| ipv6::is_link_local(address.ip));
            let ip = given.map_or_else(|| ipv6::link_local(interface.mac), |address| address.ip);
            own.push(Own::new(ip, LINK_LOCAL_PREFIX));
        }
        let others = interface.addresses6.iter().filter(|address| !ipv6::is_link_local(address.ip));
        for address in others.take(MAX_ADDRESSES) {
            own.push(Own::new(address.ip, address.prefix));
        }
        let advertising = interface.advertise.filter(|_| !own.is_empty()).map(Advertising::new);
        Self { own, advertising, report_due: None, reports_v1_until: 0 }
    }

    /// Returns true if the NIC takes part in IPv6.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        !self.own.is_empty()
    }

    /// Returns the number of an own address on this NIC.
    pub(crate) fn position(&self, ip: u128) -> Option<usize> {
        self.own.iter().position(|own| own.ip == ip)
    }

    /// Returns true if `ip` lies on the link of this NIC.
    pub(crate) fn covers(&self, ip: u128) -> bool {
        self.own.iter().any(|own| (ip ^ own.ip) & ipv6::mask(own.prefix) == 0)
    }

    /// Returns the addresses of all routers of the networks on this NIC (RFC 4291, 2.6.1).
    fn anycasts(&self) -> impl Iterator<Item = u128> {
        let global = self.own.iter().skip(1);
        global.filter(|own| own.prefix < 127).map(|own| own.ip & ipv6::mask(own.prefix))
    }

    /// Returns true if `ip` is the address of all routers of a network on this NIC.
    pub(crate) fn is_anycast(&self, ip: u128) -> bool {
        self.anycasts().any(|anycast| anycast == ip)
    }

    /// Returns true if the NIC listens to this group.
    pub(crate) fn listens(&self, group: u128) -> bool {
        match group {
            ipv6::ALL_NODES | ipv6::ALL_ROUTERS => self.is_on(),
            _ => self.solicited_nodes().any(|own| own == group),
        }
    }

    /// Returns the solicited-node groups of all unicast and anycast addresses (RFC 4291, 2.8).
    fn solicited_nodes(&self) -> impl Iterator<Item = u128> {
        self.own.iter().map(|own| own.ip).chain(self.anycasts()).map(ipv6::solicited_node)
    }

    /// Returns the groups to be reported, each once (RFC 3810, 6): all but that of all nodes.
    pub(crate) fn groups(&self) -> Groups {
        let mut groups = Groups::new();
        for group in self.solicited_nodes().chain(self.is_on().then_some(ipv6::ALL_ROUTERS)) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }
}

/// Returns how well `source` suits `destination`: the largest is the best (RFC 6724, 5, rules 1, 2, 6 and 8).
fn suitability(source: u128, destination: u128) -> (bool, u8, bool, u32) {
    let (own, other) = (ipv6::scope(source), ipv6::scope(destination));
    // The smallest scope that is large enough, else the largest one.
    let scope = if own >= other { 32 - own } else { own };
    let is_unique_local = |ip: u128| ip >> 121 == 0x7e;
    let label = is_unique_local(source) == is_unique_local(destination);
    (source == destination, scope, label, (source ^ destination).leading_zeros())
}

/// Returns the best source on a NIC for this destination; tentative and duplicate addresses are not used.
fn best_of(nics: &[Nic], (at, neighbours): (usize, &Neighbours<'_>), destination: u128) -> Option<u128> {
    let usable = |(index, own): &(usize, &Own)| own.is_usable() && !neighbours.is_duplicate(at as u8, *index);
    let own = nics.get(at)?.six.own.iter().enumerate().filter(usable);
    own.map(|(_, own)| own.ip).max_by_key(|ip| suitability(*ip, destination))
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Returns true if `ip` is an own address that a packet from NIC `nic` reaches: link-local ones only on their link.
    pub(crate) fn is_own6(&self, ip: u128, nic: u8) -> bool {
        self.is_only_ours6(ip, nic) || self.is_shared6(ip)
    }

    /// Returns true if `ip` is such an address, and of no other router.
    pub(crate) fn is_only_ours6(&self, ip: u128, nic: u8) -> bool {
        if ipv6::is_link_local(ip) {
            return self.owns6(usize::from(nic), ip);
        }
        (0..self.nics.len()).any(|at| self.owns6(at, ip))
    }

    /// Returns true if `ip` is the address of all routers of a network of ours, from which another one may send: RFC 4291 does
    /// not forbid anycast addresses as sources.
    pub(crate) fn is_shared6(&self, ip: u128) -> bool {
        self.nics.iter().any(|own| own.six.is_anycast(ip))
    }

    /// Returns true if `ip` is an own address that may still prove to be another station's.
    pub(crate) fn is_tentative6(&self, ip: u128) -> bool {
        self.nics.iter().flat_map(|own| &own.six.own).any(|own| own.ip == ip && !own.is_usable())
    }

    /// Returns true if `ip` is an address of NIC `nic` that no other station has.
    pub(crate) fn owns6(&self, nic: usize, ip: u128) -> bool {
        let index = self.nics.get(nic).and_then(|own| own.six.position(ip));
        index.is_some_and(|index| !self.neighbours.is_duplicate(nic as u8, index))
    }

    /// Returns the source address of a packet that leaves by NIC `nic` (RFC 6724, 5): an address of that NIC, unless only
    /// others have the scope that the destination needs.
    pub(crate) fn source6(&self, nic: usize, destination: u128) -> Option<u128> {
        let here = best_of(self.nics, (nic, self.neighbours), destination);
        let reaches = |ip: &u128| ipv6::scope(*ip) >= ipv6::scope(destination);
        here.filter(reaches).or_else(|| {
            let all = (0..self.nics.len()).filter(|at| *at != nic);
            let others = all.filter_map(|at| best_of(self.nics, (at, self.neighbours), destination));
            others.filter(reaches).max_by_key(|ip| suitability(*ip, destination)).or(here)
        })
    }

    /// Returns the source address of a solicitation or advertisement by NIC `nic`: an address of that NIC (RFC 4861, 4.3 and 4.4).
    pub(crate) fn near_source6(&self, nic: usize, destination: u128) -> Option<u128> {
        best_of(self.nics, (nic, self.neighbours), destination)
    }

    /// Returns the link-local address of NIC `nic`, if it may be used.
    pub(crate) fn link_local(&self, nic: usize) -> Option<u128> {
        let first = self.nics.get(nic)?.six.own.first()?;
        let usable = first.is_usable() && !self.neighbours.is_duplicate(nic as u8, 0);
        usable.then_some(first.ip)
    }
}

#[cfg(test)]
mod tests {
    use super::suitability;

    fn at(text: &str) -> u128 {
        text.parse::<core::net::Ipv6Addr>().expect("an address").to_bits()
    }

    fn best<'s>(destination: &str, sources: &[&'s str]) -> &'s str {
        sources.iter().max_by_key(|text| suitability(at(text), at(destination))).expect("one of them")
    }

    #[test]
    fn the_source_suits_the_destination() {
        assert_eq!(best("2001:db8:1::9", &["fe80::1", "2001:db8:2::1", "2001:db8:1::1"]), "2001:db8:1::1");
        assert_eq!(best("fe80::9", &["fe80::1", "2001:db8::1"]), "fe80::1");
        assert_eq!(best("ff02::1", &["2001:db8::1", "fe80::1"]), "fe80::1");
        assert_eq!(
            best("2001:db8::9", &["fd00::1", "3fff::1"]),
            "3fff::1",
            "unique local addresses among themselves"
        );
        assert_eq!(best("fd00:1::9", &["fd00::1", "2001:db8::1"]), "fd00::1");
        assert_eq!(best("2001:db8::1", &["2001:db8::1", "2001:db8::2"]), "2001:db8::1");
    }
}
