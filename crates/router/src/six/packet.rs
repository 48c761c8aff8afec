//! The slow path of IPv6: handles one packet at a time.

use frame::{ethernet, ipv6, nd};

use crate::adjacency::Adjacency;
use crate::ip::Ip;
use crate::offload;
use crate::pending::Held;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::{NextHop, Refusal, Routes, Routes6};
use crate::six::burst::age;
use crate::six::icmp::{Reason6, Refused6};
use crate::slow::{Origin, ethertype};

/// Reads the fixed header of a frame that was checked on reception.
pub(crate) fn header<B: Buffer>(buffer: &mut B) -> Result<ipv6::Header, frame::Error> {
    let octets = buffer.octets().get(ethernet::HEADER..).ok_or(frame::Error::Short)?;
    Ok(*ipv6::Packet::parse_quoted(octets)?.header())
}

/// Returns the header of a complete packet, even in several buffers.
fn whole_packet<B: Buffer>(buffer: &mut B) -> Result<ipv6::Header, frame::Error> {
    let len = buffer.len();
    let header = header(buffer)?;
    if ethernet::HEADER + header.total_len() > len { Err(frame::Error::Short) } else { Ok(header) }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles an IPv6 frame: for the router itself, to be forwarded, or neither.
    pub(crate) fn accept_ipv6<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut buffer: B, nic: u8) {
        let origin = Origin::Received(nic);
        let counters = self.counters;
        if !self.nics[usize::from(nic)].six.is_on() {
            return self.discard(platform, buffer, origin, &counters.drop_protocol);
        }
        self.mixed |= 1 << nic;
        let to_group = buffer.octets()[0] & 1 != 0;
        let Ok(header) = whole_packet(&mut buffer) else {
            return self.discard(platform, buffer, origin, &counters.drop_ip_header);
        };
        trim(&mut buffer, &header);
        let (source, destination) = (header.source, header.destination);
        // Discovery tells own messages, received by another NIC, from those of a station with the same address.
        let ours = self.is_only_ours6(source, nic);
        if ours && !is_discovery(&mut buffer, &header) {
            return self.discard(platform, buffer, origin, &counters.drop_own_source);
        }
        let unnamed = source == 0 && ipv6::is_multicast(destination);
        if ipv6::is_multicast(source) || ipv6::is_martian(source) && !unnamed {
            return self.discard(platform, buffer, origin, &counters.drop_martian);
        }
        if !ours && !self.is_expected6(source, usize::from(nic)) {
            return self.discard(platform, buffer, origin, &counters.drop_reverse_path);
        }
        if self.is_own6(destination, nic) || self.nics[usize::from(nic)].six.listens(destination) {
            return self.deliver6(platform, buffer, (&header, nic));
        }
        if ipv6::is_multicast(destination) {
            return self.discard(platform, buffer, origin, &counters.drop_multicast);
        }
        // A link-layer multicast is never forwarded, and a packet to one link only neither.
        if to_group || !ipv6::is_forwardable(destination) {
            return self.discard(platform, buffer, origin, &counters.drop_martian);
        }
        self.forward6(platform, buffer, (&header, nic));
    }

    /// Forwards a packet that is for another node, if it may be.
    fn forward6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        (header, nic): (&ipv6::Header, u8),
    ) {
        let (origin, counters) = (Origin::Received(nic), self.counters);
        if ipv6::is_link_local(header.source) {
            let refused = Refused6 { buffer, origin, cause: &counters.drop_martian };
            return self.refuse6(platform, refused, Reason6::Scope);
        }
        if header.next_header == ipv6::next::HOP_BY_HOP
            && let Err(fault) = self.look_at_options(&mut buffer, ipv6::HEADER)
        {
            return self.refuse_option(platform, buffer, (header, nic), fault);
        }
        if header.hop_limit <= 1 {
            let refused = Refused6 { buffer, origin, cause: &counters.drop_ttl };
            return self.refuse6(platform, refused, Reason6::Expired);
        }
        self.route6(platform, buffer, origin, nic);
    }

    /// Routes a packet from a NIC, from a holding queue or from the router itself. Its hop limit is still unchanged. A
    /// link-local destination is behind NIC `near`.
    pub(crate) fn route6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        origin: Origin,
        near: u8,
    ) {
        let counters = self.counters;
        let Ok(header) = header(&mut buffer) else {
            return self.discard(platform, buffer, origin, &counters.drop_ip_header);
        };
        let destination = header.destination;
        let (hop, next) = if ipv6::is_link_local(destination) {
            (None, NextHop::Connected { nic: near })
        } else {
            let table = self.routes.six();
            let hop = self.select6(table.lookup(destination), &mut buffer);
            (Some(hop), table.next_hop(hop))
        };
        let local = next == NextHop::Local || self.is_own6(destination, near);
        if let NextHop::Refused(refusal) = next
            && !local
        {
            return self.refuse_by_route6(platform, (buffer, origin), refusal);
        }
        match (local, origin, next.neighbour(Ip::v6(destination))) {
            (true, Origin::Received(nic), _) => self.deliver6(platform, buffer, (&header, nic)),
            (true, ..) => self.discard(platform, buffer, origin, &counters.drop_local),
            (false, _, Some((nic, ip))) if usize::from(nic) < self.nics.len() && ip.as_v4().is_none() => {
                self.send_to6(platform, Held { buffer, origin }, ((nic, ip), hop));
            }
            _ => {
                let refused = Refused6 { buffer, origin, cause: &counters.drop_no_route };
                self.refuse6(platform, refused, Reason6::NoRoute);
            }
        }
    }

    /// Drops a packet that its route refuses, and tells its sender as the route says.
    fn refuse_by_route6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        (buffer, origin): (B, Origin),
        refusal: Refusal,
    ) {
        let cause = &self.counters.drop_refused;
        let refused = Refused6 { buffer, origin, cause };
        match refusal {
            Refusal::Silent => self.discard(platform, refused.buffer, origin, cause),
            Refusal::Unreachable => self.refuse6(platform, refused, Reason6::NoRoute),
            Refusal::Prohibited => self.refuse6(platform, refused, Reason6::Prohibited),
        }
    }

    /// Sends a packet to its next hop, or holds it until that is resolved.
    fn send_to6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut packet: Held<B>,
        ((nic, ip), hop): ((u8, Ip), Option<u32>),
    ) {
        let Some(mac) = self.neighbours.find_for_use(nic, ip, self.now) else {
            return self.hold(platform, (nic, ip), packet);
        };
        self.consider_redirect6(platform, &mut packet, ((nic, ip.bits()), mac));
        let own = &self.nics[usize::from(nic)];
        let header = ethernet::Header { destination: mac, source: own.mac, ethertype: ethernet::IPV6 };
        let (mtu, is_port) = (own.mtu, own.is_port());
        let entry = Adjacency::with_header(nic, own.mtu, header);
        let Held { mut buffer, origin } = packet;
        let destination = head_destination(&mut buffer);
        if let Some(hop) = hop {
            self.keep_entry6(hop, destination, if is_port { entry } else { entry.tagged() });
        }
        let longest = longest(&mut buffer);
        if longest > usize::from(mtu) {
            let refused = Refused6 { buffer, origin, cause: &self.counters.drop_mtu };
            return self.refuse6(platform, refused, Reason6::TooBig { mtu });
        }
        finish(&mut buffer, origin, &entry);
        self.send(platform, entry.interface(), buffer, origin);
    }

    /// Stores the header of a next hop, or of a host of a connected network, for the hot path.
    fn keep_entry6(&mut self, hop: u32, destination: u128, entry: Adjacency) {
        if matches!(self.routes.six().next_hop(hop), NextHop::Connected { .. }) {
            self.adjacencies.keep_hop6(hop, self.generation, Adjacency::connected());
            self.adjacencies.keep_host6(destination, self.generation, entry);
        } else {
            self.adjacencies.keep_hop6(hop, self.generation, entry);
        }
    }

    /// Routes a packet of either family that has waited for a neighbour behind NIC `near`.
    pub(crate) fn route_again<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut packet: Held<B>,
        near: u8,
    ) {
        if ethertype(&mut packet.buffer) == ethernet::IPV6 {
            self.route6(platform, packet.buffer, packet.origin, near);
        } else {
            self.route(platform, packet.buffer, packet.origin);
        }
    }
}

