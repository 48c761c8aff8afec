//! The neighbours of a group at one of its NICs, and the one voice that speaks ARP there for all members.
//!
//! A member asks for a neighbour as any router does, by an ARP request. That is heard here before it leaves the host: what is known is
//! answered at once, and what is not is asked of the network, once for all members. What the network says is heard here as well, and
//! told to those who have asked; what it asks for is answered here. So members see the neighbours alike, whoever of them owns the queue
//! that ARP comes by, and none of them can change what the others see. It needs nothing of a member's engine.
//!
//! Pure: packets and time come in, frames go out.

use std::time::Duration;

use frame::arp::{Operation, Packet};
use frame::{Mac, ethernet, ipv4};

use super::known::{Asked, Known, bit};

/// A frame with an ARP packet.
pub(super) type Spoken = [u8; ethernet::SHORTEST];

/// What comes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Whether its frame goes on to where it was going.
    pub(super) goes_on: bool,
    /// What the network is answered.
    pub(super) answer: Option<Spoken>,
    /// What members are told: a bit for each of their numbers.
    pub(super) told: Option<(u64, Spoken)>,
}

/// A network that the group has an address in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// The address.
    pub(super) ip: u32,
    /// Bits that all addresses of the network have in common.
    pub(super) mask: u32,
}

/// The neighbours at one NIC.
pub(super) struct Hosts {
    mac: Mac,
    own: Vec<Own>,
    known: Known<u32>,
}

impl Hosts {
    /// Nobody is known yet to a group with this Ethernet address, and these addresses.
    pub(super) fn new(mac: Mac, own: Vec<Own>) -> Self {
        Self { mac, own, known: Known::new() }
    }

    /// The network says this.
    pub(super) fn hear_network(&mut self, packet: &Packet, now: Duration) -> Heard {
        let (ip, mac) = (packet.sender_ip, packet.sender_mac);
        if mac == self.mac {
            return Heard::default();
        }
        if self.is_own(ip) {
            // A station claims an address of ours: a member tells of it, as a router that is alone does.
            return Heard { goes_on: true, ..Heard::default() };
        }
        let is_for_us = self.is_own(packet.target_ip);
        let told = self.learn((ip, mac), is_for_us, now);
        let is_asked = is_for_us && packet.operation == Operation::Request;
        Heard { answer: is_asked.then(|| self.answer(packet)), told, goes_on: false }
    }

    /// A member says this.
    pub(super) fn hear_member(&mut self, member: u16, packet: &Packet, now: Duration) -> Heard {
        if packet.operation != Operation::Request {
            return Heard::default();
        }
        self.asked_by((member, packet.sender_ip), packet.target_ip, true, now)
    }

    /// A member asks for a neighbour by its desk. `is_known`: it is in the table that members have in common.
    pub(super) fn ask(&mut self, (member, ip): (u16, u32), is_known: bool, now: Duration) -> Heard {
        self.asked_by((member, self.voice(ip)), ip, is_known, now)
    }

    /// Whether a member may ask for this address: a station may have it, and none of ours is it.
    pub(super) fn may_be_asked(&self, ip: u32) -> bool {
        !ipv4::is_martian(ip) && !self.is_own(ip) && !self.is_network_wide(ip)
    }

    /// What asks for a neighbour, of all stations or of the one that has this address.
    pub(super) fn question(&self, ip: u32, to: Mac) -> Spoken {
        let packet = Packet {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender_ip: self.voice(ip),
            target_mac: Mac::default(),
            target_ip: ip,
        };
        spoken(to, &packet)
    }

    /// An address is asked for, so that the answer is of interest.
    pub(super) fn expect(&mut self, ip: u32, now: Duration) {
        self.known.expect(ip, now);
    }

    /// Whether this was said now, and is of interest.
    pub(super) fn has_heard(&self, (ip, mac): (u32, Mac), now: Duration) -> bool {
        self.known.heard(ip, now) == Some(mac)
    }

    /// The own address that speaks to another one.
    fn voice(&self, ip: u32) -> u32 {
        self.near(ip).or(self.own.first().copied()).map_or(0, |own| own.ip)
    }

    /// A member asks for an address, by one of its own.
    fn asked_by(&mut self, (member, by): (u16, u32), ip: u32, is_known: bool, now: Duration) -> Heard {
        if self.is_own(ip) {
            return Heard::default();
        }
        let Asked { goes_on, mac } = self.known.ask((member, ip), is_known, now);
        let told = mac.map(|mac| (bit(member), self.reply(ip, mac, by)));
        Heard { goes_on, told, answer: None }
    }

    /// The address of a neighbour that is known.
    pub(super) fn station(&self, ip: u32) -> Option<Mac> {
        self.known.station(ip)
    }

    /// The addresses of all neighbours that are known.
    pub(super) fn stations(&self) -> Vec<Mac> {
        self.known.stations().collect()
    }

    /// Other hosts may be there by now.
    pub(super) fn forget(&mut self) {
        self.known.forget();
    }

    /// Notes a station: one that speaks to us may be new, of others only a change is of interest. What members are to be told.
    fn learn(&mut self, (ip, mac): (u32, Mac), is_for_us: bool, now: Duration) -> Option<(u64, Spoken)> {
        if !mac.is_station() || ip == 0 || self.is_network_wide(ip) {
            return None;
        }
        let is_of_interest = self.known.contains(ip) || is_for_us && self.near(ip).is_some();
        if !is_of_interest {
            return None;
        }
        let to = self.known.hear((ip, mac), now);
        (to != 0).then(|| (to, self.reply(ip, mac, self.voice(ip))))
    }

    fn is_own(&self, ip: u32) -> bool {
        self.own.iter().any(|own| own.ip == ip)
    }

    /// The own address in whose network another one lies.
    fn near(&self, ip: u32) -> Option<Own> {
        self.own.iter().find(|own| own.ip & own.mask == ip & own.mask).copied()
    }

    /// Whether it names one of the networks as a whole; of two addresses (RFC 3021) neither does.
    fn is_network_wide(&self, ip: u32) -> bool {
        self.near(ip).is_some_and(|own| !own.mask > 1 && [0, !own.mask].contains(&(ip & !own.mask)))
    }

    fn answer(&self, request: &Packet) -> Spoken {
        let packet = Packet {
            operation: Operation::Reply,
            sender_mac: self.mac,
            sender_ip: request.target_ip,
            target_mac: request.sender_mac,
            target_ip: request.sender_ip,
        };
        spoken(request.sender_mac, &packet)
    }

    /// What a neighbour says to members.
    fn reply(&self, ip: u32, mac: Mac, to: u32) -> Spoken {
        let packet = Packet {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: ip,
            target_mac: self.mac,
            target_ip: to,
        };
        spoken(self.mac, &packet)
    }
}

/// A frame with an ARP packet, for a station.
pub(super) fn spoken(to: Mac, packet: &Packet) -> Spoken {
    let mut octets = [0; ethernet::SHORTEST];
    let header = ethernet::Header { destination: to, source: packet.sender_mac, ethertype: ethernet::ARP };
    let written = header.write(&mut octets).and_then(|()| packet.write(&mut octets[ethernet::HEADER..]));
    // Both fit; a frame of zeros would be nobody's.
    if written.is_err() {
        octets = [0; ethernet::SHORTEST];
    }
    octets
}

#[cfg(test)]
mod tests;
