//! Traces with a manually advanced clock.

use std::ops::{Deref, DerefMut};

use port::ClockHandle;

use super::*;

/// A trace with a manually advanced clock.
pub(super) struct Moved {
    trace: Trace,
    hand: ClockHandle,
}

impl Moved {
    /// Advances the clock.
    pub(super) fn wait(&self, time: Duration) {
        self.hand.advance(time);
    }
}

impl Deref for Moved {
    type Target = Trace;

    fn deref(&self) -> &Trace {
        &self.trace
    }
}

impl DerefMut for Moved {
    fn deref_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }
}

/// Begins a trace that selects packets at once.
pub(super) fn begin(board: &TapBoard, order: Order) -> Moved {
    let (clock, hand) = Clock::by_hand();
    let mut trace = Trace::by(clock, board, order).expect("it begins");
    let round = trace.round(Arc::default);
    assert!(round.packets.is_empty() && round.end.is_none());
    Moved { trace, hand }
}
