//! Data-path side of a trace: selects packets that arrive, and recognises them elsewhere.
//!
//! The I/O threads must not be slowed. At most [`SLOTS`] packets are followed at a time. At the traced NIC
//! only a bounded number of frames is examined between two rounds of the trace. While packets are followed,
//! each frame at every other place costs a fingerprint of its first octets and a comparison with those of the
//! packets, without a lock, which is cheap while the octets are in the cache; after [`LOOKS`] of these the
//! search is given up, and the trace rests for a while. While no packet is followed, no frame is examined:
//! that costs a burst little, and nothing measurable while no trace runs.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Filter;
use frame::{ethernet, ipv4};
use port::{Clock, Frame, Observer};

use super::board::{Place, Spot};
use super::drop_counters::Drops;
use super::sighting::{
    Head, Identity, SHORT, SHORT6, answered, fingerprint, fingerprint6, is_ipv6, octets_of_tags,
};

/// Maximum number of packets followed at the same time.
pub(super) const SLOTS: usize = 8;
/// Frames examined for the followed packets before the trace gives them up. This is more than the longest
/// queues between two places hold, so a packet not found by then is not there.
pub(super) const LOOKS: u64 = 1 << 18;
/// Examined frames forgiven in each round, so that a slow but steady stream does not use the budget up.
const LOOKS_REFUND: u64 = 8192;
/// Frames examined at the traced NIC between two rounds.
const ARRIVALS: u32 = 4096;
/// Maximum number of places recorded for a packet.
const HOPS: usize = 16;

/// Sighting of a packet at a place.
pub(super) struct Sight {
    pub(super) place: Arc<Place>,
    pub(super) after: Duration,
    pub(super) head: Head,
    /// True if the sink at this place did not accept it.
    pub(super) lost: bool,
}

/// A followed packet.
pub(super) struct TracedPacket {
    pub(super) number: u32,
    /// Time since the trace began.
    pub(super) at: Duration,
    pub(super) identity: Identity,
    /// The first is where it arrived.
    pub(super) sights: Vec<Sight>,
    /// A router's answer instead of forwarding it (ICMP, ARP).
    pub(super) answer: Option<Sight>,
    /// The counters from before it came.
    pub(super) before: Arc<Drops>,
    mark: u64,
}

impl TracedPacket {
    /// Returns true if no further sightings are expected.
    pub(super) fn is_over(&self) -> bool {
        let left = |sight: &Sight| sight.place.spot == Spot::Tx { to_switch: false };
        self.answer.is_some() || self.sights.iter().any(|sight| sight.lost || left(sight))
    }
}

#[derive(Default)]
struct Slots {
    list: Vec<TracedPacket>,
    taken_up: u32,
    before: Arc<Drops>,
}

/// State shared by the tap points of a trace.
pub(super) struct TraceState {
    /// Clock that starts with the trace.
    clock: Clock,
    filter: Filter,
    /// True while packets are followed: frames are to be examined at all places.
    open: AtomicBool,
    /// Packets that may still be selected before the next round.
    vacant: AtomicU32,
    /// Frames that may still be examined for that.
    arrivals: AtomicU32,
    /// Fingerprints of the followed packets; 0: none.
    marks: [AtomicU64; SLOTS],
    /// Their senders, to which answers go: IPv4 addresses, or folded IPv6 addresses; 0: none.
    senders: [AtomicU32; SLOTS],
    looks: AtomicU64,
    passed: AtomicU64,
    looked: AtomicU64,
    filtered: AtomicU64,
    slots: Mutex<Slots>,
}

/// Frame counts at the traced NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) passed: u64,
    pub(super) looked: u64,
    pub(super) filtered: u64,
}

impl TraceState {
    pub(super) fn new(filter: Filter, clock: Clock) -> Self {
        Self {
            clock,
            filter,
            open: AtomicBool::new(false),
            vacant: AtomicU32::new(0),
            arrivals: AtomicU32::new(0),
            marks: Default::default(),
            senders: Default::default(),
            looks: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
            slots: Mutex::default(),
        }
    }

