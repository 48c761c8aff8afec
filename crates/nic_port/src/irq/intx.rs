//! The interrupt of an e1000: its causes, mask and timers, and the pin that they drive.

use std::sync::Arc;

use nic::e1000::Interrupts;

use super::{Counts, DelayableInterrupts, Pin};

/// Interrupt state, shared by the registers and the threads that move frames.
pub struct Intx {
    /// Causes, mask and timers.
    pub interrupts: Interrupts,
    pin: Arc<dyn Pin>,
    up: bool,
}

impl Intx {
    /// Creates the state with its pin low.
    pub fn new(interrupts: Interrupts, pin: Arc<dyn Pin>) -> Self {
        Self { interrupts, pin, up: false }
    }
}

impl DelayableInterrupts for Intx {
    fn settle(&mut self, now: u64) -> Option<u64> {
        let line = self.interrupts.line(now);
        if line.asserted != self.up {
            self.up = line.asserted;
            self.pin.set(line.asserted);
        }
        line.next
    }

    fn set_timer_served(&mut self, kept: bool, now: u64) {
        self.interrupts.set_timer_served(kept, now);
    }

    fn counts(&self) -> Counts {
        let nic::e1000::Counts { raised, suppressed, moderated } = self.interrupts.counts();
        Counts { raised, suppressed, moderated }
    }
}
