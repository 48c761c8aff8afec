//! Table of all sessions: which packet belongs to which, and which is due when.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use crate::counters::BfdCounters;
use crate::packet::{Diagnostic, LEN, Packet, State};
use crate::session::{Change, Config, Session};
use crate::{PORT, TTL};

/// First source port of control packets (RFC 5881, section 4), and how many there are.
const FIRST_SOURCE: u16 = 49_152;
const SOURCES: u32 = 16_384;
/// Most former numbers of a session: as often bfdd may be restarted before the other side learns a number.
const MOST_FORMER: usize = 8;

/// Path that a session watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Our address; unspecified: any.
    pub local: IpAddr,
    /// Address of the other side.
    pub remote: IpAddr,
    /// Index of the interface; 0: any.
    pub index: u32,
    /// Over several hops (RFC 5883).
    pub is_multihop: bool,
    /// Least time to live with which packets may arrive over several hops.
    pub least_ttl: u8,
}

/// Session to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Settings.
    pub config: Config,
    /// Path.
    pub path: Path,
    /// Time before the first packet, in microseconds.
    pub hold: u64,
}

/// UDP datagram that has arrived for port [`PORT`] or [`crate::MULTIHOP_PORT`].
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Sender.
    pub source: IpAddr,
    /// Receiver: an address of ours.
    pub destination: IpAddr,
    /// Index of the interface.
    pub index: u32,
    /// UDP port that it was sent to.
    pub port: u16,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Payload of the datagram.
    pub payload: &'a [u8],
    /// When it has arrived.
    pub at: u64,
}

/// Reason why a packet was not taken. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is no control packet, or contradicts itself.
    Malformed,
    /// Its time to live is too small.
    Ttl,
    /// No session expects it.
    Unknown,
    /// It is authenticated.
    Authentication,
}

/// Packets and octets of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets received.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
}

/// What has to be done for a session.
#[derive(Clone, Copy, Debug)]
pub enum Out<'a> {
    /// Send a packet by this path, with time to live 255.
    Send {
        /// Path.
        path: &'a Path,
        /// UDP source port, which stays the same for a session.
        source_port: u16,
        /// Payload of the datagram.
        payload: &'a [u8; LEN],
    },
    /// The session has changed its state.
    Changed {
        /// Path.
        path: &'a Path,
        /// Session, after the change.
        session: &'a Session,
        /// Change.
        change: Change,
    },
}

#[derive(Debug)]
struct Entry {
    session: Session,
    path: Path,
    traffic: Traffic,
    /// When it is due, as in the queue.
    due: Option<u64>,
    /// Its former numbers, the latest last, until the other side has learnt the present one.
    former: Vec<u32>,
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    entries: HashMap<u32, Entry>,
    /// Sessions by remote address, then interface (one hop) or local address (several).
    paths: HashMap<Name, u32>,
    /// Times at which sessions are due, with their numbers.
    queue: BTreeSet<(u64, u32)>,
    /// Present numbers of sessions by their former ones.
    former: HashMap<u32, u32>,
    counters: Arc<BfdCounters>,
    seed: u64,
}

/// How a session is found by a packet that does not know its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    OneHop(IpAddr, u32),
    SeveralHops(IpAddr, IpAddr),
}

impl Path {
    const fn name(&self) -> Name {
        if self.is_multihop {
            Name::SeveralHops(self.remote, self.local)
        } else {
            Name::OneHop(self.remote, self.index)
        }
    }
}

impl Sessions {
    /// Creates an empty table; `seed` decides the jitter.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Has the table count here, where others may read it.
    #[must_use]
    pub fn counted_by(self, counters: Arc<BfdCounters>) -> Self {
        Self { counters, ..self }
    }

