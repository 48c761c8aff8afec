//! Load on several routers at once, from one thread.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::due::{BURST, Due};
use crate::experiments::room::Room;

/// Most frames sent at once before a queue whose length is what is measured.
const SHORT_BURST: u64 = 16;
/// Shortest sleep between bursts.
const NAP: Duration = Duration::from_micros(60);

/// How load is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// Whether the thread that offers it sleeps between bursts: a router's thread runs on its CPU too.
    pub(super) sleeps: bool,
    /// Whether it keeps to short bursts.
    pub(super) short: bool,
}

impl Manner {
    /// The load has its CPU for itself.
    pub(super) const PLAIN: Self = Self { sleeps: false, short: false };

    const fn burst(self) -> u64 {
        if self.short { SHORT_BURST } else { BURST }
    }
}

/// What came of a step: for each router frames offered, and forwarded.
pub(super) struct Step {
    pub(super) seconds: f64,
    pub(super) offered: Vec<u64>,
    pub(super) forwarded: Vec<u64>,
}

impl Step {
    /// Goes on with what came right after it.
    pub(super) fn add(&mut self, later: &Self) {
        self.seconds += later.seconds;
        for (all, more) in [(&mut self.offered, &later.offered), (&mut self.forwarded, &later.forwarded)] {
            all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        }
    }

    /// Thousands of frames a second that a router was offered.
    pub(super) fn offered_kpps(&self, router: usize) -> f64 {
        kpps(&self.offered, router, self.seconds)
    }

    /// The part of this rate, frames a second, that a router was not offered: the thread that offers it fell behind.
    pub(super) fn short(&self, router: usize, rate: f64) -> f64 {
        1.0 - self.offered_kpps(router) * 1e3 / rate
    }

    /// Thousands of frames a second that it forwarded.
    pub(super) fn forwarded_kpps(&self, router: usize) -> f64 {
        kpps(&self.forwarded, router, self.seconds)
    }
}

fn kpps(frames: &[u64], router: usize, seconds: f64) -> f64 {
    frames.get(router).map_or(0.0, |&frames| frames as f64 / seconds * 1e-3)
}

/// Offers each router so many frames a second for `lead`, then for `length` again, in which it is counted. A rate that is not
/// finite is all that the socket takes.
pub(super) fn step(
    room: &Room,
    rates: &[f64],
    (lead, length): (Duration, Duration),
    manner: Manner,
) -> Result<Step> {
    offer(room, rates, lead, manner);
    let (before, start) = (forwarded(room)?, Instant::now());
    let offered = offer(room, rates, length, manner);
    let (seconds, after) = (start.elapsed().as_secs_f64(), forwarded(room)?);
    let forwarded = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    Ok(Step { seconds, offered, forwarded })
}

/// What each router has forwarded so far.
fn forwarded(room: &Room) -> Result<Vec<u64>> {
    (0..room.routers()).map(|router| room.forwarded(router)).collect()
}

/// Offers load; returns the frames that were offered, whether the interfaces took them or not.
fn offer(room: &Room, rates: &[f64], length: Duration, manner: Manner) -> Vec<u64> {
    let (start, mut lanes) = (Instant::now(), vec![Due::default(); rates.len()]);
    let mut turn = 0;
    loop {
        let elapsed = start.elapsed();
        if elapsed >= length {
            return lanes.iter().map(|lane| lane.sent).collect();
        }
        let mut idle = true;
        for (router, (lane, &rate)) in lanes.iter_mut().zip(rates).enumerate() {
            let burst = lane.now(elapsed, rate, manner.burst());
            if burst > 0 {
                send(room, router, (burst as usize, turn), rate.is_finite());
                lane.sent += burst;
                turn += 1;
                idle = false;
            }
        }
        if idle && manner.sleeps {
            std::thread::sleep(NAP);
        }
    }
}

/// Sends a burst. What a full queue refuses is lost there, as what comes by a wire is; the frames behind that are tried, too, one
/// by one, if each counts.
fn send(room: &Room, router: usize, (burst, turn): (usize, u64), each: bool) {
    let mut left = burst;
    while left > 0 {
        let taken = room.send(router, left, turn);
        left = if each { left.saturating_sub(taken + 1) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_each_router() {
        let step = Step { seconds: 2.0, offered: vec![4000, 8000], forwarded: vec![2000, 0] };
        assert_eq!((step.offered_kpps(0), step.offered_kpps(1)), (2.0, 4.0));
        assert_eq!((step.forwarded_kpps(0), step.forwarded_kpps(1), step.forwarded_kpps(2)), (1.0, 0.0, 0.0));
        let mut all = Step { seconds: 1.0, offered: vec![5000, 1], forwarded: vec![1000, 0] };
        all.add(&step);
        assert_eq!((all.offered_kpps(0), all.forwarded_kpps(0), all.offered[1]), (3.0, 1.0, 8001));
    }
}
