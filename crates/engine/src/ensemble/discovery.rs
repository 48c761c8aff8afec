//! Neighbour discovery of a group: messages are taken out of what passes between its links and its members, as ARP is, and what
//! [`nodes`](super::nodes) makes of them is carried out.

use std::sync::Arc;

use port::{Frame, Sink};

use super::nodes::{Fate, LONGEST, Message, Said, advertise_as};
use super::seat::Member;
use super::{Core, Link, deliver};

impl Core {
    /// The network has sent a message to a NIC; whether it was for us and not for the member that has it. What is answered leaves by
    /// `out`.
    pub(super) fn hears_discovery(&self, nic: usize, frame: &Frame<'_>, out: &dyn Sink) -> bool {
        let mut octets = [0; LONGEST];
        let Some((link, octets, message)) = self.message(nic, frame, &mut octets) else { return false };
        let heard = link.nodes().hear_network(&message, self.now());
        if let Some(mut answer) = heard.answer {
            link.counters.nd_answered.add_shared(deliver(out, &mut answer));
        }
        let is_apart = self.machines.is_some();
        if heard.fate == Fate::GoesOn && !is_apart {
            return false;
        }
        link.counters.nd_heard.add_shared(1);
        self.tell(nic, heard.told);
        for member in self.receivers(heard.fate) {
            self.put_into(&member, nic, octets);
        }
        if is_apart {
            let station = link.nodes().station_of(&message);
            self.announce(nic, station);
        }
        true
    }

    /// A member has sent a message by a NIC; whether that stays here.
    pub(super) fn hears_discovery_of(&self, (member, nic): (u16, usize), frame: &Frame<'_>) -> bool {
        let mut octets = [0; LONGEST];
        let Some((link, octets, message)) = self.message(nic, frame, &mut octets) else { return false };
        let heard = link.nodes().hear_member(member, &message, self.now());
        self.tell(nic, heard.told);
        let goes_on = match heard.fate {
            Fate::GoesOn => true,
            Fate::ToLead => self.lead() == Some(member),
            Fate::Stays | Fate::ToAll => false,
        };
        let counter = match message.said {
            _ if !goes_on => &link.counters.nd_kept,
            Said::RouterAdvert => &link.counters.nd_advertised,
            Said::Solicit(_) | Said::Advert(_) | Said::RouterSolicit => &link.counters.nd_asked,
        };
        counter.add_shared(1);
        let is_apart = self.machines.is_some();
        if goes_on && is_apart {
            self.say((link, nic), &message, octets);
        }
        !goes_on || is_apart
    }

    /// Says what a member has said in the group's name.
    fn say(&self, (link, nic): (&Link, usize), message: &Message, octets: &mut [u8]) {
        let Some(front) = self.front(nic) else { return };
        match &message.said {
            Said::Solicit(solicit) if message.source == 0 => {
                let mut trial = link.nodes().trial(solicit.target);
                front.send_outside(&mut trial);
            }
            Said::Solicit(solicit) => {
                let mut question = link.nodes().question(solicit.target);
                front.send_outside(&mut question);
            }
            Said::RouterAdvert => {
                if advertise_as(octets, link.mac).is_some() {
                    front.send_outside(octets);
                }
            }
            Said::Advert(_) | Said::RouterSolicit => {}
        }
    }

    /// The message of a frame at a NIC that takes part in IPv6, and its octets.
    fn message<'o>(
        &self,
        nic: usize,
        frame: &Frame<'_>,
        octets: &'o mut [u8; LONGEST],
    ) -> Option<(&Link, &'o mut [u8], Message)> {
        let link = self.links.get(nic).filter(|link| link.has_six)?;
        let len = frame.octets().copy_to_slice(octets);
        let octets = octets.get_mut(..len)?;
        let message = Message::read(octets)?;
        Some((link, octets, message))
    }

    /// The members that get a message of the network which does not go on. Behind balancers one is as good as another.
    fn receivers(&self, fate: Fate) -> Vec<Arc<Member>> {
        let members = self.live().into_values();
        match fate {
            Fate::Stays => Vec::new(),
            Fate::GoesOn => members.take(1).collect(),
            Fate::ToAll => members.collect(),
            Fate::ToLead => {
                let lead = self.lead();
                members.filter(|member| Some(member.number) == lead).collect()
            }
        }
    }
}
