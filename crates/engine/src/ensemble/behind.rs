//! ARP and neighbour discovery of a group behind balancers that are virtual machines: heard on both sides of these, and passed by none.
//!
//! Members that are served here are heard at their own NICs, all others where they reach a balancer. What the network is asked leaves by the
//! link itself, in the group's name; what members are told, and where neighbours are, the interconnection is told where the carrier of
//! the link is plugged in.

use std::sync::Arc;

use frame::{Mac, arp, ethernet, vlan};
use group::probe;
use port::{Frame, Sink};

use super::hosts::{Spoken, spoken};
use super::kinds::is_back;
use super::seat::Member;
use super::segment::Segment;
use super::{Core, packet_of};

/// Offset in an ARP packet of the hardware address that it is for.
const TARGET: usize = 18;
const _: () = assert!(TARGET + 6 <= arp::LEN);
/// Octets of the shortest frame with as many tags as are read.
const SHORTEST_TAGGED: usize = ethernet::SHORTEST + vlan::MOST * vlan::TAG;

/// Has a frame be for a member; one with an ARP packet says so twice.
pub(super) fn address(octets: &mut [u8], Mac(station): Mac) {
    octets[..6].copy_from_slice(&station);
    let Ok(tags) = vlan::Tags::parse(octets) else { return };
    let at = tags.header() + TARGET;
    if let Some(target) = octets.get_mut(at..at + 6).filter(|_| tags.ethertype == ethernet::ARP) {
        target.copy_from_slice(&station);
    }
}

impl Core {
    /// The network has sent an ARP frame to a NIC of a group; whether no balancer gets it: it has a packet, and no tags of another VLAN.
    pub(super) fn hears_for_machines(&self, nic: usize, frame: &Frame<'_>, out: &dyn Sink) -> bool {
        let Some((_, segment, packet)) = self.arp_of(nic, frame) else { return false };
        if self.hears_network(nic, frame, out) {
            let station = segment.hosts().station(packet.sender_ip);
            self.announce((nic, segment), station);
            return true;
        }
        // A station claims an address of the group: one member tells of it.
        let first = self.live().into_values().next();
        let mut octets = [0; SHORTEST_TAGGED];
        let len = frame.octets().copy_to_slice(&mut octets).max(ethernet::SHORTEST);
        first.into_iter().for_each(|member| self.put_into(&member, nic, &mut octets[..len]));
        true
    }

    /// A member that nobody serves here has sent an ARP frame, which has come to a balancer.
    pub(super) fn hears_behind(&self, nic: usize, frame: &Frame<'_>) {
        if self.answers_for_probes(nic, frame) {
            return;
        }
        let sender = self.sender(nic, frame);
        if !sender.is_some_and(|member| self.hears_member((member.number, nic), frame)) {
            self.ignores_arp(nic);
        }
    }

    /// A member that nobody serves here has sent a message of neighbour discovery, which has come to a balancer.
    pub(super) fn hears_discovery_behind(&self, nic: usize, frame: &Frame<'_>) {
        let sender = self.sender(nic, frame);
        if !sender.is_some_and(|member| self.hears_discovery_of((member.number, nic), frame)) {
            self.ignores_discovery(nic);
        }
    }

    /// The member that has the address from which a frame has come by a NIC.
    fn sender(&self, nic: usize, frame: &Frame<'_>) -> Option<Arc<Member>> {
        let station = frame.octets().read::<6>(6).map(Mac)?;
        self.live().into_values().find(|member| member.station(nic) == station)
    }

    /// An ARP frame has come from the interconnection that nobody hears.
    pub(super) fn ignores_arp(&self, nic: usize) {
        self.links.get(nic).into_iter().for_each(|link| link.counters.arp_ignored.add_shared(1));
    }

    /// A message of neighbour discovery has come from the interconnection that nobody hears.
    pub(super) fn ignores_discovery(&self, nic: usize) {
        self.links.get(nic).into_iter().for_each(|link| link.counters.nd_ignored.add_shared(1));
    }

    /// Tells a member on another host, whose neighbours nobody here has written, where probes are for that leave it by a NIC; whether it
    /// has asked for that.
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

    /// A burst has come to a balancer from a member that nobody serves here, so it forwards. One frame says as much as all.
    pub(super) fn notes_behind(&self, nic: usize, frames: &[Frame<'_>]) {
        let first = frames.iter().find(|frame| !is_back(frame));
        let station = first.and_then(|frame| frame.octets().read::<6>(6)).map(Mac);
        // Whoever is about to change the members need not be waited for.
        let (Some(station), Ok(enrolled)) = (station, self.enrolled.try_lock()) else { return };
        let member = enrolled.iter().find(|member| member.station(nic) == station);
        member.into_iter().for_each(|member| member.note_seen());
    }

    /// Asks the network what a member has asked, in the group's name; how many frames were taken.
    pub(super) fn ask(&self, (nic, segment): (usize, &Segment), packet: &arp::Packet) -> u64 {
        let Some(front) = self.front(nic) else { return 0 };
        let mut question = segment.hosts().question(packet.target_ip, Mac::BROADCAST);
        segment.on_link(&mut question, |octets| front.send_outside(octets))
    }

    /// A frame looks like an order, and nobody here has sent it.
    pub(super) fn drops_forged(&self, nic: usize) {
        self.links.get(nic).into_iter().for_each(|link| link.counters.drop_forged.add_shared(1));
    }

    /// Puts a probe into a NIC of a member; where balancers are virtual machines, by the one that carries the link.
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
