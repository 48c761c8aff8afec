//! Neighbours that are being resolved (incomplete, RFC 4861 7.3.2), and the packets that wait for them.
//!
//! Both are of bounded number, and shared fairly by source: the sending host (an IPv4 address, or the /64 of an IPv6 one)
//! behind its NIC. A packet to an unknown neighbour passes three gates:
//!
//! ```text
//!   pace   a new request takes a token: of its source, or of what other sources leave
//!   waits  if all are taken, the source that has most gives up its oldest one
//!   held   if all are taken, the source that has most loses its oldest packet
//! ```
//!
//! So a host that scans a network loses its own packets, and a host that another source addresses first is found meanwhile.

mod pace;

use arrayvec::ArrayVec;

use crate::ip::Ip;
use crate::slow::Origin;
use pace::Pace;

pub(crate) use pace::Source;

/// Maximum number of neighbours that one router resolves at a time.
pub(crate) const MAX_PENDING: usize = 256;
/// Maximum number of packets that wait for one neighbour; RFC 1122, 2.3.2.2 requires at least the latest one.
pub(crate) const MAX_HELD: usize = 4;
/// Maximum number of packets that wait in all.
pub(crate) const MAX_WAITING: usize = 128;
/// Number of broadcast requests before a neighbour is given up.
const REQUESTS: u8 = 3;
/// Milliseconds between requests.
const RETRANSMIT: u64 = 1000;
/// Milliseconds for which no request is sent for a neighbour that did not answer.
const NEGATIVE: u64 = 3000;

/// A waiting packet.
pub(crate) struct Held<B> {
    pub(crate) buffer: B,
    pub(crate) origin: Origin,
}

/// A neighbour behind a NIC.
pub(crate) type Target = (u8, Ip);

/// A packet in the queue of all that wait.
struct Waiting<B> {
    target: Target,
    source: Source,
    packet: Held<B>,
}

/// A neighbour that is being resolved.
struct Resolution {
    target: Target,
    source: Source,
    requests: u8,
    due: u64,
}

impl Resolution {
    /// Returns true if its last request was sent: it is given up next.
    const fn ends_next(&self) -> bool {
        self.requests == REQUESTS
    }
}

/// Packets that leave the queue.
pub(crate) type Packets<B> = ArrayVec<Held<B>, MAX_HELD>;

/// Action that is due for a neighbour.
pub(crate) enum Due<B> {
    /// Send a further request.
    Ask(Target),
    /// The neighbour did not answer: refuse its packets, or send them elsewhere.
    GiveUp(Target, Packets<B>),
}

/// Result of holding a packet.
pub(crate) enum Holding<B> {
    /// The packet waits, and a request has been sent already.
    Waits,
    /// The packet waits, and a request must be sent.
    Ask,
    /// The neighbour did not answer recently.
    Unreachable(Held<B>),
    /// Its source has caused too many requests.
    Paced(Held<B>),
}

/// All neighbours that one router is resolving.
pub(crate) struct Pending<B> {
    /// In the order in which resolution began.
    waits: ArrayVec<Resolution, MAX_PENDING>,
    /// In the order of arrival.
    queue: ArrayVec<Waiting<B>, MAX_WAITING>,
    /// Packets that lost their place, until they are counted.
    lost: ArrayVec<Held<B>, { 2 * MAX_HELD }>,
    pace: Pace,
}

impl<B> Pending<B> {
    pub(crate) const fn new() -> Self {
        Self {
            waits: ArrayVec::new_const(),
            queue: ArrayVec::new_const(),
            lost: ArrayVec::new_const(),
            pace: Pace::new(),
        }
    }

    /// Returns the number of waiting packets, and how many of them the router created itself.
    pub(crate) fn held(&self) -> (usize, usize) {
        let own = self.queue.iter().filter(|waiting| waiting.packet.origin == Origin::Own).count();
        (self.queue.len(), own)
    }

    /// Returns true if the neighbour is being resolved, or did not answer recently.
    pub(crate) fn contains(&self, nic: u8, ip: Ip) -> bool {
        self.waits.iter().any(|wait| wait.target == (nic, ip))
    }

