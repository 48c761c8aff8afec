//! The frame that every experiment fits into: slices of a fifth of a second, the distance of the CPUs before and
//! after each, near and far told apart, two variants in turn.

mod described;
mod further;
mod options;
mod outcome;
mod runner;
#[cfg(test)]
mod tests;
mod varied;

use crate::ledger_snapshot::Snapshot;
pub use described::{Experiment, Rig};
pub use further::Further;
pub(crate) use options::named_kind;
pub use options::{Attachment, Conversation, Direction, Options, SentInterrupts};
pub use outcome::{Comparison, Measured, Outcome, Placement, tell};
pub use runner::{compare, in_turn, run};
pub use varied::{Varied, rate};

/// What one slice gave.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The figure, in the experiment's unit.
    pub value: f64,
    /// Packets that came through, if the experiment moves packets.
    pub packets: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Times that a vCPU left its guest, where there is one.
    pub exits: Option<u64>,
    /// Further figures, such as `cycles_per_packet` or `empty_polls`; the report gives their medians.
    pub more: Further,
    /// What the counters grew by.
    pub ledger: Snapshot,
}

impl Sample {
    /// So many packets in so many seconds, in millions a second.
    pub fn mpps(packets: u64, seconds: f64) -> Self {
        Self { value: packets as f64 / seconds * 1e-6, packets, ..Self::default() }
    }
}
