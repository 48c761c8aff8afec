//! The IPv6 neighbours of a group at one of its NICs: neighbour discovery (RFC 4861) in the name of all members, as [`super::hosts`] does
//! ARP.
//!
//! Duplicate address detection (RFC 4862) for an own address is done once for all members: the first member's solicitation goes to the
//! network, and an objection within a second goes to all. A member that starts later gets no objection, so that members agree on which
//! addresses the group has. If another station has the address, each member that starts repeats the detection: the station may be gone by
//! then.
//!
//! Pure: messages and time come in, frames go out.

mod message;

use std::time::Duration;

use frame::nd::{Advert, Solicit};
use frame::{Mac, ipv6};

use super::known::{Asked, Known, bit};
pub(super) use message::{LONGEST, Message, Said, Spoken, advertise_as, spoken};

/// Duration of duplicate address detection (RFC 4861, 10: RETRANS_TIMER).
const TRIED: Duration = Duration::from_secs(1);
/// Time after the start of its own duplicate address detection in which a member may take another station's claim for an objection.
const IN_TRIAL: Duration = Duration::from_secs(2);
/// Time after which it is reported again that another station has an address for which duplicate address detection was repeated: members
/// and stations could repeat it without end.
const REPORTED_AGAIN: Duration = Duration::from_secs(5);
/// Average interval of router solicitations that are passed to a member, and how far ahead of it they may be, so 16 at once: a member has
/// room for more frames than these, and its advertisements are for all hosts.
const ROUTER_SOLICITS: Duration = Duration::from_millis(50);
const ROUTER_SOLICITS_AHEAD: Duration = Duration::from_millis(800);
/// Length of the prefix of link-local addresses.
const LINK_LOCAL: u8 = 64;

/// Destination of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nowhere.
    #[default]
    Stays,
    /// Nowhere: there are too many of its kind.
    Refused,
    /// To its original destination.
    GoesOn,
    /// To the member that advertises the group as a router; if it comes from that member, to its original destination.
    ToLead,
    /// To all members.
    ToAll,
}

/// Result of handling a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Destination of the message.
    pub(super) fate: Fate,
    /// Reply to the network.
    pub(super) answer: Option<Spoken>,
    /// Frame for members, with a bit for the number of each of them.
    pub(super) told: Option<(u64, Spoken)>,
}

impl Heard {
    const fn of(fate: Fate) -> Self {
        Self { fate, answer: None, told: None }
    }
}

/// An address of the group.
#[derive(Clone, Copy, Debug)]
struct Own {
    ip: u128,
    len: u8,
    trial: Trial,
    /// Time at which a member last began duplicate address detection.
    tried: Option<Duration>,
    /// True if it was reported that another station has it.
    is_told: bool,
}

/// State of duplicate address detection for an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// Not done: members have used the address since before this process started.
    None,
    /// Started at this time.
    At(Duration),
    /// Another station has it.
    Lost,
}

impl Own {
    fn covers(&self, ip: u128) -> bool {
        (ip ^ self.ip) & ipv6::mask(self.len) == 0
    }

    const fn is_lost(&self) -> bool {
        matches!(self.trial, Trial::Lost)
    }

    /// Returns true while another station may object to its use.
    fn is_on_trial(&self, now: Duration) -> bool {
        matches!(self.trial, Trial::At(at) if now.saturating_sub(at) < TRIED)
    }
}

/// The neighbours at one NIC.
pub(super) struct Nodes {
    mac: Mac,
    /// Own addresses, the link-local one first; empty if the NIC has no IPv6.
    own: Vec<Own>,
    known: Known<u128>,
    /// Time at which the next router solicitation is due at the average interval.
    solicited: Duration,
}

