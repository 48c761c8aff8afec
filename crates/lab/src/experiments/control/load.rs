//! Load on several routers at once, from one thread.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::experiments::room::Room;

/// Frames sent at once.
const BURST: u64 = 16;
/// Who is later than this with a frame leaves it out: what comes in a heap is no rate.
const LATE: Duration = Duration::from_millis(2);
/// Shortest sleep between bursts.
const NAP: Duration = Duration::from_micros(60);

/// Whether the thread that offers load lets others have its CPU meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It has the CPU for itself.
    Spins,
    /// A router's thread runs there too.
    Sleeps,
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
pub(super) fn forwarded(room: &Room) -> Result<Vec<u64>> {
    (0..room.routers()).map(|router| room.forwarded(router)).collect()
}

/// Offers load; returns the frames that the interfaces took.
pub(super) fn offer(room: &Room, rates: &[f64], length: Duration, manner: Manner) -> Vec<u64> {
    let (start, mut lanes) = (Instant::now(), vec![Due::default(); rates.len()]);
    let mut turn = 0;
    loop {
        let elapsed = start.elapsed();
        if elapsed >= length {
            return lanes.iter().map(|lane| lane.sent).collect();
        }
        let mut idle = true;
        for (router, (lane, &rate)) in lanes.iter_mut().zip(rates).enumerate() {
            let burst = lane.now(elapsed, rate);
            if burst > 0 {
                lane.sent += room.send(router, burst as usize, turn) as u64;
                turn += 1;
                idle = false;
            }
        }
        if idle && manner == Manner::Sleeps {
            std::thread::sleep(NAP);
        }
    }
}

/// What one router is to be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    sent: u64,
    left_out: u64,
}

impl Due {
    /// Frames to send now: a burst, or the rest of what is due where bursts are rare.
    fn now(&mut self, elapsed: Duration, rate: f64) -> u64 {
        if !rate.is_finite() {
            return BURST;
        }
        let due = (elapsed.as_secs_f64() * rate) as u64;
        let most = ((LATE.as_secs_f64() * rate) as u64).max(2 * BURST);
        let waiting = due.saturating_sub(self.sent + self.left_out);
        self.left_out += waiting.saturating_sub(most);
        waiting.min(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_sent_and_what_is_late_is_left_out() {
        let second = Duration::from_secs(1);
        let mut lane = Due::default();
        assert_eq!(lane.now(Duration::ZERO, 1e6), 0);
        assert_eq!(lane.now(Duration::from_micros(5), 1e6), 5);
        lane.sent += 5;
        assert_eq!(lane.now(Duration::from_micros(5), 1e6), 0);
        // A second without the CPU: of a million frames only those of the last two milliseconds are sent.
        let mut all = 0;
        while lane.now(second, 1e6) > 0 {
            lane.sent += BURST;
            all += BURST;
        }
        assert!((1_990..2_010 + BURST).contains(&all), "{all}");
        assert_eq!(Due::default().now(second, f64::INFINITY), BURST);
    }

    #[test]
    fn rates_are_those_of_each_router() {
        let step = Step { seconds: 2.0, offered: vec![4000, 8000], forwarded: vec![2000, 0] };
        assert_eq!((step.offered_kpps(0), step.offered_kpps(1)), (2.0, 4.0));
        assert_eq!((step.forwarded_kpps(0), step.forwarded_kpps(1), step.forwarded_kpps(2)), (1.0, 0.0, 0.0));
    }
}
