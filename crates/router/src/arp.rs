//! ARP (RFC 826): answers for the router's addresses, learns from stations that contact it, sends requests.

use frame::{Mac, arp, ethernet, ipv4};

use crate::ip::Ip;
use crate::neighbours::{Learned, Neighbour, Said};
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::Origin;

/// An address to be resolved.
pub(crate) struct ArpRequest {
    /// Number of the NIC behind which the neighbour should be.
    pub(crate) nic: u8,
    /// The neighbour's address.
    pub(crate) ip: u32,
    /// Destination of the request: broadcast, or the neighbour's last known address.
    pub(crate) to: Mac,
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles an ARP frame from NIC `nic`.
    pub(crate) fn handle_arp<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut buffer: B, nic: u8) {
        let octets = buffer.octets();
        let Ok(packet) = arp::Packet::parse(&octets[ethernet::HEADER.min(octets.len())..]) else {
            self.discard(platform, buffer, Origin::Received(nic), &self.counters.drop_protocol);
            return;
        };
        self.counters.consumed.add(1);
        self.notice_claim(platform, &packet, nic);
        let own = &self.nics[usize::from(nic)];
        let (mac, for_us) = (own.mac, own.owns(packet.target_ip));
        self.learn(&packet, nic, for_us);
        if for_us && packet.operation == arp::Operation::Request && self.answers_arp {
            self.answer(platform, buffer, nic, (&packet, mac));
        } else {
            platform.free(buffer);
        }
        self.keep_up(platform);
    }

    /// Detects another station that uses one of our addresses (RFC 5227, section 2.4). Two NICs of ours may be in one
    /// network, and receive each other's frames.
    fn notice_claim<P: Platform<Buffer = B>>(&mut self, platform: &mut P, packet: &arp::Packet, nic: u8) {
        let by = packet.sender_mac;
        if by.is_station() && self.is_own(packet.sender_ip) && self.nics.iter().all(|own| own.mac != by) {
            self.counters.arp_conflicts.add(1);
            platform.is_claimed(nic.into(), packet.sender_ip, by);
        }
    }

    /// Learns the sender: a station that contacts us may be a new neighbour, for other stations only changes matter.
    fn learn(&mut self, packet: &arp::Packet, nic: u8, for_us: bool) {
        let own = &self.nics[usize::from(nic)];
        let (ip, mac) = (packet.sender_ip, packet.sender_mac);
        if self.is_own(ip) || ipv4::is_martian(ip) || !mac.is_station() || own.is_network_wide(ip) {
            return;
        }
        // A gateway outside our networks is only learned if we have sent a request for it.
        let key = Ip::v4(ip);
        let create = for_us && (own.covers(ip) || self.is_awaited(nic, key));
        self.hear_of(Neighbour { nic, ip: key, mac }, Said::Confirmed, create);
    }

    /// Records what was said about a neighbour of either family.
    pub(crate) fn hear_of(&mut self, neighbour: Neighbour, said: Said, create: bool) {
        if self.neighbours.hear(neighbour, said, create, self.now) == Learned::Replaced {
            self.counters.neighbours_replaced.add(1);
        }
    }

    /// Asks for a neighbour of either family, at its last known address or all stations.
    pub(crate) fn ask_for<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: u8,
        (ip, to): (Ip, Mac),
    ) {
        self.counters.neighbour_requests.add(1);
        self.neighbours.note_asked(nic, ip);
        match ip.as_v4() {
            Some(ip) if self.neighbours.is_read_only() => platform.ask_for_neighbour(nic, ip),
            Some(ip) => self.ask(platform, &ArpRequest { nic, ip, to }),
            None => self.solicit(platform, nic, (ip.bits(), to)),
        }
    }

    /// Turns a request into its reply and sends it back.
    fn answer<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: B,
        nic: u8,
        (request, mac): (&arp::Packet, Mac),
    ) {
        let reply = arp::Packet {
            operation: arp::Operation::Reply,
            sender_mac: mac,
            sender_ip: request.target_ip,
            target_mac: request.sender_mac,
            target_ip: request.sender_ip,
        };
        self.send_arp(platform, buffer, (usize::from(nic), request.sender_mac), &reply);
    }

    /// Sends a request for a neighbour, with the own address that is nearest to it.
    pub(crate) fn ask<P: Platform<Buffer = B>>(&mut self, platform: &mut P, question: &ArpRequest) {
        let nic = usize::from(question.nic);
        let Some(own) = self.nics.get(nic) else { return };
        let request = arp::Packet {
            operation: arp::Operation::Request,
            sender_mac: own.mac,
            // Without an address of our own it is a probe (RFC 5227), which stations answer too.
            sender_ip: own.address_towards(question.ip).unwrap_or(0),
            target_mac: Mac::default(),
            target_ip: question.ip,
        };
        self.originate_arp(platform, nic, question.to, &request);
    }

    /// Sends an ARP packet in a new frame.
    pub(crate) fn originate_arp<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: usize,
        to: Mac,
        packet: &arp::Packet,
    ) {
        match platform.allocate() {
            Some(buffer) => self.send_arp(platform, buffer, (nic, to), packet),
            None => self.counters.originated_lost.add(1),
        }
    }

    /// Fills a buffer with an ARP frame and sends it.
    fn send_arp<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        (nic, to): (usize, Mac),
        packet: &arp::Packet,
    ) {
        buffer.set_len(ethernet::SHORTEST);
        buffer.clear_offload();
        let header =
            ethernet::Header { destination: to, source: packet.sender_mac, ethertype: ethernet::ARP };
        let octets = buffer.octets();
        octets.fill(0);
        let written = header.write(octets).and_then(|()| packet.write(&mut octets[ethernet::HEADER..]));
        match written {
            Ok(()) => self.send(platform, nic, buffer, Origin::Own),
            // The platform's buffers are shorter than an ARP frame.
            Err(_) => self.discard(platform, buffer, Origin::Own, &self.counters.drop_protocol),
        }
    }
}
