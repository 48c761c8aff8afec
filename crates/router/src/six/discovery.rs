//! Neighbour discovery (RFC 4861) and duplicate address detection (RFC 4862).

use frame::nd::{self, Advert, Solicit};
use frame::{Mac, ethernet, icmpv6, ipv6, mld};

use crate::advertising::Advertising;
use crate::ip::Ip;
use crate::neighbours::{Neighbour, Said};
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::six::letter::Letter;
use crate::six::local::Arrived;
use crate::six::own::TENTATIVE;
use crate::slow::Origin;

/// Longest message that is read, in octets.
const LONGEST: usize = 512;

/// A message that was heard.
struct Heard {
    nic: usize,
    /// Ethernet address of the frame's sender.
    by: Mac,
    source: u128,
}

/// Contents of a message.
enum Message {
    Solicit(Solicit),
    Advert(Advert),
    RouterSolicit(Option<Mac>),
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles a neighbour or router solicitation, or a neighbour advertisement.
    pub(crate) fn discover<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        arrived: &Arrived<'_>,
    ) {
        let header = arrived.header;
        let octets = buffer.octets();
        let message = octets.get(ethernet::HEADER + arrived.at..ethernet::HEADER + header.total_len());
        let by = ethernet::Header::parse(octets).map_or(Mac::default(), |(header, _)| header.source);
        // A message from another link would have a smaller hop limit. None has a fragment header (RFC 6980, 5).
        let is_near = header.hop_limit == ipv6::LINK_HOPS && !arrived.is_fragment;
        let near = message.filter(|message| is_near && message.len() <= LONGEST);
        let Some(message) = near.and_then(|message| read(message, header)) else {
            let origin = Origin::Received(arrived.nic);
            return self.discard(platform, buffer, origin, &self.counters.drop_local);
        };
        self.counters.consumed.add(1);
        platform.free(buffer);
        let nic = usize::from(arrived.nic);
        let heard = Heard { nic, by, source: header.source };
        match message {
            Message::Solicit(solicit) => self.hear_solicit(platform, &heard, &solicit),
            Message::Advert(advert) => self.hear_advert(platform, &heard, &advert),
            Message::RouterSolicit(mac) => {
                self.name_neighbour(&heard, mac);
                self.hear_router_solicit(nic, (heard.source, mac));
            }
        }
        self.keep_up(platform);
    }

    /// Handles a solicitation for an own address.
    fn hear_solicit<P: Platform<Buffer = B>>(&mut self, platform: &mut P, heard: &Heard, solicit: &Solicit) {
        let (nic, target) = (heard.nic, solicit.target);
        let own = &self.nics[nic].six;
        let from_us = own.position(heard.source).is_some();
        let Some(asked) = own.position(target).map(|index| own.own[index]) else {
            if own.is_anycast(target) && !from_us {
                self.answer_solicit(platform, heard, solicit, true);
            }
            return;
        };
        if (from_us || heard.source == 0) && self.is_foreign(heard.by) {
            // Another station uses the address that it asks from, or is about to use the one that it asks for.
            self.notice_claim6(platform, heard, if from_us { heard.source } else { target });
        }
        if from_us || asked.tentative_until != 0 || !self.owns6(nic, target) {
            return;
        }
        self.answer_solicit(platform, heard, solicit, false);
    }

    /// Answers a solicitation, and learns who sent it (RFC 4861, 7.2.3 and 7.2.4). What other routers answer as well, because the
    /// target is the address of them all, replaces no Ethernet address that is known already.
    fn answer_solicit<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        heard: &Heard,
        solicit: &Solicit,
        is_shared: bool,
    ) {
        if heard.source != 0 {
            self.name_neighbour(heard, solicit.source_mac);
        }
        // What duplicate address detection asks is answered to all.
        let (destination, to) = match (heard.source, solicit.source_mac) {
            (0, _) => (ipv6::ALL_NODES, ipv6::group_mac(ipv6::ALL_NODES)),
            (source, mac) => (source, mac.unwrap_or(heard.by)),
        };
        let target = solicit.target;
        let own = if is_shared { self.near_source6(heard.nic, destination) } else { Some(target) };
        let Some(source) = own else { return };
        let letter = Letter { nic: heard.nic, to, source, destination, is_report: false };
        let advert = Advert {
            target,
            target_mac: None,
            router: true,
            solicited: heard.source != 0,
            overrides: !is_shared,
        };
        self.tell(platform, &letter, advert);
    }

    /// Sends an advertisement with the Ethernet address of its NIC.
    fn tell<P: Platform<Buffer = B>>(&mut self, platform: &mut P, letter: &Letter, advert: Advert) {
        let advert = Advert { target_mac: Some(self.nics[letter.nic].mac), ..advert };
        self.originate6(platform, letter, |payload| advert.write(payload));
    }

    /// Learns from an advertisement (RFC 4861, 7.2.5).
    fn hear_advert<P: Platform<Buffer = B>>(&mut self, platform: &mut P, heard: &Heard, advert: &Advert) {
        let target = advert.target;
        if self.nics[heard.nic].six.position(target).is_some() {
            if self.is_foreign(heard.by) {
                self.notice_claim6(platform, heard, target);
            }
            return;
        }
        let nic = heard.nic as u8;
        let ip = Ip::v6(target);
        let known = self.neighbours.find(nic, ip);
        let Some(mac) = advert.target_mac.or(known).filter(|mac| mac.is_station()) else { return };
        // A gateway outside our networks is learned only if it was asked for.
        let create = self.is_awaited(nic, ip);
        let may_replace = known.is_none_or(|known| known == mac) || advert.overrides;
        let said = match advert.solicited && may_replace {
            true => Said::Confirmed,
            false => Said::Advertised { overrides: advert.overrides },
        };
        self.hear_of(Neighbour { nic, ip, mac }, said, create);
    }

    /// Learns the sender of a solicitation by the address that it names.
    fn name_neighbour(&mut self, heard: &Heard, mac: Option<Mac>) {
        let own = &self.nics[heard.nic].six;
        let source = heard.source;
        let is_ours = own.position(source).is_some() || own.is_anycast(source);
        let usable = own.covers(source) && !ipv6::is_multicast(source) && !is_ours;
        if let Some(mac) = mac.filter(|mac| mac.is_station() && usable) {
            let neighbour = Neighbour { nic: heard.nic as u8, ip: Ip::v6(source), mac };
            self.hear_of(neighbour, Said::Named, true);
        }
    }

    /// Returns true if no NIC of ours has this Ethernet address: two of them may be in one network.
    fn is_foreign(&self, mac: Mac) -> bool {
        mac.is_station() && self.nics.iter().all(|own| own.mac != mac)
    }

    /// Records that another station uses an address of ours: a tentative one is given up (RFC 4862, 5.4.5).
    fn notice_claim6<P: Platform<Buffer = B>>(&mut self, platform: &mut P, heard: &Heard, target: u128) {
        self.counters.nd_conflicts.add(1);
        let own = &self.nics[heard.nic].six;
        if let Some(index) = own.position(target)
            && own.own[index].tentative_until != 0
        {
            self.neighbours.mark_duplicate(heard.nic as u8, index);
        }
        platform.is_claimed6(heard.nic, target, heard.by);
    }

    /// Sends a solicitation for a neighbour: to its solicited-node group, or to its last known address.
    pub(crate) fn solicit<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: u8,
        (target, to): (u128, Mac),
    ) {
        let at = usize::from(nic);
        let Some(own) = self.nics.get(at).map(|own| own.mac) else { return };
        let Some(source) = self.near_source6(at, target) else { return self.counters.originated_lost.add(1) };
        let letter = match to {
            Mac::BROADCAST => Letter::to_group(at, source, ipv6::solicited_node(target)),
            to => Letter { nic: at, to, source, destination: target, is_report: false },
        };
        let solicit = Solicit { target, source_mac: Some(own) };
        self.originate6(platform, &letter, |payload| solicit.write(payload));
    }

    /// Begins duplicate address detection for all own addresses, and joins their groups. Only the keeper sends for that, but an
    /// objection may arrive at any of several routers.
    pub(crate) fn announce6<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        for nic in 0..self.nics.len() {
            if !self.nics[nic].six.is_on() {
                continue;
            }
            let until = self.now.saturating_add(TENTATIVE).max(1);
            for own in &mut self.nics[nic].six.own {
                (own.tentative_until, own.is_optimistic) = (until, self.shares_addresses);
            }
            if !self.keeper {
                continue;
            }
            self.report(platform, nic, mld::Record::Joins);
            for index in 0..self.nics[nic].six.own.len() {
                let target = self.nics[nic].six.own[index].ip;
                let letter = Letter::to_group(nic, 0, ipv6::solicited_node(target));
                let solicit = Solicit { target, source_mac: None };
                self.originate6(platform, &letter, |payload| solicit.write(payload));
            }
            if let Some(advertising) = &mut self.nics[nic].six.advertising {
                advertising.begin(until);
            }
        }
    }

    /// Handles the timers of IPv6. No address is confirmed if the router `listens_first`.
    pub(crate) fn tick6<P: Platform<Buffer = B>>(&mut self, platform: &mut P, listens_first: bool) {
        for nic in 0..self.nics.len() {
            for index in 0..self.nics[nic].six.own.len() {
                let own = self.nics[nic].six.own[index];
                if own.tentative_until != 0 && own.tentative_until <= self.now && !listens_first {
                    self.nics[nic].six.own[index].tentative_until = 0;
                    self.confirm(platform, nic, own.ip);
                }
            }
            if self.nics[nic].six.report_due.is_some_and(|due| due <= self.now) {
                self.report(platform, nic, mld::Record::Listens);
            }
        }
        self.advertise_due(platform);
    }

    /// Lets a pass go first if the tick comes late for an address that is tried, or for a neighbour that would be given up, because
    /// an objection or an answer may have arrived in time and wait in a ring; returns true until that was made. A router that is
    /// always late waits for one pass only.
    pub(crate) fn listen_first_if_late(&mut self) -> bool {
        let mut own = self.nics.iter().flat_map(|nic| &nic.six.own);
        let is_tried = own.any(|own| own.tentative_until != 0 && own.tentative_until < self.now);
        if !is_tried && !self.waiting.pending.is_late(self.now) {
            self.late = None;
            return false;
        }
        *self.late.get_or_insert(self.passes) == self.passes
    }

    /// Announces an address to which nobody has objected.
    fn confirm<P: Platform<Buffer = B>>(&mut self, platform: &mut P, nic: usize, ip: u128) {
        if self.keeper && self.owns6(nic, ip) {
            let letter = Letter::to_group(nic, ip, ipv6::ALL_NODES);
            let advert =
                Advert { target: ip, target_mac: None, router: true, solicited: false, overrides: true };
            self.tell(platform, &letter, advert);
            if ipv6::is_link_local(ip) {
                // Multicast routers ignore the report that was sent without this address (RFC 3590, 4).
                self.report(platform, nic, mld::Record::Joins);
            }
        }
    }

    /// Returns when [`Router::tick6`] has work, in milliseconds.
    pub(crate) fn deadline6(&self) -> Option<u64> {
        let nics = self.nics.iter().filter(|nic| nic.six.is_on());
        let due = nics.flat_map(|nic| {
            let tentative = nic.six.own.iter().map(|own| own.tentative_until).find(|until| *until != 0);
            let advert = nic.six.advertising.as_ref().and_then(Advertising::deadline);
            [tentative, nic.six.report_due, advert]
        });
        due.flatten().min()
    }
}

