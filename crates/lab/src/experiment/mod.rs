//! Framework of all experiments: slices of a fifth of a second, the cache-line distance of the CPUs measured
//! before and after each slice, samples classified as near or far, and two variants measured alternately.

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
pub use further::ExtraFigures;
pub(crate) use options::named_kind;
pub use options::{Attachment, Direction, Options, TrafficPattern, TxInterruptPolicy};
pub use outcome::{Comparison, Measured, Outcome, Placement, report};
pub use runner::{compare, in_turn, run};
pub use varied::{OptionOverrides, rate};

/// Result of one slice.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The figure, in the experiment's unit.
    pub value: f64,
    /// Packets that arrived, if the experiment moves packets.
    pub packets: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// VM exits of the guest's vCPUs, if there is a guest.
    pub exits: Option<u64>,
    /// Additional figures, such as `cycles_per_packet` or `empty_polls`; the report gives their medians.
    pub more: ExtraFigures,
    /// Increase of the counters during the slice.
    pub ledger: Snapshot,
}

impl Sample {
    /// Creates a sample of `packets` in `seconds`, as millions of packets a second.
    pub fn mpps(packets: u64, seconds: f64) -> Self {
        Self { value: packets as f64 / seconds * 1e-6, packets, ..Self::default() }
    }
}
