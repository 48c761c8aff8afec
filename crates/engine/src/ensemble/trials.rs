//! Duplicate address detection (RFC 4862, 5.4) in place of members that do none: kernel routers would receive each other's solicitations
//! for the group's addresses in the interconnection. So the group does it for them at each link as soon as a balancer carries that.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use group::Member as Number;

use super::machines::Machines;
use super::nodes::Fate;
use super::round::Board;
use super::seat::Member;
use super::segment::Segment;
use super::{Core, Link, News};

impl Core {
    /// Starts duplicate address detection at links that a balancer has begun to carry, if members do none, and reports addresses that
    /// another station has, in the first member's name.
    pub(super) fn try_addresses(
        &self,
        board: &mut Board,
        members: &BTreeMap<u16, Arc<Member>>,
        now: Duration,
    ) {
        let Some(first) = members.keys().next().copied().filter(|_| self.tries_addresses()) else { return };
        for (nic, link) in self.links.iter().enumerate() {
            let is_carried = self.front(nic).is_some_and(|front| front.is_carried()) && link.is_usable(now);
            let begins = link.begins(is_carried);
            for segment in link.segments().filter(|segment| segment.has_six) {
                if begins && !self.try_all((nic, link, segment), now) {
                    link.takes_nothing(now);
                }
                let lost = segment.nodes().take_lost();
                for ip in lost.into_iter().map(Ipv6Addr::from_bits) {
                    let line = format!("NIC {}: another station has {ip}, an address of the group", link.nic);
                    board.tell(Number(first), News::Told(line));
                }
            }
        }
    }

    fn tries_addresses(&self) -> bool {
        self.machines.as_ref().is_some_and(Machines::tries_addresses)
    }

    /// Starts duplicate address detection for the group's addresses at a link, in one VLAN or without a tag; of those for which it was done
    /// before, only for those that another station had. Returns false if a solicitation did not leave: it is due again.
    fn try_all(&self, (nic, link, segment): (usize, &Link, &Segment), now: Duration) -> bool {
        let Some(front) = self.front(nic) else { return true };
        let own = segment.nodes().addresses();
        let mut have_left = true;
        for ip in own {
            let mut trial = {
                let mut nodes = segment.nodes();
                if nodes.tried_by_member(ip, now).fate != Fate::GoesOn {
                    continue;
                }
                nodes.trial(ip)
            };
            let sent = segment.on_link(&mut trial, |octets| front.send_outside(octets));
            if sent > 0 {
                link.counters.nd_asked.add_shared(1);
            } else {
                link.counters.drop_asked.add_shared(1);
                segment.nodes().was_not_tried(ip);
                have_left = false;
            }
        }
        have_left
    }
}
