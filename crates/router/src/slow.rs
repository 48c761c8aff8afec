//! The slow path: handles one frame at a time, for all frames that the hot path does not handle.

use frame::{Mac, checksum, ethernet, ipv4, vlan};

use crate::adjacency::Adjacency;
use crate::burst::rewrite;
use crate::icmp::{Reason, Refused, is_reserved};
use crate::ip::Ip;
use crate::offload;
use crate::options::{self, Fault};
use crate::pending::{Held, Holding, Source};
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::{NextHop, Refusal, Routes};
use crate::six::icmp::{Reason6, Refused6};
use crate::six::packet;

/// Origin of a packet, which determines how its outcome is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From a NIC.
    Received(u8),
    /// From the router itself.
    Own,
    /// A part of a packet from a NIC, which is counted already.
    Part,
}

/// A packet on its way out.
pub(crate) struct Outgoing<B> {
    pub(crate) buffer: B,
    pub(crate) origin: Origin,
    pub(crate) header: ipv4::Header,
    /// Length in octets of the largest packet that the next link takes.
    pub(crate) mtu: u16,
}

/// The next hop of a packet.
struct Link {
    nic: u8,
    mac: Mac,
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles a frame from a NIC.
    #[cold]
    #[inline(never)]
    pub(crate) fn accept<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut buffer: B, nic: u8) {
        let origin = Origin::Received(nic);
        let own = self.nics[usize::from(nic)].mac;
        let counters = self.counters;
        let Ok((header, _)) = ethernet::Header::parse(buffer.octets()) else {
            return self.discard(platform, buffer, origin, &counters.drop_ethernet);
        };
        let for_us = header.destination == own || header.destination.is_group();
        if !for_us || header.source.is_group() {
            return self.discard(platform, buffer, origin, &counters.drop_ethernet);
        }
        match header.ethertype {
            ethernet::ARP => self.handle_arp(platform, buffer, nic),
            ethernet::IPV4 => self.accept_ipv4(platform, buffer, nic),
            ethernet::IPV6 => self.accept_ipv6(platform, buffer, nic),
            ethertype if vlan::is_tag(ethertype) => self.accept_tagged(platform, buffer, nic),
            _ => self.discard(platform, buffer, origin, &counters.drop_protocol),
        }
    }

    /// Handles an IPv4 frame: for the router itself, to be forwarded, or neither.
    fn accept_ipv4<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut buffer: B, nic: u8) {
        let origin = Origin::Received(nic);
        let counters = self.counters;
        let to_group = buffer.octets()[0] & 1 != 0;
        let Ok(header) = whole_packet(&mut buffer) else {
            return self.discard(platform, buffer, origin, &counters.drop_ip_header);
        };
        trim(&mut buffer, &header);
        if self.is_own(header.source) {
            return self.discard(platform, buffer, origin, &counters.drop_own_source);
        }
        if ipv4::is_martian(header.source) || self.is_network(header.source) {
            return self.discard(platform, buffer, origin, &counters.drop_martian);
        }
        if !self.is_expected(header.source, usize::from(nic)) {
            return self.discard(platform, buffer, origin, &counters.drop_reverse_path);
        }
        match options::check(&mut buffer, &header) {
            Ok(()) => {}
            Err(Fault::SourceRoute) => {
                return self.discard(platform, buffer, origin, &counters.drop_source_route);
            }
            Err(Fault::Malformed { at }) => {
                let refused = Refused { buffer, origin, cause: &counters.drop_ip_header };
                return self.refuse(platform, refused, Reason::Problem { at });
            }
        }
        if self.is_for_us(header.destination, nic) {
            return self.deliver(platform, buffer, (&header, nic));
        }
        // A link-layer broadcast is never forwarded (RFC 1812, 5.3.4).
        if !to_group && is_reserved(header.destination) {
            let refused = Refused { buffer, origin, cause: &counters.drop_martian };
            return self.refuse(platform, refused, Reason::NoRoute);
        }
        if to_group || ipv4::is_martian(header.destination) {
            return self.discard(platform, buffer, origin, &counters.drop_martian);
        }
        if header.ttl <= 1 {
            let refused = Refused { buffer, origin, cause: &counters.drop_ttl };
            return self.refuse(platform, refused, Reason::Expired);
        }
        self.route(platform, buffer, origin);
    }

    /// Returns true if the destination is the router itself: one of its addresses, or a broadcast in the network of NIC
    /// `nic`.
    fn is_for_us(&self, destination: u32, nic: u8) -> bool {
        destination == u32::MAX
            || self.is_own(destination)
            || self.nics[usize::from(nic)].is_network_wide(destination)
    }

    /// Returns true if `ip` is an address of the router.
    pub(crate) fn is_own(&self, ip: u32) -> bool {
        self.nics.iter().any(|own| own.owns(ip))
    }

    /// Returns true if `ip` is a broadcast or network address of a network that the router is in.
    fn is_network(&self, ip: u32) -> bool {
        self.nics.iter().any(|nic| nic.is_network_wide(ip))
    }

    /// Routes a packet from a NIC, from a holding queue or from the router itself. Its time to live and checksum are
    /// still unchanged.
    pub(crate) fn route<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut buffer: B, origin: Origin) {
        let counters = self.counters;
        let Ok(header) = ipv4_header(&mut buffer) else {
            return self.discard(platform, buffer, origin, &counters.drop_ip_header);
        };
        let hop = self.select(self.routes.lookup(header.destination), &mut buffer);
        let next = self.routes.next_hop(hop);
        let connected = matches!(next, NextHop::Connected { .. });
        if next == NextHop::Local || connected && self.is_own(header.destination) {
            return self.deliver_routed(platform, buffer, (&header, origin));
        }
        if let NextHop::Refused(refusal) = next {
            return self.refuse_by_route(platform, (buffer, origin), refusal);
        }
        let (nic, ip) = next.neighbour(Ip::v4(header.destination)).unwrap_or((u8::MAX, Ip::v4(0)));
        let Some(own) = self.nics.get(usize::from(nic)) else {
            let refused = Refused { buffer, origin, cause: &counters.drop_no_route };
            return self.refuse(platform, refused, Reason::NoRoute);
        };
        if ip.as_v4().is_some_and(|ip| own.is_network_wide(ip)) {
            // Directed broadcasts are not forwarded (RFC 2644).
            return self.discard(platform, buffer, origin, &counters.drop_martian);
        }
        let mtu = own.mtu;
        match self.neighbours.find_for_use(nic, ip, self.now) {
            Some(mac) => {
                self.consider_redirect(platform, &mut buffer, (&header, origin), (nic, ip));
                self.record(&mut buffer, (&header, origin), (nic, ip));
                let entry = self.prepare(hop, &header, &Link { nic, mac });
                self.dispatch(platform, Outgoing { buffer, origin, header, mtu }, &entry);
            }
            None => self.hold(platform, (nic, ip), Held { buffer, origin }),
        }
    }

    /// Drops a packet that its route refuses, and tells its sender as the route says.
    fn refuse_by_route<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        (buffer, origin): (B, Origin),
        refusal: Refusal,
    ) {
        let cause = &self.counters.drop_refused;
        let refused = Refused { buffer, origin, cause };
        match refusal {
            Refusal::Silent => self.discard(platform, refused.buffer, origin, cause),
            Refusal::Unreachable => self.refuse(platform, refused, Reason::NoNeighbour),
            Refusal::Prohibited => self.refuse(platform, refused, Reason::Prohibited),
        }
    }

    /// Handles a packet that is local according to the routes, though not by the addresses of the NICs.
    fn deliver_routed<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: B,
        (header, origin): (&ipv4::Header, Origin),
    ) {
        match origin {
            Origin::Received(nic) => self.deliver(platform, buffer, (header, nic)),
            Origin::Own | Origin::Part => self.discard(platform, buffer, origin, &self.counters.drop_local),
        }
    }

    /// Stores the header for a next hop, or for a host of a connected network, for the hot path.
    fn prepare(&mut self, hop: u32, header: &ipv4::Header, link: &Link) -> Adjacency {
        let own = &self.nics[usize::from(link.nic)];
        let entry = Adjacency::ready(link.nic, own.mtu, own.mac, link.mac);
        let kept = if own.is_port() { entry } else { entry.tagged() };
        if matches!(self.routes.next_hop(hop), NextHop::Connected { .. }) {
            self.adjacencies.keep_hop(hop, self.generation, Adjacency::connected());
            self.adjacencies.keep_host(header.destination, self.generation, kept);
        } else {
            self.adjacencies.keep_hop(hop, self.generation, kept);
        }
        entry
    }

    /// Sends a packet whose next hop is resolved: whole, in fragments, or not at all. For a packet to be segmented
    /// later, the length of its segments counts.
    fn dispatch<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut packet: Outgoing<B>,
        entry: &Adjacency,
    ) {
        let longest = longest_packet(&mut packet);
        if longest <= usize::from(packet.mtu) {
            finish(&mut packet.buffer, packet.origin, entry);
            return self.send(platform, entry.interface(), packet.buffer, packet.origin);
        }
        if packet.header.dont_fragment {
            let cause = &self.counters.drop_mtu;
            let refused = Refused { buffer: packet.buffer, origin: packet.origin, cause };
            return self.refuse(platform, refused, Reason::TooLarge { mtu: packet.mtu });
        }
        if packet.buffer.offload().gso().is_some() {
            return self.segment(platform, packet, entry);
        }
        offload::make_plain(&mut packet.buffer);
        self.fragment(platform, packet, entry);
    }

    /// Sends a packet that may be fragmented.
    pub(crate) fn send_whole_or_fragments<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut packet: Outgoing<B>,
        entry: &Adjacency,
    ) {
        if packet.header.total_len > packet.mtu {
            return self.fragment(platform, packet, entry);
        }
        finish(&mut packet.buffer, packet.origin, entry);
        self.send(platform, entry.interface(), packet.buffer, packet.origin);
    }

    /// Holds a packet until its neighbour is resolved, and sends a request if needed.
    pub(crate) fn hold<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        (nic, ip): (u8, Ip),
        mut packet: Held<B>,
    ) {
        let source = source_of(&mut packet);
        match self.waiting.pending.hold((nic, ip), source, packet, self.now) {
            Holding::Waits => {}
            Holding::Ask => self.ask_for(platform, nic, (ip, Mac::BROADCAST)),
            Holding::Paced(lost) => {
                self.discard(platform, lost.buffer, lost.origin, &self.counters.drop_neighbour_paced);
            }
            Holding::Unreachable(lost) => self.unreachable(platform, lost),
        }
        while let Some(lost) = self.waiting.pending.take_lost() {
            self.discard(platform, lost.buffer, lost.origin, &self.counters.drop_no_neighbour);
        }
    }

    /// Refuses a packet whose neighbour does not answer.
    pub(crate) fn unreachable<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut packet: Held<B>) {
        let cause = &self.counters.drop_no_neighbour;
        if ethertype(&mut packet.buffer) == ethernet::IPV6 {
            let refused = Refused6 { buffer: packet.buffer, origin: packet.origin, cause };
            return self.refuse6(platform, refused, Reason6::NoNeighbour);
        }
        let refused = Refused { buffer: packet.buffer, origin: packet.origin, cause };
        self.refuse(platform, refused, Reason::NoNeighbour);
    }
}

