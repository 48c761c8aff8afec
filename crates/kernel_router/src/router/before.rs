//! Frames that are lost before they reach a router because a queue before its veth pair is full.

use std::collections::BTreeMap;
use std::io;

use netlink::Netlink;
use netns::Namespace;
use rustix::io::Errno;

use super::{Router, Surroundings};
use crate::leftover::is_errno;
use crate::{Error, Interface, Origin, PeerNamespace};

impl Router {
    /// Returns the frames dropped at the other end of each pair with NAPI threads since the pair was created, by interface. The
    /// queue of such a pair holds 256 frames (`VETH_RING_SIZE` of drivers/net/veth.c), and the kernel counts overflows at the
    /// sending end. A pair whose other end has been moved or renamed is left out.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn lost_before(&self, site: &Surroundings<'_>) -> Result<BTreeMap<String, u64>, Error> {
        self.at_other_ends(
            site,
            |interface| interface.threaded,
            |outside, index| Ok(outside.statistics_of(index)?.tx_dropped),
        )
    }

    /// Returns the frames dropped by the queueing discipline at the other end of each pair that has one, by interface. A pair whose
    /// other end has been moved or renamed is left out.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn dropped_by_queues(&self, site: &Surroundings<'_>) -> Result<BTreeMap<String, u64>, Error> {
        self.at_other_ends(
            site,
            |interface| interface.queue.is_some(),
            |outside, index| Ok(outside.queue(index)?.drops),
        )
    }

    /// Reads a counter at the other end of each wanted pair: that of the interface with an index.
    fn at_other_ends(
        &self,
        site: &Surroundings<'_>,
        is_wanted: impl Fn(&Interface) -> bool,
        read: impl Fn(&Netlink, u32) -> io::Result<u64>,
    ) -> Result<BTreeMap<String, u64>, Error> {
        let asking =
            |e: io::Error| Error::refused(&self.wanted.name, "asking the other ends of its pairs", e);
        let mut sockets: BTreeMap<&PeerNamespace, Option<Netlink>> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for interface in self.wanted.interfaces.iter().filter(|interface| is_wanted(interface)) {
            let Some((index, Origin::Veth { peer, at, .. })) = self.own.made.get(&interface.name) else {
                continue;
            };
            // If the namespace no longer exists, neither does the end in it.
            let open = || place(at, site).and_then(|namespace| namespace.netlink().ok());
            let Some(outside) = sockets.entry(at).or_insert_with(open) else { continue };
            if let Some(other) = self.other_end(*index, peer, outside).map_err(asking)? {
                found.insert(interface.name.clone(), read(outside, other).map_err(asking)?);
            }
        }
        Ok(found)
    }

    /// Returns the index of `peer`, the other end of the interface with this index. `None`: there is no such interface, or it belongs
    /// to another pair.
    fn other_end(&self, index: u32, peer: &str, outside: &Netlink) -> io::Result<Option<u32>> {
        let (own, other) = match (self.own.kernel.link(index), outside.link(peer)) {
            (Err(e), _) | (_, Err(e)) if is_errno(&e, Errno::NODEV) => return Ok(None),
            (own, other) => (own?, other?),
        };
        Ok(Some(other.index).filter(|index| own.lower == Some(*index)))
    }
}

/// Opens the namespace of a pair's other end, if it exists.
fn place(at: &PeerNamespace, site: &Surroundings<'_>) -> Option<Namespace> {
    match at {
        PeerNamespace::Home => Some(site.home.clone()),
        PeerNamespace::Named(name) => Namespace::open_named(name).ok(),
        PeerNamespace::Router(name) => site.others.get(name).cloned(),
    }
}
