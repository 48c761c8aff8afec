//! Load generator for running routers: sends frames into interfaces of this host, as if its kernel sent them, each at a rate of
//! its own or as fast as the interface accepts them, all from one thread.

use std::net::Ipv4Addr;
use std::thread::sleep;

use anyhow::Result;
use frame::Mac;
use uplink::{Netns, PacketSender};

use crate::due::{BURST, NAP, send_each};
use crate::generator::{Settings, first_frames};

/// Octets of a frame: the smallest, for which guarantees hold unless stated otherwise.
const FRAME: usize = 60;

/// Destination of a flood.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Interface by which the frames leave.
    pub interface: String,
    /// Ethernet address of the router's NIC at that interface.
    pub mac: [u8; 6],
    /// Destination IP address of the frames.
    pub to: Ipv4Addr,
    /// Rate in frames a second; none: as many as the interface accepts.
    pub rate: Option<f64>,
}

/// Frames sent to one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames offered.
    pub offered: u64,
    /// Offered frames that the interface accepted.
    pub taken: u64,
}

/// Set of interfaces to be flooded.
#[derive(Debug)]
pub struct Flood {
    lanes: Vec<Lane>,
}

/// Interface and frame of one target.
#[derive(Debug)]
struct Lane {
    wire: PacketSender,
    frame: Vec<u8>,
    /// Frames a second; infinite: as many as the interface accepts.
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
            let wire = PacketSender::open(&here, &target.interface)?;
            let rate = target.rate.unwrap_or(f64::INFINITY);
            anyhow::Ok(Lane { wire, frame: frame_of(target)?, rate })
        };
        Ok(Self { lanes: targets.iter().map(lane).collect::<Result<_>>()? })
    }

    /// Sends until `is_over` returns true; returns the frames sent to each target, in the targets' order.
    pub fn run(self, is_over: impl Fn() -> bool) -> Vec<Sent> {
        let rates: Vec<f64> = self.lanes.iter().map(|lane| lane.rate).collect();
        let send = |to: usize, frames, _| self.lanes[to].wire.repeat(&self.lanes[to].frame, frames);
        let sent = send_each(&rates, BURST, |_| is_over(), send, || sleep(NAP));
        sent.into_iter().map(|(offered, taken)| Sent { offered, taken }).collect()
    }
}

/// Builds the frame that a target is sent repeatedly.
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
