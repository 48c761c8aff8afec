//! Load on several routers of a room at once, from one thread.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Step;
use crate::due::{BURST, Due};
use crate::rig::room::Room;

/// Most frames sent at once before a queue whose length is what is measured.
const SHORT_BURST: u64 = 16;
/// Shortest sleep between bursts.
const NAP: Duration = Duration::from_micros(60);

/// How load is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Whether the thread that offers it sleeps between bursts: a router's thread runs on its CPU too.
    pub(crate) sleeps: bool,
    /// Whether it keeps to short bursts.
    pub(crate) short: bool,
}

impl Manner {
    /// The load has its CPU for itself.
    pub(crate) const PLAIN: Self = Self { sleeps: false, short: false };

    const fn burst(self) -> u64 {
        if self.short { SHORT_BURST } else { BURST }
    }
}

/// Offers each router so many frames a second for `lead`, then for `length` again, in which it is counted. A rate that is not
/// finite is all that the socket takes.
pub(crate) fn step(room: &Room, rates: &[f64], times: (Duration, Duration), manner: Manner) -> Result<Step> {
    super::step(times, |length| offer(room, rates, length, manner), || room.forwarded())
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
            let send = |frames| room.send(router, frames, turn);
            let (offered, _) = lane.send((elapsed, rate), manner.burst(), send);
            if offered > 0 {
                turn += 1;
                idle = false;
            }
        }
        if idle && manner.sleeps {
            std::thread::sleep(NAP);
        }
    }
}
