//! The IPv6 neighbours of a group at one of its NICs, and the one voice that speaks neighbour discovery (RFC 4861) there for all
//! members, as [`super::hosts`] speaks ARP.
//!
//! An own address is tried once for all members (duplicate address detection, RFC 4862): what the first of them asks for that goes to
//! the network, and an objection within a second goes to all. A member that tries the address later hears no objection, so that members
//! agree on which addresses the group has. One that another station has is tried again by each member that starts: the station may be
//! gone by then.
//!
//! Pure: messages and time come in, frames go out.

mod message;

use std::time::Duration;

use frame::nd::{Advert, Solicit};
use frame::{Mac, ipv6};

use super::known::{Asked, Known, bit};
pub(super) use message::{LONGEST, Message, Said, Spoken, advertise_as, spoken};

/// How long an own address is tried (RFC 4861, 10: RETRANS_TIMER).
const TRIED: Duration = Duration::from_secs(1);
/// For how long a member may take another station's claim for an objection, after it has begun to try the address.
const IN_TRIAL: Duration = Duration::from_secs(2);
/// Between two router solicitations that a member is told of, on average; and how far ahead of that they may be, so 16 at once: a member
/// has room for more frames than these, and its advertisements are meant for all hosts.
const ROUTER_SOLICITS: Duration = Duration::from_millis(50);
const ROUTER_SOLICITS_AHEAD: Duration = Duration::from_millis(800);
/// Length of the prefix of link-local addresses.
const LINK_LOCAL: u8 = 64;

/// Where a message goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nowhere.
    #[default]
    Stays,
    /// Nowhere: there are too many of its kind.
    Refused,
    /// Where it was going.
    GoesOn,
    /// To the member that advertises the group as a router; from it, where it was going.
    ToLead,
    /// To all members.
    ToAll,
}

/// What comes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Where it goes.
    pub(super) fate: Fate,
    /// What the network is answered.
    pub(super) answer: Option<Spoken>,
    /// What members are told: a bit for each of their numbers.
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
    /// When a member has begun to try it last.
    tried: Option<Duration>,
    /// Whether somebody was told that another station has it.
    is_told: bool,
}

/// Whether another station has an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// No member has asked for it: members have used it since before this began.
    None,
    /// It was tried at this time.
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

    /// Whether another station may object to its use.
    fn is_on_trial(&self, now: Duration) -> bool {
        matches!(self.trial, Trial::At(at) if now.saturating_sub(at) < TRIED)
    }
}

/// The neighbours at one NIC.
pub(super) struct Nodes {
    mac: Mac,
    /// The own addresses, the link-local one first; none: the NIC takes no part in IPv6.
    own: Vec<Own>,
    known: Known<u128>,
    /// When the next router solicitation would be due if all were as far apart as on average.
    solicited: Duration,
}

impl Nodes {
    /// No neighbour is known yet to a group with this Ethernet address, and these addresses with the lengths of their prefixes. Its
    /// link-local address need not be among them, as with a router.
    pub(super) fn new(mac: Mac, addresses: &[(u128, u8)]) -> Self {
        let given = addresses.iter().map(|(ip, _)| *ip).find(|ip| ipv6::is_link_local(*ip));
        let near = (!addresses.is_empty()).then(|| given.unwrap_or_else(|| ipv6::link_local(mac)));
        let others = addresses.iter().copied().filter(|(ip, _)| !ipv6::is_link_local(*ip));
        let all = near.map(|ip| (ip, LINK_LOCAL)).into_iter().chain(others);
        let own = all.map(|(ip, len)| Own { ip, len, trial: Trial::None, tried: None, is_told: false });
        Self { mac, own: own.collect(), known: Known::new(), solicited: Duration::ZERO }
    }

    /// Whether there is an address of the group that can ask for others.
    pub(super) fn takes_part(&self) -> bool {
        self.own.iter().any(|own| !own.is_lost())
    }

    /// The addresses of the group, the link-local one first.
    pub(super) fn addresses(&self) -> Vec<u128> {
        self.own.iter().map(|own| own.ip).collect()
    }

    /// Own addresses that another station has, as far as this has not told of them since they were tried last.
    pub(super) fn take_lost(&mut self) -> Vec<u128> {
        let lost = self.own.iter_mut().filter(|own| own.is_lost() && !own.is_told);
        let told = lost.map(|own| {
            own.is_told = true;
            own.ip
        });
        told.collect()
    }

    /// The network says this.
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

    /// A member says this. `is_known`: what is known of the neighbour that it asks for counts.
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

    /// An address is asked for, so that the answer is of interest.
    pub(super) fn expect(&mut self, ip: u128, now: Duration) {
        self.known.expect(ip, now);
    }

    /// The Ethernet address of a neighbour of interest that has spoken now.
    pub(super) fn heard(&self, ip: u128, now: Duration) -> Option<Mac> {
        self.known.heard(ip, now)
    }

