//! Load on several routers of a room at once, from one thread.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::Step;
use crate::due::{BURST, NAP, send_each};
use crate::rig::room::Room;

/// Most frames sent at once before a queue whose length is what is measured.
const SHORT_BURST: u64 = 16;

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
    let send = |router, frames, turn| room.send(router, frames, turn);
    let rest = || {
        if manner.sleeps {
            sleep(NAP);
        }
    };
    let sent = send_each(rates, manner.burst(), |elapsed| elapsed >= length, send, rest);
    sent.into_iter().map(|(offered, _)| offered).collect()
}
