//! The frame that every experiment fits into: slices of a fifth of a second, the distance of the CPUs before and
//! after each, near and far told apart, two variants in turn.

mod described;
mod further;
mod options;
mod outcome;
mod runner;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Result;

use crate::ledger_snapshot::Snapshot;
pub use described::{Described, Rig};
pub use further::Further;
pub use options::{Attachment, Conversation, Direction, Options, SentInterrupts};
pub use outcome::{Comparison, Measured, Outcome, Placement, tell};
pub use runner::{compare, in_turn, run};

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

/// Something that can be measured in slices.
pub trait Experiment {
    /// Its name in the list: `forward`.
    fn id(&self) -> &'static str;

    /// What was varied, without spaces: `kvm/virtio-net/64`.
    fn case(&self) -> String;

    /// Unit of the samples.
    fn unit(&self) -> &'static str;

    /// The two CPUs between which cache lines move, if there are two. Between slices nothing of the experiment may
    /// run on them: their distance is measured then.
    fn cpus(&self) -> Option<(usize, usize)> {
        None
    }

    /// Whether a slice is a whole repetition, however long: it is not cut by seconds.
    fn is_whole(&self) -> bool {
        false
    }

    /// Whether it is built for each of its turns where others have turns between them, and taken down after it: what it is made of
    /// would go on meanwhile, or hold what they need.
    fn is_built_each_turn(&self) -> bool {
        false
    }

    /// Builds what is measured.
    fn prepare(&mut self) -> Result<()>;

    /// Measures for about `length`.
    fn run_slice(&mut self, length: Duration) -> Result<Sample>;

    /// Takes down what [`Experiment::prepare`] built. Called once after it, also when a slice failed; then it can be built again.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