impl Nodes {
    /// Creates an empty table for a group with this Ethernet address, and these addresses with their prefix lengths. As with a router,
    /// the link-local address need not be among them.
    pub(super) fn new(mac: Mac, addresses: &[(u128, u8)]) -> Self {
        let given = addresses.iter().map(|(ip, _)| *ip).find(|ip| ipv6::is_link_local(*ip));
        let near = (!addresses.is_empty()).then(|| given.unwrap_or_else(|| ipv6::link_local(mac)));
        let others = addresses.iter().copied().filter(|(ip, _)| !ipv6::is_link_local(*ip));
        let all = near.map(|ip| (ip, LINK_LOCAL)).into_iter().chain(others);
        let own = all.map(|(ip, len)| Own { ip, len, trial: Trial::None, tried: None, is_told: false });
        Self { mac, own: own.collect(), known: Known::new(), solicited: Duration::ZERO }
    }

    /// Returns true if the group has an address from which it can solicit.
    pub(super) fn takes_part(&self) -> bool {
        self.own.iter().any(|own| !own.is_lost())
    }

    /// Returns the addresses of the group, the link-local one first.
    pub(super) fn addresses(&self) -> Vec<u128> {
        self.own.iter().map(|own| own.ip).collect()
    }

    /// Takes the own addresses that another station has and that were not reported since their last duplicate address detection, or shortly
    /// before it.
    pub(super) fn take_lost(&mut self) -> Vec<u128> {
        let lost = self.own.iter_mut().filter(|own| own.is_lost() && !own.is_told);
        let told = lost.map(|own| {
            own.is_told = true;
            own.ip
        });
        told.collect()
    }

    /// Handles a message from the network.
    pub(super) fn hear_network(&mut self, message: &Message, now: Duration) -> Heard {
        if message.by == self.mac {
            return Heard::default();
        }
        match &message.said {
            Said::Solicit(solicit) => self.hear_solicit(message, solicit, now),
            Said::Advert(advert) => self.hear_advert(advert, now),
            Said::RouterSolicit => Heard::of(self.routers_asked(now)),
            Said::RouterAdvert => Heard::of(Fate::GoesOn),
        }
    }

    /// Handles a message of a member. `is_known`: the stored address of the neighbour that it solicits may be used.
    pub(super) fn hear_member(
        &mut self,
        (member, message): (u16, &Message),
        is_known: bool,
        now: Duration,
    ) -> Heard {
        match &message.said {
            Said::Solicit(solicit) if message.source == 0 => self.tried_by_member(solicit.target, now),
            Said::Solicit(solicit) => self.asked_by((member, message.source), solicit.target, is_known, now),
            Said::RouterAdvert => Heard::of(Fate::ToLead),
            Said::Advert(_) | Said::RouterSolicit => Heard::default(),
        }
    }

    /// Notes that an address is solicited, so that the reply is stored.
    pub(super) fn expect(&mut self, ip: u128, now: Duration) {
        self.known.expect(ip, now);
    }

    /// Returns the Ethernet address of a known neighbour, if its last message came at this time.
    pub(super) fn heard(&self, ip: u128, now: Duration) -> Option<Mac> {
        self.known.heard(ip, now)
    }

    /// Creates a solicitation for a neighbour in the group's name, by multicast or to the station with this address.
    pub(super) fn question(&self, target: u128, to: Mac) -> Spoken {
        let group = ipv6::solicited_node(target);
        let (to, destination) = if to.is_station() { (to, target) } else { (ipv6::group_mac(group), group) };
        let solicit = Solicit { target, source_mac: Some(self.mac) };
        let ends = (self.voice(target), destination);
        spoken((self.mac, to), ends, |payload| solicit.write(payload))
    }

    /// Creates the solicitation of duplicate address detection for an own address.
    pub(super) fn trial(&self, target: u128) -> Spoken {
        let (group, solicit) = (ipv6::solicited_node(target), Solicit { target, source_mac: None });
        spoken((self.mac, ipv6::group_mac(group)), (0, group), |payload| solicit.write(payload))
    }

    /// Returns the Ethernet address of a known neighbour.
    pub(super) fn station(&self, ip: u128) -> Option<Mac> {
        self.known.station(ip)
    }

