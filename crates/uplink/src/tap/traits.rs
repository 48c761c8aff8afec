//! What is known of a device beside its descriptors, and told to whoever serves it.

use std::io;

use port::Offloads;
use serde::{Deserialize, Serialize};

/// What chooses the queue of a frame that comes from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Our hash of the flow: the queue is the one that `port::steer` would choose.
    Ours,
    /// The kernel, by a hash of its own.
    #[default]
    Kernel,
    /// The kernel, because it refused our hash: with this answer.
    Refused(String),
}

impl Spread {
    pub(super) fn refused(why: &io::Error) -> Self {
        Self::Refused(why.to_string())
    }
}

/// What is known of a device beside its descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// [`Offloads::bits`] of what it takes.
    takes: u8,
    /// How it spreads frames over its queues.
    spread: Spread,
}

impl Traits {
    /// A device that takes this, and spreads frames so.
    pub const fn new(takes: Offloads, spread: Spread) -> Self {
        Self { takes: takes.bits(), spread }
    }

    /// What frames that go to it may leave to be done.
    pub const fn takes(&self) -> Offloads {
        Offloads::from_bits(self.takes)
    }

    /// How it spreads frames over its queues.
    pub const fn spread(&self) -> &Spread {
        &self.spread
    }

    pub(super) fn limit(&mut self, takes: Offloads) {
        self.takes = (self.takes() & takes).consistent().bits();
    }
}
