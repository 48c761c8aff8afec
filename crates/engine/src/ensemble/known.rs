//! Table of neighbours that are known or being resolved at one NIC of a group, by their addresses of one family. Pure: time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use frame::Mac;

/// Maximum number of neighbours that are known or being resolved.
pub(super) const MOST: usize = 4096;
/// Time from a neighbour's last message until it is asked again.
pub(super) const FRESH: Duration = Duration::from_secs(30);
/// Time from its last message until its entry expires if it does not answer.
pub(super) const GONE: Duration = Duration::from_secs(90);
/// Minimum interval of requests for one address, and of reports of its changes to all members.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the bit of a member; members have numbers below 64.
pub(super) const fn bit(member: u16) -> u64 {
    1 << (member & 63)
}

/// Neighbours, by their addresses.
pub(super) struct Known<A>(BTreeMap<A, Host>);

/// A neighbour, or an address that is being resolved.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    mac: Option<Mac>,
    /// Time of its last message.
    seen: Duration,
    /// Time of the last request to it.
    asked: Option<Duration>,
    /// Members that wait for it.
    askers: u64,
    /// True if its Ethernet address has changed since members were told, and the time of the last report of a change to all of them.
    has_moved: bool,
    told: Option<Duration>,
}

/// Result of a member's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// True if the network has to be asked.
    pub(super) goes_on: bool,
    /// The Ethernet address, if it is known.
    pub(super) mac: Option<Mac>,
}

impl<A: Copy + Ord> Known<A> {
    /// Creates an empty table.
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Handles a member's request for an address. `is_known`: the stored Ethernet address may be used.
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

    /// Notes that an address is requested, so that the reply is stored.
    pub(super) fn expect(&mut self, ip: A, now: Duration) {
        self.host(ip).asked = Some(now);
    }

    /// Stores the Ethernet address of a neighbour from which a message has come; returns the members to be told, a bit for each number.
    pub(super) fn hear(&mut self, (ip, mac): (A, Mac), now: Duration) -> u64 {
        let host = self.host(ip);
        let before = host.mac.replace(mac);
        host.seen = now;
        let askers = std::mem::take(&mut host.askers);
        // All members are told of a changed address, but only now and then if it changes all the time.
        host.has_moved |= before.is_some_and(|before| before != mac);
        let is_due = host.told.is_none_or(|told| now.saturating_sub(told) >= PAUSE);
        if host.has_moved && is_due {
            (host.has_moved, host.told) = (false, Some(now));
            return u64::MAX;
        }
        askers
    }

    /// Returns the Ethernet address of a known neighbour, if its last message came at this time.
    pub(super) fn heard(&self, ip: A, now: Duration) -> Option<Mac> {
        self.0.get(&ip).filter(|host| host.seen == now)?.mac
    }

    /// Returns true if an address is in the table.
    pub(super) fn contains(&self, ip: A) -> bool {
        self.0.contains_key(&ip)
    }

    /// Returns true if members wait for a reply, because no valid entry exists for an address.
    pub(super) fn is_awaited(&self, ip: A) -> bool {
        self.0.get(&ip).is_some_and(|host| host.askers != 0)
    }

    /// Returns the Ethernet address of a known neighbour.
    pub(super) fn station(&self, ip: A) -> Option<Mac> {
        self.0.get(&ip)?.mac
    }

    /// Returns the Ethernet addresses of all known neighbours.
    pub(super) fn stations(&self) -> impl Iterator<Item = Mac> {
        self.0.values().filter_map(|host| host.mac)
    }

    /// Forgets all neighbours: there may be other hosts by now.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Returns the number of addresses in the table.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the entry of an address, empty if it is new. If the table is full, a new entry displaces another one.
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
