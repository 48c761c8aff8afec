//! Load for routers that run: frames out of interfaces of this host, as if its kernel sent them, each at a rate of its own or as
//! fast as its interface takes them, all from one thread.

use std::net::Ipv4Addr;
use std::thread::sleep;

use anyhow::Result;
use frame::Mac;
use uplink::{Netns, Wire};

use crate::due::{BURST, NAP, send_each};
use crate::generator::{Settings, first_frames};

/// Octets of a frame: the smallest, of which rates are promised where nothing else is said.
const FRAME: usize = 60;

/// Where frames go.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The interface that they leave by.
    pub interface: String,
    /// The router's Ethernet address there.
    pub mac: [u8; 6],
    /// Their destination.
    pub to: Ipv4Addr,
    /// Frames a second; none: as many as the interface takes.
    pub rate: Option<f64>,
}

/// What became of the frames for one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames that were offered.
    pub offered: u64,
    /// Frames of these that the interface took.
    pub taken: u64,
}

/// Interfaces that are to be flooded.
#[derive(Debug)]
pub struct Flood {
    lanes: Vec<Lane>,
}

/// One of them.
#[derive(Debug)]
struct Lane {
    wire: Wire,
    frame: Vec<u8>,
    /// Frames a second; infinite: as many as the interface takes.
    rate: f64,
}

impl Flood {
    /// Opens the interfaces in the namespace of the calling thread.
    ///
    /// # Errors
    /// There is no such interface, or the caller may not send there (CAP_NET_RAW, CAP_NET_ADMIN).
    pub fn open(targets: &[Target]) -> Result<Self> {
        let here = Netns::here()?;
        let lane = |target: &Target| {
            let wire = Wire::open(&here, &target.interface)?;
            let rate = target.rate.unwrap_or(f64::INFINITY);
            anyhow::Ok(Lane { wire, frame: frame_of(target)?, rate })
        };
        Ok(Self { lanes: targets.iter().map(lane).collect::<Result<_>>()? })
    }

    /// Sends until it is over; what was sent to each target, in their order.
    pub fn run(self, is_over: impl Fn() -> bool) -> Vec<Sent> {
        let rates: Vec<f64> = self.lanes.iter().map(|lane| lane.rate).collect();
        let send = |to: usize, frames, _| self.lanes[to].wire.repeat(&self.lanes[to].frame, frames);
        let sent = send_each(&rates, BURST, |_| is_over(), send, || sleep(NAP));
        sent.into_iter().map(|(offered, taken)| Sent { offered, taken }).collect()
    }
}

/// The frame that a target is sent again and again.
fn frame_of(target: &Target) -> Result<Vec<u8>> {
    let settings = Settings {
        destination_mac: Mac(target.mac),
        destinations: vec![target.to.to_bits()],
        flows: 1,
        frame: FRAME,
        ..Settings::default()
    };
    Ok(first_frames(&settings, 1)?.swap_remove(0))
}

#[cfg(test)]
mod tests;
