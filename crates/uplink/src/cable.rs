//! What an interface shows of whoever is at the other end of its cable.

use crate::tap::place;
use crate::{Links, Mac, Tap, Xdp};

/// The state of a cable. Where it has changed, whoever is at its other end may be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Whether the interface is up and has a carrier.
    pub running: bool,
    /// The interface's address: on a TAP that of the host, which is the router's neighbour there.
    pub mac: Option<Mac>,
}

impl Xdp {
    /// The state of its cable, by the interfaces of the namespace that it was opened in. None: it is gone.
    pub fn cable(&self, links: &Links) -> Option<Cable> {
        named(self.name(), links)
    }
}

impl Tap {
    /// The state of its cable, by the interfaces of the namespace that it was opened in, wherever it was moved. None: it is gone.
    pub fn cable(&self, links: &Links) -> Option<Cable> {
        let queue = self.descriptors().next()?;
        let mac = place::mac(queue)?;
        match named(self.name(), links) {
            // Another interface may have taken the name of one that was moved away.
            Some(cable) if cable.mac == Some(mac) => Some(cable),
            _ => Some(Cable { running: place::takes_frames(queue), mac: Some(mac) }),
        }
    }
}

fn named(name: &str, links: &Links) -> Option<Cable> {
    let link = links.link(name, "looking at the cable of").ok()?;
    Some(Cable { running: link.up && link.running, mac: link.mac })
}
