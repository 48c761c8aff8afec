//! ARP and neighbour discovery of a group behind balancers that are virtual machines: received on both sides of the balancers, and
//! forwarded by none of them.
//!
//! Messages of members that are served here are received at their own NICs, those of all others where they reach a balancer. Requests to
//! the network are sent at the link itself, in the group's name. Replies to members, and announcements of where neighbours are, are sent
//! into the interconnection at the port of the link's carrier.

use std::sync::Arc;

use frame::{Mac, arp, ethernet, icmpv6, ipv6, nd, vlan};
use group::probe;
use port::{Frame, Sink};

use super::hosts::{Spoken, spoken};
use super::kinds::is_back;
use super::seat::Member;
use super::segment::Segment;
use super::{Core, packet_of};

/// Offset of the target hardware address in an ARP packet.
const TARGET: usize = 18;
const _: () = assert!(TARGET + 6 <= arp::LEN);
/// Offset of the type of an ICMPv6 message in a frame without tags, and of the lifetime in a router advertisement.
const ICMP: usize = ethernet::HEADER + ipv6::HEADER;
const LIFETIME: usize = ICMP + icmpv6::HEADER - 2;
/// Octets of the shortest frame with the maximum number of tags.
const SHORTEST_TAGGED: usize = ethernet::SHORTEST + vlan::MOST * vlan::TAG;

/// Addresses a frame to a member: its Ethernet header, and in an ARP packet the target hardware address.
pub(super) fn address(octets: &mut [u8], Mac(station): Mac) {
    octets[..6].copy_from_slice(&station);
    let Ok(tags) = vlan::Tags::parse(octets) else { return };
    let at = tags.header() + TARGET;
    if let Some(target) = octets.get_mut(at..at + 6).filter(|_| tags.ethertype == ethernet::ARP) {
        target.copy_from_slice(&station);
    }
}

impl Core {
    /// Handles an ARP frame from the network at a NIC of a group; returns true if it contains a valid packet in a VLAN of the group: then
    /// no balancer gets it.
    pub(super) fn hears_for_machines(&self, nic: usize, frame: &Frame<'_>, out: &dyn Sink) -> bool {
        let Some((_, segment, packet)) = self.arp_of(nic, frame) else { return false };
        if self.hears_network(nic, frame, out) {
            let station = segment.hosts().station(packet.sender_ip);
            self.announce((nic, segment), station);
            return true;
        }
        // Another station claims an address of the group: one member gets the frame and reports it.
        let first = self.live().into_values().next();
        let mut octets = [0; SHORTEST_TAGGED];
        let len = frame.octets().copy_to_slice(&mut octets).max(ethernet::SHORTEST);
        first.into_iter().for_each(|member| self.put_into(&member, nic, &mut octets[..len]));
        true
    }

    /// Handles an ARP frame that a member served elsewhere has sent to a balancer.
    pub(super) fn hears_behind(&self, nic: usize, frame: &Frame<'_>) {
        if self.answers_for_probes(nic, frame) {
            return;
        }
        let sender = self.sender(nic, frame);
        if !sender.is_some_and(|member| self.hears_member((member.number, nic), frame)) {
            self.ignores_arp(nic);
        }
    }

    /// Handles a neighbour discovery message that a member served elsewhere has sent to a balancer.
    pub(super) fn hears_discovery_behind(&self, nic: usize, frame: &Frame<'_>) {
        let sender = self.sender(nic, frame);
        let hears = |member: Arc<Member>| {
            self.keeps_last_advert(nic, frame) || self.hears_discovery_of((member.number, nic), frame)
        };
        if !sender.is_some_and(hears) {
            self.ignores_discovery(nic);
        }
    }

    /// Keeps the last router advertisement of a member on another host that is stopped (RFC 4861, 6.2.5): it would take the default router
    /// from hosts although the group goes on. Returns true if the frame is one.
    pub(super) fn keeps_last_advert(&self, nic: usize, frame: &Frame<'_>) -> bool {
        let Some(link) = self.links.get(nic).filter(|link| link.is_default_router) else { return false };
        let octets = frame.octets();
        let is_last =
            octets.read::<1>(ICMP) == Some([nd::ROUTER_ADVERT]) && octets.read::<2>(LIFETIME) == Some([0, 0]);
        link.counters.nd_kept.add_shared(u64::from(is_last));
        is_last
    }

