//! How a queue interrupts its driver.

use std::sync::Arc;

use super::foreign::Call;
use crate::irq::{Intx, Line, Messages, Queue, Timed, held};

/// A queue that runs, and how it interrupts.
pub struct Running<Q> {
    /// The queue.
    pub queue: Q,
    /// What tells its driver.
    pub notifier: Notifier,
}

/// How a queue interrupts.
pub enum Notifier {
    /// By a message of its own, if the driver gave it one.
    Message(Option<Arc<dyn Line>>),
    /// By a message that may have to wait.
    Moderated(Arc<Timed<Messages>>, Queue),
    /// By an event descriptor of the driver's, if it gave one.
    Call(Option<Call>),
    /// By causes that the driver reads from a register, and the device's pin.
    Pin(Arc<Timed<Intx>>),
}

impl Notifier {
    /// So many frames have moved: interrupts for these causes, if there are any.
    #[inline(always)]
    pub(super) fn notify(&self, causes: u32, frames: usize) {
        if causes != 0 {
            self.interrupt(causes, frames);
        }
    }

    fn interrupt(&self, causes: u32, frames: usize) {
        match self {
            Self::Message(Some(line)) => held::signal(line),
            Self::Message(None) | Self::Call(None) => {}
            Self::Call(Some(call)) => call.ring(),
            Self::Moderated(pair, queue) => pair.with(|messages, now| messages.request(*queue, frames, now)),
            Self::Pin(intx) => held::signal_pin(intx, causes, frames as u32),
        }
    }

    /// From now on the queue interrupts by this message, if any.
    pub(super) fn set_line(&mut self, line: Option<Arc<dyn Line>>) {
        match self {
            Self::Message(place) => *place = line,
            Self::Moderated(pair, queue) => pair.with(|messages, _| messages.set_line(*queue, line)),
            Self::Pin(_) | Self::Call(_) => {}
        }
    }
}
