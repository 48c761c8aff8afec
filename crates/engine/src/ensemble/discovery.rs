//! Neighbour discovery of a group: messages are taken out of what passes between its links and its members, as ARP is, and what
//! [`nodes`](super::nodes) makes of them is carried out.

use std::sync::Arc;

use port::{Frame, Sink};

use super::nodes::{Fate, LONGEST, Message, Said};
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
        if heard.fate == Fate::GoesOn {
            return false;
        }
        link.counters.nd_heard.add_shared(1);
        self.tell(nic, heard.told);
        for member in self.receivers(heard.fate) {
            self.put_into(&member, nic, octets);
        }
        true
    }

    /// A member has sent a message by a NIC; whether that stays here.
    pub(super) fn hears_discovery_of(&self, (member, nic): (u16, usize), frame: &Frame<'_>) -> bool {
        let mut octets = [0; LONGEST];
        let Some((link, _, message)) = self.message(nic, frame, &mut octets) else { return false };
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
        !goes_on
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

    /// The members that get a message of the network, beside the one that it was for.
    fn receivers(&self, fate: Fate) -> Vec<Arc<Member>> {
        let lead = if fate == Fate::ToLead { self.lead() } else { None };
        let is_meant = |number: u16| fate == Fate::ToAll || lead == Some(number);
        match fate {
            Fate::ToLead | Fate::ToAll => {
                self.live().into_values().filter(|member| is_meant(member.number)).collect()
            }
            Fate::Stays | Fate::GoesOn => Vec::new(),
        }
    }
}