    /// Returns the Ethernet addresses of all known neighbours.
    pub(super) fn stations(&self) -> Vec<Mac> {
        self.known.stations().collect()
    }

    /// Forgets all neighbours: there may be other hosts by now.
    pub(super) fn forget(&mut self) {
        self.known.forget();
    }

    /// Handles a router solicitation. A flood of them must not displace probes in the queue before a member.
    fn routers_asked(&mut self, now: Duration) -> Fate {
        let due = self.solicited.max(now);
        if due.saturating_sub(now) >= ROUTER_SOLICITS_AHEAD {
            return Fate::Refused;
        }
        self.solicited = due + ROUTER_SOLICITS;
        Fate::ToLead
    }

    fn hear_solicit(&mut self, message: &Message, solicit: &Solicit, now: Duration) -> Heard {
        let (source, target) = (message.source, solicit.target);
        let (of_source, of_target) = (self.position(source), self.position(target));
        // Without a usable own address there is no source for a reply.
        let is_anycast = of_target.is_none() && self.is_anycast(target) && self.voice(target) != 0;
        if of_target.is_none() && (!is_anycast || of_source.is_some()) {
            return Heard::default();
        }
        // Another station sends from an own address, or does duplicate address detection for it.
        if let Some(at) = of_source.or(of_target.filter(|_| source == 0)) {
            return self.claimed(at, (source == 0).then_some(message), now);
        }
        if of_target.is_some_and(|at| self.own[at].is_lost()) {
            return Heard::default();
        }
        let told = solicit.source_mac.and_then(|mac| self.learn((source, mac), true, now));
        Heard { answer: Some(self.answer(message, solicit, now)), told, fate: Fate::Stays }
    }

    fn hear_advert(&mut self, advert: &Advert, now: Duration) -> Heard {
        let target = advert.target;
        if let Some(at) = self.position(target) {
            return self.claimed(at, None, now);
        }
        let known = self.known.station(target);
        // While members wait for a reply, any may replace the entry: a proxy does not set the override flag.
        let is_free = advert.overrides || self.known.is_awaited(target);
        let may_replace = |mac: &Mac| is_free || known.is_none_or(|known| known == *mac);
        let mac = advert.target_mac.or(known).filter(may_replace);
        Heard { told: mac.and_then(|mac| self.learn((target, mac), false, now)), ..Heard::default() }
    }

    /// Handles another station's claim of an own address, by an advertisement or by duplicate address detection.
    fn claimed(&mut self, at: usize, asks: Option<&Message>, now: Duration) -> Heard {
        let own = &mut self.own[at];
        if own.is_on_trial(now) {
            own.trial = Trial::Lost;
            return Heard::of(Fate::ToAll);
        }
        if own.is_lost() {
            return Heard::default();
        }
        // A member reports it, as a single router does, unless one could take it for an objection.
        let is_tried = own.tried.is_some_and(|tried| now.saturating_sub(tried) < IN_TRIAL);
        let (fate, target) = (if is_tried { Fate::Stays } else { Fate::GoesOn }, own.ip);
        let answer = asks.map(|asks| self.answer(asks, &Solicit { target, source_mac: None }, now));
        Heard { fate, answer, told: None }
    }

    /// Handles duplicate address detection for an own address, by a member or by the group in place of members that do none.
    pub(super) fn tried_by_member(&mut self, target: u128, now: Duration) -> Heard {
        let Some(own) = self.own.iter_mut().find(|own| own.ip == target) else { return Heard::default() };
        let is_soon = own.tried.is_some_and(|tried| now.saturating_sub(tried) < REPORTED_AGAIN);
        own.tried = Some(now);
        match own.trial {
            Trial::None | Trial::Lost => {
                own.trial = Trial::At(now);
                own.is_told &= is_soon;
                Heard::of(Fate::GoesOn)
            }
            Trial::At(_) => Heard::default(),
        }
    }

