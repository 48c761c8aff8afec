//! A NIC's interrupts before they leave it: moderated, kept until their time, held back by a thread that has work.
//!
//! What an interrupt then does to a guest is its machine's business, which is behind [`Line`] and [`Pin`].

pub mod held;
mod intx;
mod messages;
mod timed;

use vmm_sys_util::eventfd::EventFd;

pub use intx::Intx;
pub use messages::{Messages, Queue};
pub use timed::{Counts, Timed, Timekeeping, Waiting};

/// An interrupt line that any thread may pull: one vector's message.
pub trait Line: Send + Sync {
    /// Interrupts the guest, or remembers to do so while the vector is masked.
    fn signal(&self);

    /// What somebody else pulls it by, without a thread of ours; none where it has to be pulled here.
    fn event(&self) -> Option<&EventFd>;
}

/// A device's interrupt pin. Its holder decides what its level is; setting the level that it has already does nothing but cost
/// time.
pub trait Pin: Send + Sync {
    /// Raises or lowers it.
    fn set(&self, up: bool);
}

#[cfg(test)]
pub(crate) mod counted;