    /// Returns the time since the trace began.
    pub(super) fn age(&self) -> Duration {
        Duration::from_nanos(self.clock.now())
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            passed: self.passed.load(Relaxed),
            looked: self.looked.load(Relaxed),
            filtered: self.filtered.load(Relaxed),
        }
    }

    /// Returns the number of packets selected so far.
    pub(super) fn taken_up(&self) -> u32 {
        self.lock().taken_up
    }

    /// Returns true if the search was given up although packets are followed.
    pub(super) fn has_given_up(&self) -> bool {
        self.looks.load(Relaxed) >= LOOKS
    }

    /// Returns the number of frames examined for the packets followed now.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Relaxed)
    }

    /// Removes and returns the packets for which `is_done` returns true.
    pub(super) fn harvest(&self, mut is_done: impl FnMut(&TracedPacket) -> bool) -> Vec<TracedPacket> {
        let mut slots = self.lock();
        let (done, going): (Vec<_>, Vec<_>) = slots.list.drain(..).partition(|followed| is_done(followed));
        slots.list = going;
        self.publish(&slots);
        done
    }

    /// Permits at most `most` further packets to be selected; `before` are the counters as they are now.
    pub(super) fn let_in(&self, most: u32, before: Arc<Drops>) {
        let mut slots = self.lock();
        slots.before = before;
        let room = SLOTS.saturating_sub(slots.list.len()) as u32;
        let looks = if slots.list.is_empty() { 0 } else { self.looks().saturating_sub(LOOKS_REFUND) };
        self.looks.store(looks, Relaxed);
        self.vacant.store(most.min(room), Relaxed);
        self.arrivals.store(ARRIVALS, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the fingerprints and senders that the I/O threads look for.
    fn publish(&self, slots: &Slots) {
        for (number, (mark, sender)) in self.marks.iter().zip(&self.senders).enumerate() {
            let followed = slots.list.get(number).filter(|followed| !followed.is_over());
            mark.store(followed.map_or(0, |followed| followed.mark), Relaxed);
            sender.store(followed.map_or(0, |followed| sender_of(&followed.identity)), Relaxed);
        }
        self.open.store(slots.list.iter().any(|followed| !followed.is_over()), Relaxed);
    }

    fn is_marked(&self, mark: u64) -> bool {
        self.marks.iter().any(|followed| followed.load(Relaxed) == mark)
    }

    fn is_sender(&self, address: u32) -> bool {
        address != 0 && self.senders.iter().any(|sender| sender.load(Relaxed) == address)
    }

    /// Selects arriving packets as long as there is room.
    fn arrive(&self, place: &Arc<Place>, frames: &[Frame<'_>], burst: &mut Vec<(u32, usize)>) {
        self.passed.fetch_add(frames.len() as u64, Relaxed);
        for (index, frame) in frames.iter().enumerate() {
            if self.vacant.load(Relaxed) == 0 || self.arrivals.load(Relaxed) == 0 {
                return;
            }
            // Probes of groups are nobody's packets.
            if frame.octets().read::<6>(6).and_then(group::probe::nic_of).is_some() {
                continue;
            }
            self.arrivals.fetch_sub(1, Relaxed);
            self.looked.fetch_add(1, Relaxed);
            let head = Head::copy(frame);
            if head.fits(&self.filter) {
                burst.extend(self.take_up(place, head).map(|number| (number, index)));
            } else {
                self.filtered.fetch_add(1, Relaxed);
            }
        }
    }

    fn take_up(&self, place: &Arc<Place>, head: Head) -> Option<u32> {
        let mut slots = self.lock();
        // Several threads may deliver to the traced NIC; another one may have been faster.
        let vacant = self.vacant.load(Relaxed).checked_sub(1)?;
        self.vacant.store(vacant, Relaxed);
        slots.taken_up += 1;
        let number = slots.taken_up;
        let followed = TracedPacket {
            number,
            at: self.age(),
            identity: head.identity(),
            mark: head.fingerprint().unwrap_or(0),
            sights: vec![Sight { place: place.clone(), after: Duration::ZERO, head, lost: false }],
            answer: None,
            before: slots.before.clone(),
        };
        slots.list.push(followed);
        self.publish(&slots);
        Some(number)
    }

    /// Looks for the followed packets.
    fn pass(&self, place: &Arc<Place>, frames: &[Frame<'_>], burst: &mut Vec<(u32, usize)>) {
        if self.looks.fetch_add(frames.len() as u64, Relaxed) >= LOOKS {
            self.open.store(false, Relaxed);
            return;
        }
        for (index, frame) in frames.iter().enumerate() {
            if self.seeks(place, frame) {
                burst.extend(self.recognise(place, frame).map(|number| (number, index)));
            }
        }
    }

    /// Returns true if a frame may be a followed packet, or a router's answer to one.
    fn seeks(&self, place: &Place, frame: &Frame<'_>) -> bool {
        let read = |at: usize| frame.octets().read::<SHORT>(at);
        let Some(start) = read(0) else { return false };
        let tags = octets_of_tags(&start);
        let head = if tags == 0 { Some(start) } else { read(tags) };
        let Some(head) = head else { return false };
        if is_ipv6(&head) {
            return self.seeks6(place, frame, tags);
        }
        self.is_marked(fingerprint(&head)) || self.may_answer(place, &head)
    }

    /// Returns true if an IPv6 frame with this many octets of tags may belong to the followed packet.
    fn seeks6(&self, place: &Place, frame: &Frame<'_>, tags: usize) -> bool {
        let Some(head) = frame.octets().read::<SHORT6>(tags) else { return false };
        let leaves = matches!(place.spot, Spot::Tx { .. });
        self.is_marked(fingerprint6(&head)) || leaves && self.is_sender(answered(&head))
    }

    /// Returns true if a frame may be a router's answer to a followed packet.
    fn may_answer(&self, place: &Place, head: &[u8; SHORT]) -> bool {
        if !matches!(place.spot, Spot::Tx { .. }) {
            return false;
        }
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        match u16::from_be_bytes([head[12], head[13]]) {
            ethernet::IPV4 => head[23] == ipv4::ICMP && self.is_sender(word(30)),
            ethernet::ARP => self.is_sender(word(38)),
            _ => false,
        }
    }

    fn recognise(&self, place: &Arc<Place>, frame: &Frame<'_>) -> Option<u32> {
        let (head, now) = (Head::copy(frame), self.age());
        let identity = head.identity();
        let mut slots = self.lock();
        let going = slots.list.iter_mut().filter(|followed| !followed.is_over());
        let mut number = None;
        for followed in going {
            let after = now.saturating_sub(followed.at);
            let sight = || Sight { place: place.clone(), after, head: head.clone(), lost: false };
            if followed.goes_on(place, &head, &identity) {
                followed.sights.push(sight());
            } else if followed.is_answered(place, &head) {
                followed.answer = Some(sight());
            } else {
                continue;
            }
            number = Some(followed.number);
            break;
        }
        self.publish(&slots);
        number
    }

    /// Records that the sink at a place did not accept a packet.
    fn lose(&self, place: &Arc<Place>, number: u32) {
        let mut slots = self.lock();
        let sights = slots.list.iter_mut().filter(|followed| followed.number == number);
        for sight in sights.flat_map(|followed| followed.sights.iter_mut()) {
            sight.lost |= *sight.place == **place;
        }
        self.publish(&slots);
    }
}

impl TracedPacket {
    /// Returns true if this frame is the packet at a place where it was not seen before.
    fn goes_on(&self, place: &Place, head: &Head, identity: &Identity) -> bool {
        let Identity::Ip(ip) = &self.identity else { return false };
        let Identity::Ip(other) = identity else { return false };
        let to_router = !matches!(place.spot, Spot::Tx { .. });
        // A switch floods frames for an unknown station; the routers that it is not addressed to ignore it.
        let overheard = to_router && !head.destination().is_group() && head.destination() != place.mac;
        ip.is_same(other)
            && !overheard
            && self.sights.len() < HOPS
            && self.sights.iter().all(|sight| *sight.place != *place)
    }

    /// Returns true if this frame is the answer of a router that has the packet.
    fn is_answered(&self, place: &Place, head: &Head) -> bool {
        let here = self.sights.iter().any(|sight| sight.place.router == place.router);
        here && matches!(place.spot, Spot::Tx { .. }) && head.answers(&self.identity)
    }
}

fn sender_of(identity: &Identity) -> u32 {
    match identity {
        Identity::Ip(ip) => ip.sender(),
        Identity::Arp(arp) => arp.sender_ip,
        Identity::Other => 0,
    }
}

/// Observer of one place for a trace.
pub(super) struct TraceObserver {
    place: Arc<Place>,
    /// True if packets are selected here.
    arrivals: bool,
    follow: Arc<TraceState>,
    /// Followed packets of a burst, with their indices in it; empty between bursts.
    burst: Vec<(u32, usize)>,
    /// Followed packets that are being delivered. Several threads may do that at the same time, each with a burst of its own.
    expected: Vec<Expected>,
}

/// A followed packet that is being delivered.
struct Expected {
    number: u32,
    /// The [`end`] of its burst.
    burst: usize,
    /// Its place in the burst, counted from the end; the last one has 1.
    from_end: usize,
}

/// Returns the address at which frames end. It distinguishes a burst, and the end of it, from the bursts of other threads.
fn end(frames: &[Frame<'_>]) -> usize {
    frames.as_ptr_range().end.addr()
}

impl TraceObserver {
    pub(super) fn new(place: Arc<Place>, arrivals: bool, follow: Arc<TraceState>) -> Self {
        let (burst, expected) = (Vec::with_capacity(SLOTS), Vec::with_capacity(SLOTS));
        Self { place, arrivals, follow, burst, expected }
    }
}

impl Observer for TraceObserver {
    /// Called after the delivery of a burst, or of its beginning.
    fn observe(&mut self, frames: &[Frame<'_>]) {
        self.expected.retain(|expected| expected.burst != end(frames));
    }

    /// Called before delivery: a followed packet must be known before it can be seen elsewhere, and its time
    /// is that of the packet, not of the copy.
    fn expect(&mut self, frames: &[Frame<'_>]) {
        if self.arrivals {
            self.follow.arrive(&self.place, frames, &mut self.burst);
        } else if self.follow.open.load(Relaxed) {
            self.follow.pass(&self.place, frames, &mut self.burst);
        }
        let expected =
            |(number, index)| Expected { number, burst: end(frames), from_end: frames.len() - index };
        self.expected.extend(self.burst.drain(..).map(expected));
    }

    fn lose(&mut self, frames: &[Frame<'_>]) {
        for expected in self.expected.extract_if(.., |expected| expected.burst == end(frames)) {
            if expected.from_end <= frames.len() {
                self.follow.lose(&self.place, expected.number);
            }
        }
    }
}