    /// Holds a packet of this source until its neighbour is resolved. Afterwards [`Pending::take_lost`] returns the
    /// packets that had to make room.
    pub(crate) fn hold(&mut self, target: Target, source: Source, packet: Held<B>, now: u64) -> Holding<B> {
        if let Some(wait) = self.waits.iter().find(|wait| wait.target == target) {
            if wait.requests > REQUESTS {
                return Holding::Unreachable(packet);
            }
            self.queue_up(Waiting { target, source, packet });
            return Holding::Waits;
        }
        if !self.pace.take(source, now) {
            return Holding::Paced(packet);
        }
        if self.waits.is_full() {
            self.forget_one();
        }
        self.waits.push(Resolution { target, source, requests: 1, due: now.saturating_add(RETRANSMIT) });
        self.queue_up(Waiting { target, source, packet });
        Holding::Ask
    }

    /// Returns a packet that had to make room for another one.
    pub(crate) fn take_lost(&mut self) -> Option<Held<B>> {
        self.lost.pop()
    }

    /// Removes and returns the packets of one neighbour that has become known, which is resolved with that.
    pub(crate) fn take_known(&mut self, known: impl Fn(u8, Ip) -> bool) -> Option<(Target, Packets<B>)> {
        let at = self.waits.iter().position(|wait| known(wait.target.0, wait.target.1))?;
        let target = self.waits.remove(at).target;
        Some((target, self.take_packets(target)))
    }

    /// Returns when an action will be due, in milliseconds; `None` if no neighbour is being resolved.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.waits.iter().map(|wait| wait.due).min()
    }

    /// Returns true if a neighbour was to be given up before `now`.
    pub(crate) fn is_late(&self, now: u64) -> bool {
        self.waits.iter().any(|wait| wait.ends_next() && wait.due < now)
    }

    /// Returns one action that is due now, and the neighbour that it is about. None is given up if the router `listens_first`.
    pub(crate) fn next_due(&mut self, now: u64, listens_first: bool) -> Option<Due<B>> {
        let is_due = |wait: &Resolution| wait.due <= now && !(listens_first && wait.ends_next());
        while let Some(at) = self.waits.iter().position(is_due) {
            let wait = &mut self.waits[at];
            let target = wait.target;
            if wait.requests > REQUESTS {
                self.waits.remove(at);
                continue;
            }
            wait.requests += 1;
            if wait.requests <= REQUESTS {
                wait.due = now.saturating_add(RETRANSMIT);
                return Some(Due::Ask(target));
            }
            wait.due = now.saturating_add(NEGATIVE);
            return Some(Due::GiveUp(target, self.take_packets(target)));
        }
        None
    }

    /// Puts a packet into the queue; the oldest one of its neighbour, or of the source that has most, makes room.
    fn queue_up(&mut self, waiting: Waiting<B>) {
        let same = |other: &Waiting<B>| other.target == waiting.target;
        let for_it = self.queue.iter().filter(|other| same(other)).count();
        let loses = if for_it >= MAX_HELD {
            self.queue.iter().position(same)
        } else if self.queue.is_full() {
            let most = most_frequent(self.queue.iter().map(|other| other.source));
            self.queue.iter().position(|other| other.source == most)
        } else {
            None
        };
        if let Some(at) = loses {
            self.lose(at);
        }
        self.queue.push(waiting);
    }

    /// Makes room for a neighbour: removes one that did not answer, or the oldest one of the source that has most.
    fn forget_one(&mut self) {
        let given_up = self.waits.iter().position(|wait| wait.requests > REQUESTS);
        let at = given_up.or_else(|| {
            let most = most_frequent(self.waits.iter().map(|wait| wait.source));
            self.waits.iter().position(|wait| wait.source == most)
        });
        let target = self.waits.remove(at.unwrap_or(0)).target;
        while let Some(at) = self.queue.iter().position(|waiting| waiting.target == target) {
            self.lose(at);
        }
    }

    fn lose(&mut self, at: usize) {
        let lost = self.queue.remove(at).packet;
        // There is room: it is emptied after each packet that is held, which displaces those of one neighbour and one more.
        self.lost.push(lost);
    }

    /// Removes the packets of a neighbour from the queue, in their order.
    fn take_packets(&mut self, target: Target) -> Packets<B> {
        let mut packets = Packets::new();
        while let Some(at) = self.queue.iter().position(|waiting| waiting.target == target) {
            packets.push(self.queue.remove(at).packet);
        }
        packets
    }
}

/// Returns the source that occurs most often.
fn most_frequent(sources: impl Iterator<Item = Source>) -> Source {
    let mut counts = [0_u16; Source::COUNT];
    sources.for_each(|source| counts[source.index()] += 1);
    let most = counts.iter().enumerate().max_by_key(|(_, count)| **count).map_or(0, |(index, _)| index);
    Source::numbered(most)
}
