//! The IPv4 neighbours of a group at one of its NICs: ARP in the name of all members.
//!
//! A member resolves a neighbour by an ARP request, as any router does. The request is handled here before it leaves the host: if the
//! neighbour is known, it is answered at once, else the network is asked, once for all members. Messages of the network are handled here as
//! well: replies are passed to the members that have asked, requests are answered. So all members have the same view of the neighbours,
//! whichever of them owns the queue at which ARP arrives, and none can change that of the others. Nothing of this depends on a member's
//! engine.
//!
//! Pure: packets and time come in, frames go out.

use std::time::Duration;

use frame::arp::{Operation, Packet};
use frame::{Mac, ethernet, ipv4};

use super::known::{Asked, Known, bit};

/// A frame with an ARP packet.
pub(super) type Spoken = [u8; ethernet::SHORTEST];

/// Result of handling a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// True if its frame goes on to its destination.
    pub(super) goes_on: bool,
    /// Reply to the network.
    pub(super) answer: Option<Spoken>,
    /// Frame for members, with a bit for the number of each of them.
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
    /// Creates an empty table for a group with this Ethernet address and these addresses.
    pub(super) fn new(mac: Mac, own: Vec<Own>) -> Self {
        Self { mac, own, known: Known::new() }
    }

    /// Handles a packet from the network.
    pub(super) fn hear_network(&mut self, packet: &Packet, now: Duration) -> Heard {
        let (ip, mac) = (packet.sender_ip, packet.sender_mac);
        if mac == self.mac {
            return Heard::default();
        }
        if self.is_own(ip) {
            // Another station claims an address of ours: a member reports it, as a single router does.
            return Heard { goes_on: true, ..Heard::default() };
        }
        let is_for_us = self.is_own(packet.target_ip);
        let told = self.learn((ip, mac), is_for_us, now);
        let is_asked = is_for_us && packet.operation == Operation::Request;
        Heard { answer: is_asked.then(|| self.answer(packet)), told, goes_on: false }
    }

    /// Handles a packet of a member.
    pub(super) fn hear_member(&mut self, member: u16, packet: &Packet, now: Duration) -> Heard {
        if packet.operation != Operation::Request {
            return Heard::default();
        }
        self.asked_by((member, packet.sender_ip), packet.target_ip, true, now)
    }

    /// Handles a member's question at its desk. `is_known`: the neighbour is in the table that members share.
    pub(super) fn ask(&mut self, (member, ip): (u16, u32), is_known: bool, now: Duration) -> Heard {
        self.asked_by((member, self.voice(ip)), ip, is_known, now)
    }

    /// Returns true if a member may ask for this address: it can be that of a station, and is not one of ours.
    pub(super) fn may_be_asked(&self, ip: u32) -> bool {
        !ipv4::is_martian(ip) && !self.is_own(ip) && !self.is_network_wide(ip)
    }

    /// Creates an ARP request for a neighbour, by broadcast or to the station with this address.
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

    /// Notes that an address is requested, so that the reply is stored.
    pub(super) fn expect(&mut self, ip: u32, now: Duration) {
        self.known.expect(ip, now);
    }

    /// Returns true if a known neighbour has this Ethernet address, and its last message came at this time.
    pub(super) fn has_heard(&self, (ip, mac): (u32, Mac), now: Duration) -> bool {
        self.known.heard(ip, now) == Some(mac)
    }

    /// Returns the own address that is the source of messages to another address.
    fn voice(&self, ip: u32) -> u32 {
        self.near(ip).or(self.own.first().copied()).map_or(0, |own| own.ip)
    }

    /// Handles a member's request for an address, from one of its own.
    fn asked_by(&mut self, (member, by): (u16, u32), ip: u32, is_known: bool, now: Duration) -> Heard {
        if self.is_own(ip) {
            return Heard::default();
        }
        let Asked { goes_on, mac } = self.known.ask((member, ip), is_known, now);
        let told = mac.map(|mac| (bit(member), self.reply(ip, mac, by)));
        Heard { goes_on, told, answer: None }
    }

    /// Returns the Ethernet address of a known neighbour.
    pub(super) fn station(&self, ip: u32) -> Option<Mac> {
        self.known.station(ip)
    }

    /// Returns the Ethernet addresses of all known neighbours.
    pub(super) fn stations(&self) -> Vec<Mac> {
        self.known.stations().collect()
    }

    /// Forgets all neighbours: there may be other hosts by now.
    pub(super) fn forget(&mut self) {
        self.known.forget();
    }

    /// Stores the address of a station: a new one only if its message is for us, else only a change. Returns a frame for members.
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

    /// Returns the own address in whose network another address lies.
    fn near(&self, ip: u32) -> Option<Own> {
        self.own.iter().find(|own| own.ip & own.mask == ip & own.mask).copied()
    }

    /// Returns true for the network and broadcast addresses of our networks; one of two addresses (RFC 3021) has none.
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

    /// Creates the ARP reply of a neighbour to members.
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

/// Creates a frame with an ARP packet for a station.
pub(super) fn spoken(to: Mac, packet: &Packet) -> Spoken {
    let mut octets = [0; ethernet::SHORTEST];
    let header = ethernet::Header { destination: to, source: packet.sender_mac, ethertype: ethernet::ARP };
    let written = header.write(&mut octets).and_then(|()| packet.write(&mut octets[ethernet::HEADER..]));
    // Both fit; a frame of zeros would have no receiver.
    if written.is_err() {
        octets = [0; ethernet::SHORTEST];
    }
    octets
}

#[cfg(test)]
mod tests;
