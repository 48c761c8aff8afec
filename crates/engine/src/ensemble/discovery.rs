//! Neighbour discovery of a group: messages between its links and its members are taken out, as ARP is, and the decisions of
//! [`nodes`](super::nodes) are carried out. Messages of a member that is not served here are taken out where they reach a balancer.

use std::sync::Arc;

use frame::Mac;
use frame::vlan::Tags;
use port::{Frame, Sink};

use super::nodes::{Fate, LONGEST, Message, Said, advertise_as};
use super::seat::Member;
use super::segment::{Segment, untag};
use super::{Core, Link, deliver};

/// A message, and the link and segment at which it was received.
struct Told<'o> {
    link: &'o Link,
    segment: &'o Segment,
    /// Its frame, without tags.
    octets: &'o mut [u8],
    message: Message,
}

impl Core {
    /// Handles a frame from the network at a NIC; returns true if it has a message that is handled here and not passed to the member.
    /// Replies leave by `out`.
    pub(super) fn hears_discovery(&self, nic: usize, frame: &Frame<'_>, out: &dyn Sink) -> bool {
        let mut octets = [0; LONGEST];
        let Some(told) = self.message(nic, frame, &mut octets) else { return false };
        let Told { link, segment, octets, message } = told;
        let now = self.now();
        let heard = segment.nodes().hear_network(&message, now);
        if let Some(mut answer) = heard.answer {
            let taken = segment.on_link(&mut answer, |octets| deliver(out, octets));
            link.counters.nd_answered.add_shared(taken);
        }
        let is_apart = self.machines.is_some();
        if heard.fate == Fate::GoesOn && !is_apart {
            return false;
        }
        link.counters.nd_heard.add_shared(1);
        link.counters.drop_told.add_shared(u64::from(heard.fate == Fate::Refused));
        self.note_node(segment, message.about(), now);
        self.tell((nic, segment), heard.told);
        for member in self.receivers(heard.fate) {
            segment.on_link(octets, |octets| self.put_into(&member, nic, octets));
        }
        if is_apart {
            let station = segment.nodes().station(message.about());
            self.announce((nic, segment), station);
        }
        true
    }

    /// Handles a member's frame at a NIC; returns true if it has a message that is not passed to the network.
    pub(super) fn hears_discovery_of(&self, (member, nic): (u16, usize), frame: &Frame<'_>) -> bool {
        let mut octets = [0; LONGEST];
        let Some(told) = self.message(nic, frame, &mut octets) else { return false };
        let Told { link, segment, octets, message } = told;
        let is_known = match message.said {
            Said::Solicit(solicit) => self.is_node_known(segment, solicit.target),
            Said::Advert(_) | Said::RouterSolicit | Said::RouterAdvert => false,
        };
        let heard = segment.nodes().hear_member((member, &message), is_known, self.now());
        self.tell((nic, segment), heard.told);
        let goes_on = match heard.fate {
            Fate::GoesOn => true,
            Fate::ToLead => self.lead() == Some(member),
            Fate::Stays | Fate::Refused | Fate::ToAll => false,
        };
        let is_apart = self.machines.is_some();
        let is_lost = goes_on && is_apart && self.say((link, segment, nic), &message, octets) == 0;
        let counter = match message.said {
            _ if !goes_on => &link.counters.nd_kept,
            _ if is_lost => &link.counters.drop_asked,
            Said::RouterAdvert => &link.counters.nd_advertised,
            Said::Solicit(_) | Said::Advert(_) | Said::RouterSolicit => &link.counters.nd_asked,
        };
        counter.add_shared(1);
        !goes_on || is_apart
    }

    /// Sends a member's message in the group's name; returns the number of frames accepted.
    fn say(
        &self,
        (link, segment, nic): (&Link, &Segment, usize),
        message: &Message,
        octets: &mut [u8],
    ) -> u64 {
        let Some(front) = self.front(nic) else { return 0 };
        let send = |octets: &mut [u8]| segment.on_link(octets, |octets| front.send_outside(octets));
        match &message.said {
            Said::Solicit(solicit) if message.source == 0 => {
                let mut trial = segment.nodes().trial(solicit.target);
                send(&mut trial)
            }
            Said::Solicit(solicit) => {
                let mut question = segment.nodes().question(solicit.target, Mac::BROADCAST);
                send(&mut question)
            }
            Said::RouterAdvert => advertise_as(octets, link.mac).map_or(0, |()| send(octets)),
            Said::Advert(_) | Said::RouterSolicit => 0,
        }
    }

    /// Parses the message of a frame at a NIC, if the group has IPv6 there.
    fn message<'o>(
        &'o self,
        nic: usize,
        frame: &Frame<'_>,
        octets: &'o mut [u8; LONGEST],
    ) -> Option<Told<'o>> {
        let link = self.links.get(nic).filter(|link| link.segments().any(|segment| segment.has_six))?;
        let len = frame.octets().copy_to_slice(octets);
        let octets = octets.get_mut(..len)?;
        let tags = Tags::parse(octets).ok()?;
        let segment = link.segments().find(|segment| segment.has(&tags) && segment.has_six)?;
        let octets = untag(octets, &tags)?;
        let message = Message::read(octets)?;
        Some(Told { link, segment, octets, message })
    }

    /// Returns the members that get a message of the network which is not passed on. Behind balancers any member will do.
    fn receivers(&self, fate: Fate) -> Vec<Arc<Member>> {
        let members = self.live().into_values();
        match fate {
            Fate::Stays | Fate::Refused => Vec::new(),
            Fate::GoesOn => members.take(1).collect(),
            Fate::ToAll => members.collect(),
            Fate::ToLead => {
                let lead = self.lead();
                members.filter(|member| Some(member.number) == lead).collect()
            }
        }
    }
}
