//! Static neighbours that somebody enters in a control namespace (`ip neighbour add`): the router is given them while it runs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;

use anyhow::{Context, Result};
use bootinfo::MOST_GIVEN;
use config::Router;
use config::learned::LearnedNeighbour;
use control::Ports;
use netlink::{Kept, Mirror, Neighbour, State};
use netns::Namespace;

/// The neighbours of a namespace, as its kernel knows them. They have a mirror of their own: stations on the links may change them so
/// often that some of it is lost, and are to cost no dump of routes.
pub(super) struct Neighbours {
    mirror: Mirror,
    /// True if they may be others than they were when somebody looked last.
    is_new: bool,
}

impl Neighbours {
    /// Looks at a namespace.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(super) fn open(namespace: &Namespace) -> Result<Self> {
        let mirror = namespace.within(|| Mirror::open_with(Kept::neighbours()))?;
        Ok(Self { mirror: mirror.context("following the neighbours of its namespace")?, is_new: true })
    }

    /// The interfaces have other numbers.
    pub(super) const fn look_again(&mut self) {
        self.is_new = true;
    }

    /// Takes what the kernel reports. Returns all neighbours if there may be others.
    pub(super) fn news(&mut self) -> Option<&Mirror> {
        match self.mirror.update() {
            Ok(news) => self.is_new |= !news.is_empty(),
            // What was reported is lost: all are looked at once they can be read again.
            Err(_) => {
                self.is_new = true;
                return None;
            }
        }
        std::mem::take(&mut self.is_new).then_some(&self.mirror)
    }

    pub(super) fn watched(&self) -> BorrowedFd<'_> {
        self.mirror.descriptor()
    }
}

/// Returns those of some neighbours that a router is to be given: static ones behind its links, without those that it has by its file. Of
/// more than there is room for, the first by link and address.
pub(super) fn static_neighbours<'n>(
    ports: &Ports,
    router: &Router,
    all: impl Iterator<Item = &'n Neighbour>,
) -> Vec<LearnedNeighbour> {
    let own: BTreeSet<(usize, IpAddr)> = router.all_neighbours().map(|(ip, _, link)| (link, ip)).collect();
    let found: BTreeSet<LearnedNeighbour> = all
        .filter(|one| one.state == State::Permanent && !is_special(one.ip))
        .filter_map(|one| {
            let mac = one.mac.filter(is_of_station)?;
            Some(LearnedNeighbour { link: ports.get(one.index)?.nic, ip: one.ip, mac })
        })
        .filter(|one| !own.contains(&(one.link.into(), one.ip)))
        .collect();
    found.into_iter().take(MOST_GIVEN).collect()
}

/// Returns true for addresses that are no neighbours to which packets are forwarded: groups, and 169.254.0.1, by which FRR has the kernel
/// send IPv4 packets to IPv6 gateways.
fn is_special(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_multicast() || ip == Ipv6Addr::UNSPECIFIED,
    }
}

/// Returns true for the Ethernet address of one station.
const fn is_of_station(mac: &[u8; 6]) -> bool {
    mac[0] & 1 == 0 && !matches!(mac, [0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests;