    /// Takes back duplicate address detection whose solicitation was lost before it left.
    pub(super) fn was_not_tried(&mut self, target: u128) {
        let begun = self.own.iter_mut().filter(|own| own.ip == target && matches!(own.trial, Trial::At(_)));
        begun.for_each(|own| own.trial = Trial::None);
    }

    /// Handles a member's solicitation for an address from one of its own. A kernel router solicits although another station has them all.
    fn asked_by(&mut self, (member, by): (u16, u128), ip: u128, is_known: bool, now: Duration) -> Heard {
        if !self.takes_part() || self.position(ip).is_some() || self.is_anycast(ip) {
            return Heard::default();
        }
        let Asked { goes_on, mac } = self.known.ask((member, ip), is_known, now);
        let told = mac.map(|mac| (bit(member), self.reply(ip, mac, by)));
        Heard { fate: if goes_on { Fate::GoesOn } else { Fate::Stays }, told, answer: None }
    }

    /// Stores the address of a station: a new one only if its message is for us, else only a change. Returns a frame for members.
    fn learn(&mut self, (ip, mac): (u128, Mac), is_for_us: bool, now: Duration) -> Option<(u64, Spoken)> {
        let is_node = !ipv6::is_multicast(ip) && !ipv6::is_martian(ip) && !self.is_anycast(ip);
        let is_near = is_for_us && self.own.iter().any(|own| own.covers(ip));
        if !mac.is_station() || !is_node || !(is_near || self.known.contains(ip)) {
            return None;
        }
        let to = self.known.hear((ip, mac), now);
        (to != 0).then(|| (to, self.reply(ip, mac, self.voice(ip))))
    }

    fn position(&self, ip: u128) -> Option<usize> {
        self.own.iter().position(|own| own.ip == ip)
    }

    /// Returns true for the subnet-router anycast address of a network (RFC 4291, 2.6.1; not of one of two addresses, RFC 6164).
    fn is_anycast(&self, ip: u128) -> bool {
        self.own.iter().skip(1).any(|own| own.len < 127 && ip == own.ip & ipv6::mask(own.len))
    }

    /// Returns the own address that is the source of messages to another address; 0 if there is none.
    fn voice(&self, ip: u128) -> u128 {
        let usable = || self.own.iter().filter(|own| !own.is_lost());
        usable().find(|own| own.covers(ip)).or_else(|| usable().next()).map_or(0, |own| own.ip)
    }

    /// Creates the advertisement of an own address. Duplicate address detection is answered to all nodes.
    fn answer(&self, message: &Message, solicit: &Solicit, now: Duration) -> Spoken {
        let (to, destination) = match message.source {
            0 => (ipv6::group_mac(ipv6::ALL_NODES), ipv6::ALL_NODES),
            source => (solicit.source_mac.unwrap_or(message.by), source),
        };
        let target = solicit.target;
        // Other routers also answer for the anycast address.
        let own = self.position(target).map(|at| &self.own[at]);
        let advert = Advert {
            target,
            target_mac: Some(self.mac),
            router: true,
            solicited: message.source != 0,
            overrides: own.is_some_and(|own| !own.is_on_trial(now)),
        };
        let source = own.map_or_else(|| self.voice(destination), |own| own.ip);
        spoken((self.mac, to), (source, destination), |payload| advert.write(payload))
    }

    /// Creates the advertisement of a neighbour for members.
    fn reply(&self, ip: u128, mac: Mac, to: u128) -> Spoken {
        let advert =
            Advert { target: ip, target_mac: Some(mac), router: false, solicited: true, overrides: true };
        spoken((mac, self.mac), (ip, to), |payload| advert.write(payload))
    }
}

/// Entry point of the fuzz target `discovery`.
#[cfg(feature = "fuzz")]
pub fn fuzz_discovery(input: &[u8]) {
    fuzzed::run(input);
}

#[cfg(test)]
#[path = "../../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../../fuzz/bodies/discovery.rs"]
mod fuzzed;
#[cfg(test)]
mod tests;
