//! Properties of a device that do not follow from its descriptors, sent to the process that serves it.

use std::io;

use port::Offloads;
use serde::{Deserialize, Serialize};

/// Selection of the queue of a frame from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Our hash of the flow: the queue is the one that `port::steer` would choose.
    Ours,
    /// The kernel's own hash.
    #[default]
    Kernel,
    /// The kernel's own hash, because the kernel has refused ours with this error.
    Refused(String),
}

impl Spread {
    pub(super) fn refused(why: &io::Error) -> Self {
        Self::Refused(why.to_string())
    }
}

/// Properties of a device that do not follow from its descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// [`Offloads::bits`] of the offloads that it accepts.
    takes: u8,
    /// Selection of the queue of a frame from the kernel.
    spread: Spread,
    /// True if urgent frames have the last queue to themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    urgent: bool,
    /// True if that queue has copies of urgent frames, which the others have as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    copies: bool,
}

impl Traits {
    /// Creates the properties of a device that accepts these offloads, and spreads frames like this.
    pub const fn new(takes: Offloads, spread: Spread) -> Self {
        Self { takes: takes.bits(), spread, urgent: false, copies: false }
    }

    /// States that urgent frames have the last queue to themselves.
    pub(super) fn with_urgent_queue(self) -> Self {
        Self { urgent: true, ..self }
    }

    /// States that the last queue has copies of urgent frames.
    pub(crate) fn with_urgent_copies(self) -> Self {
        Self { urgent: true, copies: true, ..self }
    }

    /// States that they have not.
    pub(super) fn without_urgent_queue(self) -> Self {
        Self { urgent: false, copies: false, ..self }
    }

    /// Returns true if the last queue has copies of urgent frames.
    pub(super) const fn has_urgent_copies(&self) -> bool {
        self.copies
    }

    /// Returns true if urgent frames, those of routing protocols and of what they rest on, have the last queue to themselves.
    pub const fn has_urgent_queue(&self) -> bool {
        self.urgent
    }

    /// Returns the offloads that frames to it may carry.
    pub const fn takes(&self) -> Offloads {
        Offloads::from_bits(self.takes)
    }

    /// Returns how it spreads frames over its queues.
    pub const fn spread(&self) -> &Spread {
        &self.spread
    }

    pub(super) fn limit(&mut self, takes: Offloads) {
        self.takes = (self.takes() & takes).consistent().bits();
    }
}
