//! `trace`: follows packets that arrive at one NIC through routers and switches to where they leave or are
//! dropped.
//!
//! Each NIC has a tap point in both directions ([`TapBoard`]). While a trace runs, the tap points of all
//! routers look for the packets that it follows (`follow`); the owner of the instance combines their
//! observations here, a few times a second.

mod board;
mod drop_counters;
mod fate;
mod follow;
mod gateway;
mod sighting;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use api::{Filter, TraceEnd};
use config::way::WayQuestion;
use port::Clock;

use crate::Instance;
pub(crate) use board::NicTaps;
pub use board::{Place, Spot, TapBoard};
use drop_counters::Drops;
use follow::{LOOKS, Sight, TraceObserver, TraceState, TracedPacket};
use gateway::Finder;
#[cfg(test)]
use gateway::Found;
pub use gateway::add_way;
pub(crate) use gateway::way_in;
use sighting::Head;

/// Maximum number of packets of one trace.
const MOST: u32 = 10_000;
/// Maximum duration of one trace.
const LONGEST: Duration = Duration::from_secs(600);
/// Time after which a packet is considered dropped if its router has counted a drop.
const DROPPED: Duration = Duration::from_millis(250);
/// Time after which a packet is given up: a router waits three seconds for a neighbour's ARP reply.
const MISSED: Duration = Duration::from_secs(4);
/// Time after which a packet in a switch is considered forwarded to a port without a router.
const SWITCHED: Duration = Duration::from_millis(20);
/// Pause after packets for which [`LOOKS`] frames were examined, which keeps a core busy for a moment.
const REST: Duration = Duration::from_secs(1);

/// Formats the headers of a frame in short form, from its first octets and its length, as a trace reports them.
pub fn headers(start: &[u8], len: u32) -> String {
    Head::of(start, len).to_string()
}

/// Parameters of a trace.
#[derive(Clone, Debug)]
pub struct Order {
    /// Name of the router, or of a group: all of its members then.
    pub router: String,
    /// Name of its NIC.
    pub nic: String,
    /// Maximum number of packets.
    pub count: u32,
    /// Maximum duration.
    pub timeout: Duration,
    /// Packet filter.
    pub filter: Filter,
}

/// Result of one round of a trace.
#[derive(Debug, Default)]
pub struct Round {
    /// Packets whose fate is now known.
    pub packets: Vec<api::Packet>,
    /// What others are to be asked about some of them.
    pub asked: Vec<AskedWay>,
    /// The end of the trace, if it has ended.
    pub end: Option<TraceEnd>,
}

/// What another process is to be asked about a packet, because it has the routes of a router.
#[derive(Debug)]
pub struct AskedWay {
    /// Number of the packet.
    pub number: u32,
    /// The router.
    pub router: String,
    /// What decides about the way of the packet.
    pub question: WayQuestion,
}

/// A running trace. Dropping it ends it.
pub struct Trace {
    order: Order,
    board: TapBoard,
    follow: Arc<TraceState>,
    told: u32,
    /// No further packets are followed before this time.
    rest: Duration,
}

impl Trace {
    /// Starts a trace. Only one trace at a time may run in an instance.
    ///
    /// # Errors
    /// One line: no packets arrive at that NIC, its router does not run, or a parameter is out of range.
    pub fn start(board: &TapBoard, order: Order) -> Result<Self> {
        Self::by(Clock::default(), board, order)
    }

    fn by(clock: Clock, board: &TapBoard, order: Order) -> Result<Self> {
        ensure!((1..=MOST).contains(&order.count), "a trace follows 1 to {MOST} packets");
        let longest = LONGEST.as_millis();
        ensure!(
            !order.timeout.is_zero() && order.timeout <= LONGEST,
            "a trace runs for 1 to {longest} ms, not {}",
            order.timeout.as_millis()
        );
        ensure!(board.take(), "a trace is under way in this run already: wait until it ends, or end it");
        let follow = Arc::new(TraceState::new(order.filter.clone(), clock));
        let trace = Self { follow, board: board.clone(), order, told: 0, rest: Duration::ZERO };
        if trace.arrivals().is_none() {
            let Order { router, nic, .. } = &trace.order;
            bail!("nothing arrives at {router}.{nic}: it does not run, or receives nothing");
        }
        Ok(trace)
    }