    /// Returns the member whose Ethernet address at a NIC is the source of a frame.
    fn sender(&self, nic: usize, frame: &Frame<'_>) -> Option<Arc<Member>> {
        let station = frame.octets().read::<6>(6).map(Mac)?;
        self.live().into_values().find(|member| member.station(nic) == station)
    }

    /// Counts an ARP frame from the interconnection that is ignored.
    pub(super) fn ignores_arp(&self, nic: usize) {
        self.links.get(nic).into_iter().for_each(|link| link.counters.arp_ignored.add_shared(1));
    }

    /// Counts a neighbour discovery message from the interconnection that is ignored.
    pub(super) fn ignores_discovery(&self, nic: usize) {
        self.links.get(nic).into_iter().for_each(|link| link.counters.nd_ignored.add_shared(1));
    }

    /// Answers the ARP request of a member on another host, whose neighbour table is not written here, for the next hop of probes at a
    /// NIC; returns true if the frame is such a request.
    fn answers_for_probes(&self, nic: usize, frame: &Frame<'_>) -> bool {
        let (Some(asked), Some(front)) = (packet_of(frame), self.front(nic)) else { return false };
        let is_for_probes =
            asked.target_ip == probe::destination(nic as u8) || asked.target_ip == probe::SOURCE;
        if asked.operation != arp::Operation::Request || !is_for_probes {
            return false;
        }
        let answer = arp::Packet {
            operation: arp::Operation::Reply,
            sender_mac: probe::back(nic as u8),
            sender_ip: asked.target_ip,
            target_mac: asked.sender_mac,
            target_ip: asked.sender_ip,
        };
        self.count_told(nic, front.send_inside(&mut spoken(asked.sender_mac, &answer)));
        true
    }

    /// Notes that a member served elsewhere forwards, because a burst has come from it to a balancer. One frame of the burst is enough.
    pub(super) fn notes_behind(&self, nic: usize, frames: &[Frame<'_>]) {
        let first = frames.iter().find(|frame| !is_back(frame));
        let station = first.and_then(|frame| frame.octets().read::<6>(6)).map(Mac);
        // If another thread is about to change the members, this note is skipped rather than waiting for it.
        let (Some(station), Ok(enrolled)) = (station, self.enrolled.try_lock()) else { return };
        let member = enrolled.iter().find(|member| member.station(nic) == station);
        member.into_iter().for_each(|member| member.note_seen());
    }

    /// Sends a member's ARP request to the network in the group's name; returns the number of frames accepted.
    pub(super) fn ask(&self, (nic, segment): (usize, &Segment), packet: &arp::Packet) -> u64 {
        let Some(front) = self.front(nic) else { return 0 };
        let mut question = segment.hosts().question(packet.target_ip, Mac::BROADCAST);
        segment.on_link(&mut question, |octets| front.send_outside(octets))
    }

    /// Counts a frame that looks like an order but was not sent here.
    pub(super) fn drops_forged(&self, nic: usize) {
        self.links.get(nic).into_iter().for_each(|link| link.counters.drop_forged.add_shared(1));
    }

    /// Delivers a probe to a NIC of a member; if balancers are virtual machines, through the one that carries the link.
    pub(super) fn send_through(&self, member: &Member, nic: usize, mut octets: Spoken) {
        let taken = match self.front(nic) {
            None => member.deliver(nic, &mut octets),
            Some(front) => {
                octets[6..12].copy_from_slice(&probe::back(nic as u8).0);
                let carrier = front.carrier().and_then(|carrier| self.machines.as_ref()?.get(carrier));
                carrier.and_then(|carrier| carrier.deliver(nic, &mut octets))
            }
        };
        self.count_told(nic, taken);
    }
}