    /// Adds a session, or changes its settings and path. Another session with the same path is forgotten.
    pub fn set(&mut self, watch: &Watch, now: u64, out: &mut dyn FnMut(Out<'_>)) {
        let Watch { config, path, hold } = *watch;
        let number = config.number;
        match self.entries.get_mut(&number) {
            Some(entry) if entry.path == path => {
                let change = entry.session.configure(config, now);
                told(entry, change, &self.counters, out);
            }
            _ => {
                self.remove(number);
                if let Some(other) = self.paths.insert(path.name(), number) {
                    self.remove(other);
                }
                let seed = self.seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let session = Session::new(config, now, hold, seed);
                let (traffic, former) = (Traffic::default(), Vec::new());
                self.entries.insert(number, Entry { session, path, traffic, due: None, former });
            }
        }
        self.queue_again(number);
    }

    /// Removes a session; returns whether it was there.
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(mut entry) = self.entries.remove(&number) else { return false };
        forget_former(&mut self.former, &mut entry.former, number);
        let name = entry.path.name();
        if self.paths.get(&name) == Some(&number) {
            self.paths.remove(&name);
        }
        if let Some(due) = entry.due {
            self.queue.remove(&(due, number));
        }
        true
    }

    /// Returns the number of the session that watches a path.
    pub fn number_of(&self, path: &Path) -> Option<u32> {
        self.paths.get(&path.name()).copied()
    }

    /// Gives a session another number, which no session has. Packets for the former one are taken until the other side has
    /// learnt the new one. Returns false if there is no such session, or the number is taken.
    pub fn renumber(&mut self, number: u32, new: u32) -> bool {
        if self.entries.contains_key(&new) {
            return false;
        }
        let Some(mut entry) = self.entries.remove(&number) else { return false };
        if let Some(due) = entry.due.take() {
            self.queue.remove(&(due, number));
        }
        entry.session.renumber(new);
        self.paths.insert(entry.path.name(), new);
        let is_its_own = |old: &u32| *old != new && self.former.get(old) == Some(&number);
        let mut former: Vec<u32> = entry.former.iter().copied().filter(is_its_own).collect();
        former.push(number);
        forget_former(&mut self.former, &mut entry.former, number);
        entry.former = former.split_off(former.len().saturating_sub(MOST_FORMER));
        self.former.extend(entry.former.iter().map(|old| (*old, new)));
        self.entries.insert(new, entry);
        self.queue_again(new);
        true
    }