/// Returns the ethertype of a frame that is being routed.
pub(crate) fn ethertype<B: Buffer>(buffer: &mut B) -> u16 {
    let head = buffer.head();
    u16::from_be_bytes([head[12], head[13]])
}

/// Returns the source to which the resolution for a packet is attributed.
fn source_of<B: Buffer>(packet: &mut Held<B>) -> Source {
    let Origin::Received(nic) = packet.origin else { return Source::own() };
    let ip = if ethertype(&mut packet.buffer) == ethernet::IPV6 {
        packet::header(&mut packet.buffer).map(|header| Ip::v6(header.source))
    } else {
        ipv4_header(&mut packet.buffer).map(|header| Ip::v4(header.source))
    };
    Source::new(nic, ip.unwrap_or_default())
}

/// Removes octets after the packet, which are not needed on the next link, down to the shortest frame.
fn trim<B: Buffer>(buffer: &mut B, header: &ipv4::Header) {
    let end = usize::from(header.total_len) + ethernet::HEADER;
    buffer.set_len(buffer.len().min(end.max(ethernet::SHORTEST)));
}

/// Returns the header of a complete packet, even in several buffers (with the checks of [`ipv4::Packet::parse`]).
fn whole_packet<B: Buffer>(buffer: &mut B) -> Result<ipv4::Header, frame::Error> {
    let len = buffer.len();
    let octets = buffer.octets().get(ethernet::HEADER..).ok_or(frame::Error::Short)?;
    let packet = ipv4::Packet::parse_quoted(octets)?;
    let header = *packet.header();
    let end = ethernet::HEADER + usize::from(header.total_len);
    match packet.octets().get(..usize::from(header.header_len)) {
        Some(_) if end > len => Err(frame::Error::Short),
        Some(octets) if checksum::holds(octets) => Ok(header),
        Some(_) => Err(frame::Error::Checksum),
        None => Err(frame::Error::Short),
    }
}

/// Returns the length of the longest packet that is sent: the whole one, or a segment.
fn longest_packet<B: Buffer>(packet: &mut Outgoing<B>) -> usize {
    let (offload, len) = (packet.buffer.offload(), packet.buffer.len());
    if offload.gso().is_none() {
        return usize::from(packet.header.total_len);
    }
    offload::wire_len(packet.buffer.octets(), offload, len).saturating_sub(ethernet::HEADER)
}

/// Returns the header of a packet that was checked on reception.
pub(crate) fn ipv4_header<B: Buffer>(buffer: &mut B) -> Result<ipv4::Header, frame::Error> {
    let octets = buffer.octets();
    let packet = octets.get(ethernet::HEADER..).ok_or(frame::Error::Short)?;
    Ok(*ipv4::Packet::parse_quoted(packet)?.header())
}

/// Completes a packet for its next link; a forwarded one has its time to live decremented.
pub(crate) fn finish<B: Buffer>(buffer: &mut B, origin: Origin, entry: &Adjacency) {
    match origin {
        Origin::Received(_) | Origin::Part => rewrite(buffer, &entry.header),
        Origin::Own => buffer.head()[..ethernet::HEADER].copy_from_slice(&entry.header),
    }
}
