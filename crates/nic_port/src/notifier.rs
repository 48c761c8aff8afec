//! Interrupts of a queue to its driver.

use std::sync::Arc;

use super::remote_driver::Call;
use crate::irq::{DelayedInterrupts, Intx, Line, Messages, Queue, deferred};

/// A running queue, and its way to interrupt.
pub struct Running<Q> {
    /// The queue.
    pub queue: Q,
    /// Interrupts the driver.
    pub notifier: Notifier,
}

/// Way in which a queue interrupts its driver.
pub enum Notifier {
    /// By a message of its own, if the driver set one.
    Message(Option<Arc<dyn Line>>),
    /// By a message that moderation may delay.
    Moderated(Arc<DelayedInterrupts<Messages>>, Queue),
    /// By a call descriptor of the driver's, if it gave one.
    Call(Option<Call>),
    /// By causes that the driver reads from a register, and the device's pin.
    Pin(Arc<DelayedInterrupts<Intx>>),
}

impl Notifier {
    /// Interrupts for these causes, if there are any; `frames` frames have moved.
    #[inline(always)]
    pub(super) fn notify(&self, causes: u32, frames: usize) {
        if causes != 0 {
            self.interrupt(causes, frames);
        }
    }

    fn interrupt(&self, causes: u32, frames: usize) {
        match self {
            Self::Message(Some(line)) => deferred::signal(line),
            Self::Message(None) | Self::Call(None) => {}
            Self::Call(Some(call)) => call.ring(),
            Self::Moderated(pair, queue) => pair.with(|messages, now| messages.request(*queue, frames, now)),
            Self::Pin(intx) => deferred::signal_pin(intx, causes, frames as u32),
        }
    }

    /// Sets the message by which the queue interrupts from now on, if any.
    pub(super) fn set_line(&mut self, line: Option<Arc<dyn Line>>) {
        match self {
            Self::Message(place) => *place = line,
            Self::Moderated(pair, queue) => pair.with(|messages, _| messages.set_line(*queue, line)),
            Self::Pin(_) | Self::Call(_) => {}
        }
    }
}
