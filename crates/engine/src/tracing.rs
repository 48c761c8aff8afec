//! `trace`: packets that arrive at one NIC, followed through routers and switches to where they leave or end.
//!
//! Each NIC has a tap point in both directions ([`TapBoard`]). While a trace runs, those of all routers look for the
//! packets that it follows (`follow`); what they see is put together here, a few times a second, by whoever owns the
//! instance.

mod board;
mod fate;
mod follow;
mod moved;
mod sighting;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use api::{Filter, TraceEnd};
use port::Clock;

use crate::Instance;
pub(crate) use board::NicTaps;
pub use board::{Place, Spot, TapBoard};
use follow::{Follow, Followed, LOOKS, Lookout};
use moved::Drops;

/// Most packets that one trace follows.
const MOST: u32 = 10_000;
/// Longest time that one trace runs.
const LONGEST: Duration = Duration::from_secs(600);
/// After this time a packet whose router has counted a drop is taken to be it.
const DROPPED: Duration = Duration::from_millis(250);
/// After this time a packet is not waited for any longer: a router gives a neighbour three seconds to answer.
const MISSED: Duration = Duration::from_secs(4);
/// After this time a packet in a switch has gone where no router is.
const SWITCHED: Duration = Duration::from_millis(20);
/// Rest after packets for which [`LOOKS`] frames were looked at, which keeps a core busy for a moment.
const REST: Duration = Duration::from_secs(1);

/// What to trace.
#[derive(Clone, Debug)]
pub struct Order {
    /// Name of the router.
    pub router: String,
    /// Name of its NIC.
    pub nic: String,
    /// End after so many packets.
    pub count: u32,
    /// End after this time.
    pub timeout: Duration,
    /// Which packets.
    pub filter: Filter,
}

/// What a round of a trace brought.
#[derive(Debug, Default)]
pub struct Round {
    /// Packets whose fate is known now.
    pub packets: Vec<api::Packet>,
    /// How the trace ended, if it has.
    pub end: Option<TraceEnd>,
}

/// A running trace. Dropping it ends it.
pub struct Trace {
    order: Order,
    board: TapBoard,
    follow: Arc<Follow>,
    told: u32,
    /// No further packets are taken up before.
    rest: Duration,
}

impl Trace {
    /// Begins to follow packets. One trace at a time may run in an instance.
    ///
    /// # Errors
    /// One line: nothing arrives at that NIC, it does not run, or a bound is overstepped.
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
        let follow = Arc::new(Follow::new(order.filter.clone(), clock));
        let trace = Self { follow, board: board.clone(), order, told: 0, rest: Duration::ZERO };
        if trace.arrivals().is_none() {
            let Order { router, nic, .. } = &trace.order;
            bail!("nothing arrives at {router}.{nic}: it does not run, or receives nothing");
        }
        Ok(trace)
    }

    /// The place at which packets arrive: before the queue, if there is one.
    fn arrivals(&self) -> Option<Spot> {
        let points = self.board.points();
        let here = |place: &Place| place.router == self.order.router && place.nic == self.order.nic;
        let is_there = |spot: &Spot| points.iter().any(|(place, _)| here(place) && place.spot == *spot);
        [Spot::Queue, Spot::Rx].into_iter().find(is_there)
    }

    /// To be called about ten times a second, until it brings the end.
    pub fn look_after(&mut self, instance: &Instance) -> Round {
        self.round(|| Arc::new(Drops::read(instance)))
    }

    fn round(&mut self, read: impl Fn() -> Arc<Drops>) -> Round {
        let mut drops = read();
        self.place_lookouts();
        let now = self.follow.age();
        let over = now >= self.order.timeout;
        let given_up = self.follow.has_given_up();
        let looks = self.follow.looks();
        let mut done = self.follow.harvest(|followed| {
            over || given_up || is_done(followed, now.saturating_sub(followed.at), &drops)
        });
        done.sort_by_key(|followed| followed.number);
        if !done.is_empty() {
            // What was counted for one that was answered a moment ago.
            drops = read();
        }
        if looks >= LOOKS / 2 && !done.is_empty() {
            self.rest = now + REST;
        }
        self.told += done.len() as u32;
        let left = self.order.count.saturating_sub(self.follow.taken_up());
        self.follow.let_in(if over || now < self.rest { 0 } else { left }, drops.clone());
        let packets = done.into_iter().map(|followed| fate::tell(followed, &drops)).collect();
        let end = (over || self.told >= self.order.count).then(|| self.end(now));
        Round { packets, end }
    }

    /// Looks at every place, also at those that have come since the last round.
    fn place_lookouts(&self) {
        let arrivals = self.arrivals();
        for (place, point) in self.board.points() {
            if point.is_enabled() {
                continue;
            }
            let here = place.router == self.order.router && place.nic == self.order.nic;
            let lookout =
                Lookout::new(place.clone(), here && Some(place.spot) == arrivals, self.follow.clone());
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

/// Whether the fate of a packet that came `age` ago is known, or will not be.
fn is_done(followed: &Followed, age: Duration, now: &Drops) -> bool {
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
