//! Offers load to several routers of a room at once, from one thread.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::Step;
use crate::due::{BURST, NAP, send_each};
use crate::rig::router_run::RouterRun;

/// Largest burst, in frames, towards a queue whose length is under test.
const SHORT_BURST: u64 = 16;

/// Manner of offering load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendMode {
    /// True if the sending thread sleeps between bursts, because a router's thread shares its CPU.
    pub(crate) sleeps: bool,
    /// True if bursts are kept short.
    pub(crate) short: bool,
}

impl SendMode {
    /// The sending thread has its CPU for itself.
    pub(crate) const PLAIN: Self = Self { sleeps: false, short: false };
    /// The sending thread has its CPU for itself, and sends short bursts with other work between them.
    pub(crate) const SHORT: Self = Self { sleeps: false, short: true };

    const fn burst(self) -> u64 {
        if self.short { SHORT_BURST } else { BURST }
    }
}

/// Offers each router this many frames a second for `lead`, and then for `length`, which is counted. An infinite rate means
/// as much as the socket accepts.
pub(crate) fn step(
    room: &RouterRun,
    rates: &[f64],
    times: (Duration, Duration),
    manner: SendMode,
) -> Result<Step> {
    step_with(room, rates, times, manner, &mut || ())
}

/// As [`step`], but calls `between` between the bursts.
pub(crate) fn step_with(
    room: &RouterRun,
    rates: &[f64],
    times: (Duration, Duration),
    manner: SendMode,
    between: &mut dyn FnMut(),
) -> Result<Step> {
    super::step(times, |length| offer(room, rates, length, manner, between), || room.forwarded())
}

/// Offers load; returns the frames offered, whether or not the interfaces accepted them.
fn offer(
    room: &RouterRun,
    rates: &[f64],
    length: Duration,
    manner: SendMode,
    between: &mut dyn FnMut(),
) -> Vec<u64> {
    let between = RefCell::new(between);
    let send = |router, frames, turn| {
        (between.borrow_mut())();
        room.send(router, frames, turn)
    };
    let rest = || {
        (between.borrow_mut())();
        if manner.sleeps {
            sleep(NAP);
        }
    };
    let sent = send_each(rates, manner.burst(), |elapsed| elapsed >= length, send, rest);
    sent.into_iter().map(|(offered, _)| offered).collect()
}
