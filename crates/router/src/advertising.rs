//! What a router advertises on a link, and when (RFC 4861, 6.2): without a socket or a clock, so that whatever sends can use it.

use arrayvec::ArrayVec;
use frame::nd::{AdvertOptions, PrefixInfo, RouterAdvert};
use frame::{Error, Mac, icmpv6};

use crate::config::{Advertise, MAX_DNS, MAX_PREFIXES};
use crate::rate::ErrorBucket;

/// Number of advertisements after the start that follow each other quickly, and the longest pause between them in
/// milliseconds (RFC 4861, 10).
const INITIAL: u32 = 3;
const INITIAL_PAUSE: u64 = 16_000;
/// Milliseconds between two advertisements to all nodes at least (RFC 4861, 10: MIN_DELAY_BETWEEN_RAS).
const PAUSE: u64 = 3000;
/// Longest delay of an advertisement that answers a solicitation, in milliseconds (RFC 4861, 10: MAX_RA_DELAY_TIME).
const DELAY: u64 = 500;

/// Router advertisements of a NIC: what they say, and when the next ones are due. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Advertising {
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
    /// Advertisements that say this; none is due before [`Advertising::begin`].
    pub fn new(wanted: &Advertise<'_>) -> Self {
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

    /// Returns when the next advertisement is due.
    pub fn deadline(&self) -> Option<u64> {
        self.due.into_iter().chain(self.answer.map(|(due, _)| due)).min()
    }

    /// Sets the time of the next advertisement to all nodes.
    pub const fn begin(&mut self, at: u64) {
        self.due = Some(at);
    }

    /// Returns true if an advertisement to all nodes is due.
    pub fn is_due(&self, now: u64) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Leaves out the next advertisement to all nodes, unless a solicitation asks for it.
    pub(crate) const fn rest(&mut self) {
        self.due = None;
    }

    /// Takes the receiver of an answer that is due.
    pub fn take_answer(&mut self, now: u64) -> Option<(u128, Mac)> {
        self.answer.take_if(|(due, _)| *due <= now).map(|(_, to)| to)
    }

    /// Records an advertisement to all nodes, and sets the time of the next one: `random` of the possible pauses.
    pub fn sent_to_all(&mut self, now: u64, random: impl FnOnce(u64) -> u64) {
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
    pub fn hear(&mut self, to: Option<(u128, Mac)>, now: u64, random: impl FnOnce(u64) -> u64) {
        match (to, self.answer) {
            (Some(to), Some((_, other))) if to == other => {}
            (Some(to), None) if self.answers.take(now) => {
                self.answer = Some((now.saturating_add(random(DELAY)), to));
            }
            _ => self.hurry(now, random),
        }
    }

    /// Writes the payload of an advertisement for a NIC with this Ethernet address and MTU; returns its length and the ICMPv6 header
    /// for it.
    ///
    /// # Errors
    /// It does not fit into `payload`.
    pub fn write(&self, mac: Mac, mtu: u32, payload: &mut [u8]) -> Result<(usize, icmpv6::Header), Error> {
        let mtu = self.tells_mtu.then_some(mtu);
        let lifetime = (3 * self.interval.1 / 1000) as u32;
        let options = AdvertOptions { mac, mtu, prefixes: &self.prefixes, dns: (&self.dns[..], lifetime) };
        self.advert.write(&options, payload)
    }

    /// Writes the payload of the last advertisement, by which the router is no default router any more (RFC 4861, 6.2.5); `None` if it
    /// was none before.
    pub fn write_farewell(&self, mac: Mac, payload: &mut [u8]) -> Option<(usize, icmpv6::Header)> {
        if self.advert.lifetime == 0 {
            return None;
        }
        let RouterAdvert { hop_limit, managed, other, .. } = self.advert;
        let last = RouterAdvert { hop_limit, managed, other, ..RouterAdvert::default() };
        last.write(&AdvertOptions { mac, mtu: None, prefixes: &[], dns: (&[], 0) }, payload).ok()
    }
}

#[cfg(test)]
mod tests;