/// Returns true if a packet without extension headers is a neighbour solicitation or advertisement.
pub(crate) fn is_discovery<B: Buffer>(buffer: &mut B, header: &ipv6::Header) -> bool {
    let kind = buffer.head()[ethernet::HEADER + ipv6::HEADER];
    header.next_header == ipv6::next::ICMP
        && header.hop_limit == ipv6::LINK_HOPS
        && header.payload_len != 0
        && matches!(kind, nd::SOLICIT | nd::ADVERT)
}

/// Removes octets after the packet, which are not needed on the next link, down to the shortest frame.
fn trim<B: Buffer>(buffer: &mut B, header: &ipv6::Header) {
    let end = header.total_len() + ethernet::HEADER;
    buffer.set_len(buffer.len().min(end.max(ethernet::SHORTEST)));
}

/// Returns the length of the longest packet that is sent: the whole one, or a segment.
fn longest<B: Buffer>(buffer: &mut B) -> usize {
    let (pending, len) = (buffer.offload(), buffer.len());
    if pending.gso().is_none() {
        return header(buffer).map_or(len, |header| header.total_len());
    }
    offload::wire_len(buffer.octets(), pending, len).saturating_sub(ethernet::HEADER)
}

/// Reads the destination of a packet whose header is complete.
fn head_destination<B: Buffer>(buffer: &mut B) -> u128 {
    header(buffer).map_or(0, |header| header.destination)
}

/// Completes a packet for its next link; a forwarded one has its hop limit decremented.
fn finish<B: Buffer>(buffer: &mut B, origin: Origin, entry: &Adjacency) {
    match origin {
        Origin::Received(_) | Origin::Part => age(buffer, &entry.header),
        Origin::Own => buffer.head()[..ethernet::HEADER].copy_from_slice(&entry.header),
    }
}