/// Parses a message and checks it (RFC 4861, 6.1.1, 7.1.1 and 7.1.2).
fn read(message: &[u8], header: &ipv6::Header) -> Option<Message> {
    let (icmp, payload) = icmpv6::Header::parse_quoted(message).ok()?;
    let to_group = ipv6::is_multicast(header.destination);
    let unnamed = header.source == 0;
    match icmp.kind {
        nd::SOLICIT => {
            let solicit = Solicit::parse(payload).ok()?;
            let named =
                !unnamed || solicit.source_mac.is_none() && header.destination >> 24 == SOLICITED_NODE;
            (named && !ipv6::is_multicast(solicit.target)).then_some(Message::Solicit(solicit))
        }
        nd::ADVERT => {
            let advert = Advert::parse(&icmp, payload).ok()?;
            let answers_all = to_group && advert.solicited;
            (!answers_all && !ipv6::is_multicast(advert.target)).then_some(Message::Advert(advert))
        }
        nd::ROUTER_SOLICIT => {
            let mac = nd::mac_option(payload, nd::option::SOURCE_MAC).ok()?;
            (!unnamed || mac.is_none()).then_some(Message::RouterSolicit(mac))
        }
        _ => None,
    }
}

/// The solicited-node groups without their last 24 bits.
const SOLICITED_NODE: u128 = ipv6::solicited_node(0) >> 24;
