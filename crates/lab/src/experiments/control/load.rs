//! Load on several routers at once, from one thread.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::experiments::room::Room;

/// Most frames sent at once.
const BURST: u64 = 64;
/// The same before a queue whose length is what is measured.
const SHORT_BURST: u64 = 16;
/// Frames of so much time go together, up to a burst, as a NIC's interrupts gather them. One at a time each would wake a thread
/// on another CPU, which takes the load as long as a burst where the host is itself virtual.
const GATHERED: Duration = Duration::from_micros(250);
/// Who is later than this with a frame leaves it out: what comes in a heap is no rate.
const LATE: Duration = Duration::from_millis(2);
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

/// What one router is to be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    sent: u64,
    left_out: u64,
}

impl Due {
    /// Frames to send now: none until those of [`GATHERED`] are due.
    fn now(&mut self, elapsed: Duration, rate: f64, burst: u64) -> u64 {
        if !rate.is_finite() {
            return burst;
        }
        let due = (elapsed.as_secs_f64() * rate) as u64;
        let most = ((LATE.as_secs_f64() * rate) as u64).max(2 * burst);
        let waiting = due.saturating_sub(self.sent + self.left_out);
        self.left_out += waiting.saturating_sub(most);
        let gathered = GATHERED.as_secs_f64() * burst as f64 / BURST as f64;
        let least = ((gathered * rate) as u64).clamp(1, burst);
        if waiting < least { 0 } else { waiting.min(burst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_sent_and_what_is_late_is_left_out() {
        let second = Duration::from_secs(1);
        let (micros, burst) = (Duration::from_micros, SHORT_BURST);
        let mut lane = Due::default();
        assert_eq!(lane.now(Duration::ZERO, 1e6, burst), 0);
        assert_eq!(lane.now(micros(15), 1e6, burst), 0);
        assert_eq!(lane.now(micros(17), 1e6, burst), burst);
        assert_eq!(Due::default().now(micros(71), 1e5, burst), 7);
        assert_eq!(Due::default().now(micros(1001), 1e3, burst), 1);
        lane.sent += burst;
        assert_eq!(lane.now(micros(17), 1e6, burst), 0);
        // A second without the CPU: of a million frames only those of the last two milliseconds are sent.
        let mut all = 0;
        while lane.now(second, 1e6, burst) > 0 {
            lane.sent += burst;
            all += burst;
        }
        assert!((1_980..=2_000).contains(&all), "{all}");
        assert_eq!(Due::default().now(second, f64::INFINITY, burst), burst);
    }

    #[test]
    fn rates_are_those_of_each_router() {
        let step = Step { seconds: 2.0, offered: vec![4000, 8000], forwarded: vec![2000, 0] };
        assert_eq!((step.offered_kpps(0), step.offered_kpps(1)), (2.0, 4.0));
        assert_eq!((step.forwarded_kpps(0), step.forwarded_kpps(1), step.forwarded_kpps(2)), (1.0, 0.0, 0.0));
    }
}
