//! Router advertisements (RFC 4861, 6.2), as the file says.

use arrayvec::ArrayVec;
use frame::nd::{AdvertOptions, PrefixInfo, RouterAdvert};
use frame::{Mac, ipv6};

use crate::config::{Advertise, MAX_DNS, MAX_PREFIXES};
use crate::platform::{Buffer, Platform};
use crate::rate::ErrorBucket;
use crate::router::Router;
use crate::routes::Routes;
use crate::six::letter::Letter;

/// Number of advertisements after the start that follow each other quickly, and the longest pause between them in
/// milliseconds (RFC 4861, 10).
const INITIAL: u32 = 3;
const INITIAL_PAUSE: u64 = 16_000;
/// Milliseconds between two advertisements to all nodes at least (RFC 4861, 10: MIN_DELAY_BETWEEN_RAS).
const PAUSE: u64 = 3000;
/// Longest delay of an advertisement that answers a solicitation, in milliseconds (RFC 4861, 10: MAX_RA_DELAY_TIME).
const DELAY: u64 = 500;

/// What a NIC advertises, and when it does so next.
pub(crate) struct Advertising {
    advert: RouterAdvert,
    prefixes: ArrayVec<PrefixInfo, MAX_PREFIXES>,
    dns: ArrayVec<u128, MAX_DNS>,
    tells_mtu: bool,
    /// Smallest and largest pause in milliseconds.
    interval: (u64, u64),
    sent: u32,
    /// Time in milliseconds of the last advertisement to all nodes, and of the next one.
    last: Option<u64>,
    due: Option<u64>,
    /// The next advertisement to a single node: its time in milliseconds, and its receiver.
    answer: Option<(u64, (u128, Mac))>,
    /// Limit of advertisements to single nodes.
    answers: ErrorBucket,
}

impl Advertising {
    pub(crate) fn new(wanted: &Advertise<'_>) -> Self {
        let milliseconds = |seconds: u16| u64::from(seconds).max(3) * 1000;
        Self {
            advert: wanted.advert,
            prefixes: wanted.prefixes.iter().copied().take(MAX_PREFIXES).collect(),
            dns: wanted.dns.iter().copied().take(MAX_DNS).collect(),
            tells_mtu: wanted.tells_mtu,
            interval: (milliseconds(wanted.interval.0), milliseconds(wanted.interval.1)),
            sent: 0,
            last: None,
            due: None,
            answer: None,
            answers: ErrorBucket::new(),
        }
    }

    /// Returns when the next advertisement is due, in milliseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.due.into_iter().chain(self.answer.map(|(due, _)| due)).min()
    }

    /// Sets the time of the next advertisement.
    pub(crate) fn begin(&mut self, at: u64) {
        self.due = Some(at);
    }

    /// Records an advertisement to all nodes, and sets the time of the next one: `random` of the possible pauses.
    fn sent_to_all(&mut self, now: u64, random: impl FnOnce(u64) -> u64) {
        self.sent = self.sent.saturating_add(1);
        self.last = Some(now);
        let (least, most) = self.interval;
        let pause = least + random(most.saturating_sub(least).saturating_add(1));
        let pause = if self.sent < INITIAL { pause.min(INITIAL_PAUSE) } else { pause };
        self.due = Some(now.saturating_add(pause));
    }

    /// Advances the next advertisement, because of a solicitation.
    fn hurry(&mut self, now: u64, random: impl FnOnce(u64) -> u64) {
        let soonest = self.last.map_or(now, |last| now.max(last.saturating_add(PAUSE)));
        let due = soonest.saturating_add(random(DELAY));
        self.due = Some(self.due.map_or(due, |later| later.min(due)));
    }

    /// Plans the answer to a solicitation: to the node that sent it if that is known and no other one waits, else to all.
    fn plan_answer(&mut self, to: Option<(u128, Mac)>, now: u64, random: impl FnOnce(u64) -> u64) {
        match (to, self.answer) {
            (Some(to), Some((_, other))) if to == other => {}
            (Some(to), None) if self.answers.take(now) => {
                self.answer = Some((now.saturating_add(random(DELAY)), to));
            }
            _ => self.hurry(now, random),
        }
    }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Sends the advertisements that are due.
    pub(crate) fn advertise_due<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        for nic in 0..self.nics.len() {
            self.answer_due(platform, nic);
            let due = self.nics[nic].six.advertising.as_ref().and_then(|advertising| advertising.due);
            if due.is_none_or(|due| due > self.now) || self.postpone_until_confirmed(nic) {
                continue;
            }
            // Its source is the link-local address: if another station has that, it sends nothing.
            self.advertise(platform, nic, (ipv6::ALL_NODES, ipv6::group_mac(ipv6::ALL_NODES)));
            let (now, seed, keeper) = (self.now, self.random(u64::MAX), self.keeper);
            if let Some(advertising) = &mut self.nics[nic].six.advertising {
                advertising.sent_to_all(now, |most| seed % most);
                // Others only answer solicitations.
                advertising.due = advertising.due.filter(|_| keeper);
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
        if let Some((_, to)) = advertising.answer.take_if(|(due, _)| *due <= now) {
            self.advertise(platform, nic, to);
        }
    }

    /// Handles a router solicitation, whose answer is delayed (RFC 4861, 6.2.6).
    pub(crate) fn hear_router_solicit(&mut self, nic: usize, (source, mac): (u128, Option<Mac>)) {
        let (now, seed, has_source) = (self.now, self.random(u64::MAX), self.link_local(nic).is_some());
        let to = mac.filter(|_| source != 0 && has_source).map(|mac| (source, mac));
        if let Some(advertising) = &mut self.nics[nic].six.advertising {
            advertising.plan_answer(to, now, |most| seed % most);
        }
    }

    fn advertise<P: Platform<Buffer = B>>(&mut self, platform: &mut P, nic: usize, (to, mac): (u128, Mac)) {
        let Some(source) = self.link_local(nic) else { return };
        let own = &self.nics[nic];
        let Some(advertising) = &own.six.advertising else { return };
        let (advert, prefixes, dns) =
            (advertising.advert, advertising.prefixes.clone(), advertising.dns.clone());
        let mtu = advertising.tells_mtu.then(|| u32::from(own.mtu));
        let lifetime = (3 * advertising.interval.1 / 1000) as u32;
        let own_mac = own.mac;
        let letter = Letter { nic, to: mac, source, destination: to, is_report: false };
        self.originate6(platform, &letter, |payload| {
            let options = AdvertOptions { mac: own_mac, mtu, prefixes: &prefixes, dns: (&dns[..], lifetime) };
            advert.write(&options, payload)
        });
    }
}
