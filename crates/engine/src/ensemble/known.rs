//! Neighbours that are known or asked for at one NIC of a group, by their addresses of one family. Pure: time comes in.

use std::collections::BTreeMap;
use std::time::Duration;

use frame::Mac;

/// Neighbours that are known or asked for at most.
pub(super) const MOST: usize = 4096;
/// How long what a neighbour has said counts, without its being asked again.
pub(super) const FRESH: Duration = Duration::from_secs(30);
/// How long it counts while the neighbour does not answer any more.
pub(super) const GONE: Duration = Duration::from_secs(90);
/// Least time between two requests for one address, and between two changes of it of which all members are told.
const PAUSE: Duration = Duration::from_millis(100);

/// The bit of a member; members have numbers below 64.
pub(super) const fn bit(member: u16) -> u64 {
    1 << (member & 63)
}

/// Neighbours, by their addresses.
pub(super) struct Known<A>(BTreeMap<A, Host>);

/// One neighbour, or an address that was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    mac: Option<Mac>,
    /// When it has spoken last.
    seen: Duration,
    /// When it was asked last.
    asked: Option<Duration>,
    /// Members that wait for it.
    askers: u64,
    /// Whether it has another address than members were told, and when all were told that it has last.
    has_moved: bool,
    told: Option<Duration>,
}

/// What comes of a member's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Whether the network is to be asked.
    pub(super) goes_on: bool,
    /// The Ethernet address, if it is known.
    pub(super) mac: Option<Mac>,
}

impl<A: Copy + Ord> Known<A> {
    /// No neighbour is known yet.
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// A member asks for an address. `is_known`: what is known of it counts.
    pub(super) fn ask(&mut self, (member, ip): (u16, A), is_known: bool, now: Duration) -> Asked {
        let host = self.host(ip);
        let age = now.saturating_sub(host.seen);
        let mac = host.mac.filter(|_| is_known && age < GONE);
        if mac.is_none() {
            host.askers |= bit(member);
        }
        let is_due = host.asked.is_none_or(|asked| now.saturating_sub(asked) >= PAUSE);
        let goes_on = is_due && (mac.is_none() || age >= FRESH);
        if goes_on {
            host.asked = Some(now);
        }
        Asked { goes_on, mac }
    }

    /// An address is asked for, so that the answer is of interest.
    pub(super) fn expect(&mut self, ip: A, now: Duration) {
        self.host(ip).asked = Some(now);
    }

    /// A neighbour has spoken; which members are to be told, a bit for each of their numbers.
    pub(super) fn hear(&mut self, (ip, mac): (A, Mac), now: Duration) -> u64 {
        let host = self.host(ip);
        let before = host.mac.replace(mac);
        host.seen = now;
        let askers = std::mem::take(&mut host.askers);
        // Where a neighbour has another address than before, all members hear of it; of one that changes it all the time, now and then.
        host.has_moved |= before.is_some_and(|before| before != mac);
        let is_due = host.told.is_none_or(|told| now.saturating_sub(told) >= PAUSE);
        if host.has_moved && is_due {
            (host.has_moved, host.told) = (false, Some(now));
            return u64::MAX;
        }
        askers
    }

    /// The address of a neighbour of interest that has spoken now.
    pub(super) fn heard(&self, ip: A, now: Duration) -> Option<Mac> {
        self.0.get(&ip).filter(|host| host.seen == now)?.mac
    }

    /// Whether an address is that of a neighbour, or was asked for.
    pub(super) fn contains(&self, ip: A) -> bool {
        self.0.contains_key(&ip)
    }

    /// Whether members wait for an answer, because what was known of an address counts no more.
    pub(super) fn is_awaited(&self, ip: A) -> bool {
        self.0.get(&ip).is_some_and(|host| host.askers != 0)
    }

    /// The address of a neighbour that is known.
    pub(super) fn station(&self, ip: A) -> Option<Mac> {
        self.0.get(&ip)?.mac
    }

    /// The addresses of all neighbours that are known.
    pub(super) fn stations(&self) -> impl Iterator<Item = Mac> {
        self.0.values().filter_map(|host| host.mac)
    }

    /// Other hosts may be there by now.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// How many addresses there are.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is known of an address: nothing, where it is new. Where there are too many, another one has to be asked for again.
    fn host(&mut self, ip: A) -> &mut Host {
        if self.0.len() >= MOST && !self.0.contains_key(&ip) {
            let next = self.0.range(ip..).next().or_else(|| self.0.iter().next());
            if let Some(other) = next.map(|(other, _)| *other) {
                self.0.remove(&other);
            }
        }
        self.0.entry(ip).or_default()
    }
}