    /// Takes a packet.
    ///
    /// # Errors
    /// It is dropped, and counted.
    pub fn take(&mut self, arrived: &Arrived<'_>, out: &mut dyn FnMut(Out<'_>)) -> Result<(), Dropped> {
        let taken = self.take_uncounted(arrived, out);
        let counters = &self.counters;
        let counter = match taken {
            Ok(()) => &counters.taken,
            Err(Dropped::Malformed) => &counters.drop_malformed,
            Err(Dropped::Ttl) => &counters.drop_ttl,
            Err(Dropped::Unknown) => &counters.drop_unknown,
            Err(Dropped::Authentication) => &counters.drop_authentication,
        };
        counter.add(1);
        taken
    }

    /// Does what is due: sends packets, and finds sessions expired. Take the packets that have arrived before.
    pub fn turn(&mut self, now: u64, out: &mut dyn FnMut(Out<'_>)) {
        while let Some((due, number)) = self.queue.first().copied().filter(|(due, _)| *due <= now) {
            self.queue.remove(&(due, number));
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            entry.due = None;
            let change = entry.session.expire(now);
            told(entry, change, &self.counters, out);
            while let Some(packet) = entry.session.send(now) {
                entry.traffic.packets_out += 1;
                self.counters.sent.add(1);
                let source_port = FIRST_SOURCE + (number % SOURCES) as u16;
                out(Out::Send { path: &entry.path, source_port, payload: &packet.octets() });
            }
            self.queue_after(number, now);
        }
    }

    /// Time of the next turn; `None` if there is no session.
    pub fn due(&self) -> Option<u64> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Session with this number.
    pub fn get(&self, number: u32) -> Option<(&Session, &Path, Traffic)> {
        self.entries.get(&number).map(|entry| (&entry.session, &entry.path, entry.traffic))
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no session.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All sessions, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Session, &Path, Traffic)> {
        self.entries.values().map(|entry| (&entry.session, &entry.path, entry.traffic))
    }

    /// Counters.
    pub fn counters(&self) -> &BfdCounters {
        &self.counters
    }

    fn take_uncounted(&mut self, arrived: &Arrived<'_>, out: &mut dyn FnMut(Out<'_>)) -> Result<(), Dropped> {
        let packet = Packet::parse(arrived.payload).map_err(|_| Dropped::Malformed)?;
        let number = self.number_for(arrived, &packet).ok_or(Dropped::Unknown)?;
        let entry = self.entries.get_mut(&number).ok_or(Dropped::Unknown)?;
        entry.path.admits(arrived)?;
        if packet.is_authenticated {
            return Err(Dropped::Authentication);
        }
        entry.traffic.packets_in += 1;
        if packet.yours == number {
            forget_former(&mut self.former, &mut entry.former, number);
        }
        let change = entry.session.take(&packet, arrived.at);
        told(entry, change, &self.counters, out);
        self.queue_again(number);
        Ok(())
    }

    /// Number of the session that a packet is for (RFC 5880, 6.3; RFC 5881, 3).
    fn number_for(&self, arrived: &Arrived<'_>, packet: &Packet) -> Option<u32> {
        if packet.yours != 0 {
            // A session may have a number that another one had before, until the other side learns it: the path decides.
            let entry = self.entries.get(&packet.yours);
            let is_its = entry.is_some_and(|entry| entry.path.admits(arrived) != Err(Dropped::Unknown));
            let present = self.former.get(&packet.yours).filter(|_| !is_its);
            return Some(present.copied().unwrap_or(packet.yours));
        }
        let (from, to) = (arrived.source, arrived.destination);
        let names = if arrived.port == PORT {
            [Name::OneHop(from, arrived.index), Name::OneHop(from, 0)]
        } else {
            [Name::SeveralHops(from, to), Name::SeveralHops(from, unspecified(to))]
        };
        names.iter().find_map(|name| self.paths.get(name).copied())
    }

    fn queue_again(&mut self, number: u32) {
        self.queue_after(number, 0);
    }

    /// Puts a session into the queue, not before `least`: a turn ends.
    fn queue_after(&mut self, number: u32, least: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Some(due) = entry.due.take() {
            self.queue.remove(&(due, number));
        }
        // What is due is done: a time that has passed would be due for ever.
        entry.due = entry.session.due().map(|due| if due <= least && least > 0 { least + 1 } else { due });
        self.queue.extend(entry.due.map(|due| (due, number)));
    }
}

impl Path {
    /// Checks where a packet comes from, and how far.
    fn admits(&self, arrived: &Arrived<'_>) -> Result<(), Dropped> {
        let is_port = self.is_multihop == (arrived.port != PORT);
        let is_interface = self.is_multihop || self.index == 0 || self.index == arrived.index;
        let is_ours = self.local.is_unspecified() || self.local == arrived.destination;
        if !(is_port && is_interface && is_ours) || self.remote != arrived.source {
            return Err(Dropped::Unknown);
        }
        let least = if self.is_multihop { self.least_ttl } else { TTL };
        if arrived.ttl < least { Err(Dropped::Ttl) } else { Ok(()) }
    }
}

/// Forgets former numbers of a session with this present number. One that another session has had since stays with that one.
fn forget_former(all: &mut HashMap<u32, u32>, own: &mut Vec<u32>, present: u32) {
    for number in own.drain(..) {
        if all.get(&number) == Some(&present) {
            all.remove(&number);
        }
    }
}

fn told(entry: &Entry, change: Option<Change>, counters: &BfdCounters, out: &mut dyn FnMut(Out<'_>)) {
    let Some(change) = change else { return };
    counters.up.add((change.to == State::Up).into());
    let is_down = change.from == State::Up;
    counters.down.add(is_down.into());
    counters.expired.add((is_down && change.diagnostic == Diagnostic::EXPIRED).into());
    out(Out::Changed { path: &entry.path, session: &entry.session, change });
}

const fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests;
