//! Router advertisements of the router's NICs: sending them, and hearing solicitations.

use frame::{Mac, ipv6};

use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::six::letter::Letter;

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Sends the advertisements that are due.
    pub(crate) fn advertise_due<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        for nic in 0..self.nics.len() {
            self.answer_due(platform, nic);
            let advertising = self.nics[nic].six.advertising.as_ref();
            let is_due = advertising.is_some_and(|advertising| advertising.is_due(self.now));
            if !is_due || self.postpone_until_confirmed(nic) {
                continue;
            }
            // Its source is the link-local address: if another station has that, it sends nothing.
            self.advertise(platform, nic, (ipv6::ALL_NODES, ipv6::group_mac(ipv6::ALL_NODES)));
            let (now, seed, keeper) = (self.now, self.random(u64::MAX), self.keeper);
            if let Some(advertising) = &mut self.nics[nic].six.advertising {
                advertising.sent_to_all(now, |most| seed % most);
                // Others only answer solicitations.
                if !keeper {
                    advertising.rest();
                }
            }
        }
    }

    /// Postpones an advertisement until its source, the link-local address, is confirmed; returns false if it is.
    fn postpone_until_confirmed(&mut self, nic: usize) -> bool {
        let six = &mut self.nics[nic].six;
        let until = six.own.first().map_or(0, |own| own.tentative_until);
        if until != 0
            && let Some(advertising) = &mut six.advertising
        {
            advertising.begin(until);
        }
        until != 0
    }

    /// Sends an answer to a single node if it is due.
    fn answer_due<P: Platform<Buffer = B>>(&mut self, platform: &mut P, nic: usize) {
        let now = self.now;
        let Some(advertising) = &mut self.nics[nic].six.advertising else { return };
        if let Some(to) = advertising.take_answer(now) {
            self.advertise(platform, nic, to);
        }
    }

    /// Handles a router solicitation, whose answer is delayed (RFC 4861, 6.2.6).
    pub(crate) fn hear_router_solicit(&mut self, nic: usize, (source, mac): (u128, Option<Mac>)) {
        let (now, seed, has_source) = (self.now, self.random(u64::MAX), self.link_local(nic).is_some());
        let to = mac.filter(|_| source != 0 && has_source).map(|mac| (source, mac));
        if let Some(advertising) = &mut self.nics[nic].six.advertising {
            advertising.hear(to, now, |most| seed % most);
        }
    }

    fn advertise<P: Platform<Buffer = B>>(&mut self, platform: &mut P, nic: usize, (to, mac): (u128, Mac)) {
        let Some(source) = self.link_local(nic) else { return };
        let own = &self.nics[nic];
        let Some(advertising) = &own.six.advertising else { return };
        let (advertising, own_mac, mtu) = (advertising.clone(), own.mac, u32::from(own.mtu));
        let letter = Letter { nic, to: mac, source, destination: to, is_report: false };
        self.originate6(platform, &letter, |payload| advertising.write(own_mac, mtu, payload));
    }
}
