//! What is counted of a group beside what its members count.

use std::sync::Arc;

use ledger::{Group, counters};
use threads::CpuMeter;

use super::{Core, Way};
use crate::counts::HasCounters;

counters! {
    /// What was decided about members.
    pub struct EnsembleCounters {
        /// Rounds of a member that ended good or bad.
        rounds,
        /// Rounds that count against nobody, because whoever judges came late.
        rounds_excused,
        /// Times that a member missed its probes, and its queues went to others.
        suspected,
        /// Times that a member was given up.
        given_up,
        /// Times that a member was parked.
        parked,
        /// Times that a parked member woke, because the load asked for it or another one did not serve.
        woken,
        /// Neighbours that members asked for, where they have one table of them.
        questions,
        /// Questions that were overwritten before they were heard: a member asked too often.
        questions_lost,
        /// Questions for what no station can have, or at a NIC that there is none of.
        questions_refused,
        /// Neighbours that took the place of others in the table that members have in common, because it was full.
        neighbours_replaced,
        /// Links that went from one balancer to another one, because the first was cut or came again.
        links_moved,
        /// Queues of links and buckets of balancers that changed hands.
        places_moved,
    }

    /// What is counted at a NIC of a member, or of a balancer that is a virtual machine.
    pub struct SeatCounters {
        /// Frames that have left the member by it, or the balancer after they had entered by it, but for probes, orders, ARP and neighbour discovery.
        passed,
    }

    /// What is counted at a port of the interconnection to a member that is not served here.
    pub struct WithheldCounters {
        /// ARP frames to everybody that the member does not get.
        arp_withheld,
        /// Messages of neighbour discovery to more than one station that the member does not get.
        nd_withheld,
    }

    /// What was done for all members at one NIC of a group.
    pub struct GroupNicCounters {
        /// ARP frames of the network that no member got, because they were heard for all.
        arp_heard,
        /// ARP requests of the network that were answered.
        arp_answered,
        /// ARP requests that went to the network, of members or in their place.
        arp_asked,
        /// ARP requests, solicitations and router advertisements in the place of members that were lost: no member or balancer had a way out,
        /// the link no room, or the advertisement was no valid one.
        drop_asked,
        /// ARP frames of members that stayed here, answered or not.
        arp_kept,
        /// ARP frames from the interconnection that were not heard: at a balancer because another one carries the link, or no member has
        /// sent them; and all at members that are served here, which are told what they ask for.
        arp_ignored,
        /// Messages of neighbour discovery of the network that were heard for all members.
        nd_heard,
        /// Solicitations of the network that were answered.
        nd_answered,
        /// Solicitations that went to the network, of members or in their place.
        nd_asked,
        /// Router advertisements of the one member that sends them for all.
        nd_advertised,
        /// Messages of neighbour discovery of members that stayed here, answered or not.
        nd_kept,
        /// Messages of neighbour discovery from the interconnection that were not heard, or were no valid ones: as ARP frames are.
        nd_ignored,
        /// Frames that were put into members: answers to what they asked, and probes.
        told,
        /// Frames for members, of the same kinds, lost because they had no room for them, or because there were too many router solicitations.
        drop_told,
        /// Probes that members have forwarded, and that were taken out.
        probes_back,
        /// Frames for where probes are taken out that were none of this run.
        probes_foreign,
        /// Orders that balancers have passed, where these are virtual machines, and that were taken out.
        orders_back,
        /// Frames lost because they look like orders, and came from elsewhere.
        drop_forged,
        /// Frames that balancers have sent out of a link that another one carries, and that were lost.
        drop_not_carrier,
        /// Frames that told the interconnection behind which balancer neighbours are.
        announced,
    }
}

/// What counts of a group.
pub(super) struct Counter {
    pub(super) core: Arc<Core>,
    /// Of its timer.
    pub(super) meter: Arc<CpuMeter>,
}

impl HasCounters for Counter {
    /// `core.group`, and for each NIC `core.wan.group` and what its link counts, such as `core.wan.tap.read`, with a control plane
    /// also `core.wan.sorted` and the like; for each member `core_0.wan.group`, and behind a balancer `core_0.wan.balancer`.
    fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        let name = &self.core.name;
        visit(&format!("{name}.group"), &self.core.counters);
        for link in &self.core.links {
            let nic = format!("{name}.{}", link.nic);
            visit(&format!("{nic}.group"), &link.counters);
            let mut of_nic = |part: &str, group: &dyn Group| visit(&format!("{nic}.{part}"), group);
            link.way.each_group(&mut of_nic);
            if let Some(voice) = &link.voice {
                voice.each_group(&mut of_nic);
                voice.each_thread_group(visit);
            }
            if let Way::Balanced(stage) = &link.way {
                stage.balancer.each_member(&mut |member, group| {
                    visit(&format!("{member}.{}.balancer", link.nic), group);
                });
            }
        }
        for member in self.core.live().values() {
            for (link, place) in self.core.links.iter().zip(member.counters()) {
                visit(&format!("{}.{}.group", member.name, link.nic), place);
            }
        }
        let machines = self.core.machines.iter().flat_map(|machines| machines.live().into_values());
        for machine in machines {
            // By the NICs that frames entered: first those that lead outside.
            for (link, place) in self.core.links.iter().zip(machine.counters()) {
                visit(&format!("{}.{}.group", machine.name, link.nic), place);
            }
            for (link, place) in self.core.links.iter().zip(machine.counters().skip(self.core.links.len())) {
                visit(&format!("{}.{}_in.group", machine.name, link.nic), place);
            }
        }
        self.core.balancers.each_group(visit);
    }

    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit(self.meter.name(), self.meter.read());
        self.core.voices().for_each(|voice| voice.each_thread(visit));
        self.core.balancers.each_thread(visit);
    }
}
