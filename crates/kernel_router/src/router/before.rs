//! Frames that are lost before they reach a router because the queue of a veth pair is full.

use std::collections::BTreeMap;
use std::io;

use netlink::Netlink;
use netns::Namespace;
use rustix::io::Errno;

use super::{Router, Surroundings};
use crate::leftover::is_errno;
use crate::{Error, Origin, PeerNamespace};

impl Router {
    /// Returns the frames dropped at the other end of each pair with NAPI threads since the pair was created, by interface. The
    /// queue of such a pair holds 256 frames (`VETH_RING_SIZE` of drivers/net/veth.c), and the kernel counts overflows at the
    /// sending end. A pair whose other end has been moved or renamed is left out.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn lost_before(&self, site: &Surroundings<'_>) -> Result<BTreeMap<String, u64>, Error> {
        let asking =
            |e: io::Error| Error::refused(&self.wanted.name, "asking the other ends of its pairs", e);
        let mut sockets: BTreeMap<&PeerNamespace, Option<Netlink>> = BTreeMap::new();
        let mut lost = BTreeMap::new();
        for interface in self.wanted.interfaces.iter().filter(|interface| interface.threaded) {
            let Some((index, Origin::Veth { peer, at, .. })) = self.own.made.get(&interface.name) else {
                continue;
            };
            // If the namespace no longer exists, neither does the end in it.
            let open = || place(at, site).and_then(|namespace| namespace.netlink().ok());
            let Some(outside) = sockets.entry(at).or_insert_with(open) else { continue };
            if let Some(dropped) = self.dropped(*index, peer, outside).map_err(asking)? {
                lost.insert(interface.name.clone(), dropped);
            }
        }
        Ok(lost)
    }

    /// Returns the frames dropped at `peer`, the other end of the interface with this index. `None`: there is no such interface, or
    /// it belongs to another pair.
    fn dropped(&self, index: u32, peer: &str, outside: &Netlink) -> io::Result<Option<u64>> {
        let (own, other) = match (self.own.kernel.link(index), outside.link(peer)) {
            (Err(e), _) | (_, Err(e)) if is_errno(&e, Errno::NODEV) => return Ok(None),
            (own, other) => (own?, other?),
        };
        if own.lower != Some(other.index) {
            return Ok(None);
        }
        Ok(Some(outside.statistics_of(other.index)?.tx_dropped))
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
