//! The neighbours of a group at one of its NICs, and the one voice that speaks ARP there for all members.
//!
//! A member asks for a neighbour as any router does, by an ARP request. That is heard here before it leaves the host: what is known is
//! answered at once, and what is not is asked of the network, once for all members. What the network says is heard here as well, and
//! told to those who have asked; what it asks for is answered here. So members see the neighbours alike, whoever of them owns the queue
//! that ARP comes by, and none of them can change what the others see. It needs nothing of a member's engine.
//!
//! Pure: packets and time come in, frames go out.

use std::collections::BTreeMap;
use std::time::Duration;

use frame::arp::{Operation, Packet};
use frame::{Mac, ethernet, ipv4};

/// Neighbours that are known or asked for at most.
const MOST: usize = 4096;
/// How long what a neighbour has said counts, without its being asked anew.
const FRESH: Duration = Duration::from_secs(30);
/// How long it counts while the neighbour does not answer any more.
const GONE: Duration = Duration::from_secs(90);
/// Least time between two requests for one address, and between two changes of it of which all members are told.
const PAUSE: Duration = Duration::from_millis(100);

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
    known: BTreeMap<u32, Host>,
}

/// One neighbour, or an address that was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    mac: Option<Mac>,
    /// When it has spoken last.
    seen: Duration,
    /// When it was asked last.
    asked: Option<Duration>,
    /// Members that wait for it.
    askers: u64,
    /// Whether it has another address than members were told, and when all were told that it has last.
    has_moved: bool,
    told: Option<Duration>,
}

/// The bit of a member; members have numbers below 64.
pub(super) const fn bit(member: u16) -> u64 {
    1 << (member & 63)
}

impl Hosts {
    /// Nobody is known yet to a group with this Ethernet address, and these addresses.
    pub(super) fn new(mac: Mac, own: Vec<Own>) -> Self {
        Self { mac, own, known: BTreeMap::new() }
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
        self.make_room(ip);
        self.known.entry(ip).or_default().asked = Some(now);
    }

    /// Whether this was said now, and is of interest.
    pub(super) fn has_heard(&self, (ip, mac): (u32, Mac), now: Duration) -> bool {
        self.known.get(&ip).is_some_and(|host| host.mac == Some(mac) && host.seen == now)
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
        self.make_room(ip);
        let host = self.known.entry(ip).or_default();
        let age = now.saturating_sub(host.seen);
        let mac = host.mac.filter(|_| is_known && age < GONE);
        if mac.is_none() {
            host.askers |= bit(member);
        }
        let is_due = host.asked.is_none_or(|asked| now.saturating_sub(asked) >= PAUSE);
        let goes_on = is_due && (mac.is_none() || age >= FRESH);
        if goes_on {
            host.asked = Some(now);
        }
        let told = mac.map(|mac| (bit(member), self.reply(ip, mac, by)));
        Heard { goes_on, told, answer: None }
    }

    /// The address of a neighbour that is known.
    pub(super) fn station(&self, ip: u32) -> Option<Mac> {
        self.known.get(&ip)?.mac
    }

    /// The addresses of all neighbours that are known.
    pub(super) fn stations(&self) -> Vec<Mac> {
        self.known.values().filter_map(|host| host.mac).collect()
    }

    /// Other hosts may be there by now.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// How many neighbours are known.
    #[cfg(test)]
    fn known(&self) -> usize {
        self.known.values().filter(|host| host.mac.is_some()).count()
    }

    /// Notes a station: one that speaks to us may be new, of others only a change is of interest. What members are to be told.
    fn learn(&mut self, (ip, mac): (u32, Mac), is_for_us: bool, now: Duration) -> Option<(u64, Spoken)> {
        if !mac.is_station() || ip == 0 || self.is_network_wide(ip) {
            return None;
        }
        let is_of_interest = self.known.contains_key(&ip) || is_for_us && self.near(ip).is_some();
        if !is_of_interest {
            return None;
        }
        self.make_room(ip);
        let host = self.known.entry(ip).or_default();
        let before = host.mac.replace(mac);
        host.seen = now;
        let askers = std::mem::take(&mut host.askers);
        // Where a neighbour has another address than before, all members hear of it; of one that changes it all the time, now and then.
        host.has_moved |= before.is_some_and(|before| before != mac);
        let is_due = host.told.is_none_or(|told| now.saturating_sub(told) >= PAUSE);
        let to = if host.has_moved && is_due {
            (host.has_moved, host.told) = (false, Some(now));
            u64::MAX
        } else {
            askers
        };
        (to != 0).then(|| (to, self.reply(ip, mac, self.voice(ip))))
    }

    /// Makes room for an address: where there are too many, another one has to be asked for anew.
    fn make_room(&mut self, ip: u32) {
        if self.known.len() < MOST || self.known.contains_key(&ip) {
            return;
        }
        let next = self.known.range(ip..).next().or_else(|| self.known.iter().next());
        if let Some(other) = next.map(|(other, _)| *other) {
            self.known.remove(&other);
        }
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
