//! A NIC's interrupts before they leave it: moderated, delayed until they are due, or held back by a thread that has
//! work.
//!
//! The effect of an interrupt on a guest is implemented by its machine, behind [`Line`] and [`Pin`].

pub mod deferred;
mod intx;
mod messages;
mod timed;

use vmm_sys_util::eventfd::EventFd;

pub use intx::Intx;
pub use messages::{Messages, Queue};
pub use timed::{Counts, DelayableInterrupts, DelayedInterrupts, InterruptTimer};

/// An interrupt line that any thread may signal: one vector's message.
pub trait Line: Send + Sync {
    /// Interrupts the guest, or records the interrupt while the vector is masked.
    fn signal(&self);

    /// Returns an event descriptor by which another process signals the line without a thread of ours; none if only
    /// [`Line::signal`] works.
    fn event(&self) -> Option<&EventFd>;
}

/// A device's interrupt pin. Its owner decides its level; setting the level that it already has has no effect but costs
/// time.
pub trait Pin: Send + Sync {
    /// Raises or lowers the pin.
    fn set(&self, up: bool);
}

#[cfg(test)]
pub(crate) mod counted;
