//! State of an interface's cable, as far as the host can observe it.

use crate::tap::place;
use crate::{Links, Mac, Tap, Xdp};

/// The state of a cable. If it has changed, there may be another host at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// True if the interface is up and has a carrier.
    pub running: bool,
    /// The interface's MAC address: on a TAP that of the host, which is the router's neighbour there.
    pub mac: Option<Mac>,
    /// The interface's MTU in octets; `None`: it was moved out of the namespace, and cannot be read there.
    pub mtu: Option<u32>,
}

impl Xdp {
    /// Returns the state of its cable, using the interfaces of the namespace in which it was opened. `None`:
    /// it was deleted.
    pub fn cable(&self, links: &Links) -> Option<Cable> {
        named(self.name(), links)
    }
}

impl Tap {
    /// Returns the state of its cable, using the interfaces of the namespace in which it was opened, even if
    /// it was moved. `None`: it was deleted.
    pub fn cable(&self, links: &Links) -> Option<Cable> {
        let queue = self.descriptors().next()?;
        let mac = place::mac(queue)?;
        match named(self.name(), links) {
            // Another interface may have taken the name of a device that was moved away.
            Some(cable) if cable.mac == Some(mac) => Some(cable),
            _ => Some(Cable { running: place::takes_frames(queue), mac: Some(mac), mtu: place::mtu(queue) }),
        }
    }
}

fn named(name: &str, links: &Links) -> Option<Cable> {
    let link = links.link(name, "looking at the cable of").ok()?;
    Some(Cable { running: link.up && link.running, mac: link.mac, mtu: Some(link.mtu) })
}