    /// Returns the place at which packets arrive: before the ingress queue, if there is one.
    fn arrivals(&self) -> Option<Spot> {
        let points = self.board.points();
        let is_there =
            |spot: &Spot| points.iter().any(|(place, _)| self.is_here(place) && place.spot == *spot);
        [Spot::Queue, Spot::Rx].into_iter().find(is_there)
    }

    /// Returns true if a place is at the traced NIC.
    fn is_here(&self, place: &Place) -> bool {
        config::is_forwarding_for(&place.router, &self.order.router) && place.nic == self.order.nic
    }

    /// To be called about ten times a second, until it returns the end.
    pub fn look_after(&mut self, instance: &Instance) -> Round {
        let find = |arrived: &Head, left: &Sight| gateway::look_up(instance, arrived, left);
        self.round_with(|| Arc::new(Drops::read(instance)), &find)
    }

    #[cfg(test)]
    fn round(&mut self, read: impl Fn() -> Arc<Drops>) -> Round {
        self.round_with(read, &|_, _| Found::default())
    }

    fn round_with(&mut self, read: impl Fn() -> Arc<Drops>, find: Finder<'_>) -> Round {
        let mut drops = read();
        self.place_observers();
        let now = self.follow.age();
        let over = now >= self.order.timeout;
        let given_up = self.follow.has_given_up();
        let looks = self.follow.looks();
        let mut done = self.follow.harvest(|followed| {
            over || given_up || is_done(followed, now.saturating_sub(followed.at), &drops)
        });
        done.sort_by_key(|followed| followed.number);
        if !done.is_empty() {
            // Read again, to include the drop of a packet that was answered a moment ago.
            drops = read();
        }
        if looks >= LOOKS / 2 && !done.is_empty() {
            self.rest = now + REST;
        }
        self.told += done.len() as u32;
        let left = self.order.count.saturating_sub(self.follow.taken_up());
        self.follow.let_in(if over || now < self.rest { 0 } else { left }, drops.clone());
        let mut asked = Vec::new();
        let tell = |followed| {
            let (packet, question): (api::Packet, _) = fate::tell(followed, &drops, find);
            let number = packet.number;
            asked.extend(question.map(|(router, question)| AskedWay { number, router, question }));
            packet
        };
        let packets = done.into_iter().map(tell).collect();
        let end = (over || self.told >= self.order.count).then(|| self.end(now));
        Round { packets, asked, end }
    }

    /// Enables the observer at every tap point, including those added since the last round.
    fn place_observers(&self) {
        let arrivals = self.arrivals();
        for (place, point) in self.board.points() {
            if point.is_enabled() {
                continue;
            }
            let is_first = self.is_here(&place) && Some(place.spot) == arrivals;
            let lookout = TraceObserver::new(place.clone(), is_first, self.follow.clone());
            point.enable(Box::new(lookout));
        }
    }

    fn end(&self, now: Duration) -> TraceEnd {
        let seen = self.follow.seen();
        TraceEnd {
            traced: self.told,
            not_looked_at: seen.passed.saturating_sub(seen.looked),
            filtered: seen.filtered,
            ran_ns: now.as_nanos() as u64,
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.board.let_go();
    }
}

/// Returns true if the fate of a packet that arrived `age` ago is known, or will never be.
fn is_done(followed: &TracedPacket, age: Duration, now: &Drops) -> bool {
    let Some(last) = fate::last(followed) else { return true };
    if followed.is_over() || age >= MISSED {
        return true;
    }
    match last.place.spot {
        Spot::Tx { .. } => age.saturating_sub(last.after) >= SWITCHED,
        Spot::Queue | Spot::Rx => age >= DROPPED && !fate::drops(followed, now).is_empty(),
    }
}

#[cfg(test)]
mod tests;