    /// What asks for a neighbour in the group's name, of all stations or of the one that has this address.
    pub(super) fn question(&self, target: u128, to: Mac) -> Spoken {
        let group = ipv6::solicited_node(target);
        let (to, destination) = if to.is_station() { (to, target) } else { (ipv6::group_mac(group), group) };
        let solicit = Solicit { target, source_mac: Some(self.mac) };
        let ends = (self.voice(target), destination);
        spoken((self.mac, to), ends, |payload| solicit.write(payload))
    }

    /// What asks whether another station has an own address.
    pub(super) fn trial(&self, target: u128) -> Spoken {
        let (group, solicit) = (ipv6::solicited_node(target), Solicit { target, source_mac: None });
        spoken((self.mac, ipv6::group_mac(group)), (0, group), |payload| solicit.write(payload))
    }

    /// The Ethernet address of a neighbour that is known.
    pub(super) fn station(&self, ip: u128) -> Option<Mac> {
        self.known.station(ip)
    }

    /// The addresses of all neighbours that are known.
    pub(super) fn stations(&self) -> Vec<Mac> {
        self.known.stations().collect()
    }

    /// Other hosts may be there by now.
    pub(super) fn forget(&mut self) {
        self.known.forget();
    }

    /// A host asks for routers. Many that do so must not take the places of probes before a member.
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
        // Without an own address there is none to answer from.
        let is_anycast = of_target.is_none() && self.is_anycast(target) && self.voice(target) != 0;
        if of_target.is_none() && (!is_anycast || of_source.is_some()) {
            return Heard::default();
        }
        // Another station speaks from an own address, or is about to use the one that it asks for.
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
        // What counts no more may be replaced by whatever answers: a node that answers for another one does not say that it overrides.
        let is_free = advert.overrides || self.known.is_awaited(target);
        let may_replace = |mac: &Mac| is_free || known.is_none_or(|known| known == *mac);
        let mac = advert.target_mac.or(known).filter(may_replace);
        Heard { told: mac.and_then(|mac| self.learn((target, mac), false, now)), ..Heard::default() }
    }

    /// Another station claims an own address, by an advertisement, or by what it asks before it uses the address.
    fn claimed(&mut self, at: usize, asks: Option<&Message>, now: Duration) -> Heard {
        let own = &mut self.own[at];
        if own.is_on_trial(now) {
            own.trial = Trial::Lost;
            return Heard::of(Fate::ToAll);
        }
        if own.is_lost() {
            return Heard::default();
        }
        // A member tells of it, as a router does that is alone, unless one could take it for an objection.
        let is_tried = own.tried.is_some_and(|tried| now.saturating_sub(tried) < IN_TRIAL);
        let (fate, target) = (if is_tried { Fate::Stays } else { Fate::GoesOn }, own.ip);
        let answer = asks.map(|asks| self.answer(asks, &Solicit { target, source_mac: None }, now));
        Heard { fate, answer, told: None }
    }

    /// A member tries an own address before it uses it, or the group does so for members that do not.
    pub(super) fn tried_by_member(&mut self, target: u128, now: Duration) -> Heard {
        let Some(own) = self.own.iter_mut().find(|own| own.ip == target) else { return Heard::default() };
        own.tried = Some(now);
        match own.trial {
            Trial::None | Trial::Lost => {
                (own.trial, own.is_told) = (Trial::At(now), false);
                Heard::of(Fate::GoesOn)
            }
            Trial::At(_) => Heard::default(),
        }
    }

    /// A member asks for an address, by one of its own.
    fn asked_by(&mut self, (member, by): (u16, u128), ip: u128, is_known: bool, now: Duration) -> Heard {
        if self.position(ip).is_some() || self.is_anycast(ip) {
            return Heard::default();
        }
        let Asked { goes_on, mac } = self.known.ask((member, ip), is_known, now);
        let told = mac.map(|mac| (bit(member), self.reply(ip, mac, by)));
        Heard { fate: if goes_on { Fate::GoesOn } else { Fate::Stays }, told, answer: None }
    }

    /// Notes a station: one that speaks to us may be new, of others only a change is of interest. What members are to be told.
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

    /// Whether it is the address of all routers of a network (RFC 4291, 2.6.1; not of one of two addresses, RFC 6164).
    fn is_anycast(&self, ip: u128) -> bool {
        self.own.iter().skip(1).any(|own| own.len < 127 && ip == own.ip & ipv6::mask(own.len))
    }

    /// The own address that speaks to another one.
    fn voice(&self, ip: u128) -> u128 {
        let usable = || self.own.iter().filter(|own| !own.is_lost());
        usable().find(|own| own.covers(ip)).or_else(|| usable().next()).map_or(0, |own| own.ip)
    }

    /// What the network is answered that asks for an own address. What is asked before an address is used is answered to all.
    fn answer(&self, message: &Message, solicit: &Solicit, now: Duration) -> Spoken {
        let (to, destination) = match message.source {
            0 => (ipv6::group_mac(ipv6::ALL_NODES), ipv6::ALL_NODES),
            source => (solicit.source_mac.unwrap_or(message.by), source),
        };
        let target = solicit.target;
        // Other routers answer for the address of all routers as well.
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

    /// What a neighbour says to members.
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
