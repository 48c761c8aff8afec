//! Packets of a trace that are reported once another process has said by which way they went, or has not said it in time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::Packet;
use config::way::Way;
use link::TracedPacket;

/// Longest time for which a packet is held: much more than a process needs that is not stopped.
const LONGEST: Duration = Duration::from_secs(1);

/// Packets that are held, by number.
#[derive(Default)]
pub(super) struct HeldPackets(BTreeMap<u32, Held>);

/// A packet that is held.
struct Held {
    packet: Packet,
    /// The router by which it left.
    router: String,
    until: Instant,
}

impl HeldPackets {
    /// Holds a packet until the way is known that it went from this router.
    pub(super) fn hold(&mut self, packet: Packet, router: String, now: Instant) {
        self.0.insert(packet.number, Held { packet, router, until: now + LONGEST });
    }

    /// Returns true if no packet is held.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a packet out, with its way if one was found. `None`: it is not held, or has left another router.
    pub(super) fn release(&mut self, of: &TracedPacket, way: Option<Way>) -> Option<Packet> {
        if self.0.get(&of.number)?.router != of.router {
            return None;
        }
        let mut packet = self.0.remove(&of.number)?.packet;
        way.iter().for_each(|way| engine::add_way(&mut packet, way));
        Some(packet)
    }

    /// Takes out those that were held long enough.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Packet> {
        self.0.extract_if(.., |_, held| now >= held.until).map(|(_, held)| held.packet).collect()
    }
}

#[cfg(test)]
mod tests;
