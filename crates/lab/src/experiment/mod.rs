//! The frame that every experiment fits into: slices of a fifth of a second, the distance of the CPUs before and
//! after each, near and far told apart, two variants in turn.

mod outcome;
mod runner;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use config::Misdeed;
use engine::Confinement;

use crate::cores;
use crate::ledger_snapshot::Snapshot;
pub use outcome::{Comparison, Measured, Outcome, Placement, tell};
pub use runner::{compare, run};

/// What can be asked of an experiment. Each takes what applies to it.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the router runs: `kvm`, `process`, …
    pub engine: String,
    /// NIC model: `virtio-net`, …
    pub nic: String,
    /// What the router's NICs are attached to: `native` (ports of the measuring room) or `tap`.
    pub attach: String,
    /// Octets of each frame, without FCS.
    pub frame: usize,
    /// Flows of the generator.
    pub flows: u32,
    /// Routes of the router.
    pub routes: u32,
    /// Frames offered a second; none: flat out.
    pub rate: Option<f64>,
    /// Queue pairs of each NIC.
    pub queues: u16,
    /// vCPUs of the router.
    pub vcpus: u16,
    /// Whether the threads of the router, and the one that plays its I/O thread, are confined (`forward`).
    pub sandbox: Confinement,
    /// What the router beside does in `hostile`; none: one thing after the other.
    pub misdeed: Option<Misdeed>,
    /// Seconds measured in each repetition, cut into slices; each slice is a sample.
    pub seconds: f64,
    /// Repetitions, with a pause between them.
    pub repeat: u32,
    /// Where the JSON goes.
    pub json: Option<PathBuf>,
    /// CPUs to use; empty: those that this process may use, in order.
    pub cpus: Vec<usize>,
}

impl Default for Options {
    /// KVM, virtio-net, 64 octets, 100 flows, 2 routes, flat out, one queue pair and vCPU, 5 repetitions of 1 s.
    fn default() -> Self {
        Self {
            engine: "kvm".to_owned(),
            nic: "virtio-net".to_owned(),
            attach: "native".to_owned(),
            frame: 64,
            flows: 100,
            routes: 2,
            rate: None,
            queues: 1,
            vcpus: 1,
            sandbox: Confinement::Off,
            misdeed: None,
            seconds: 1.0,
            repeat: 5,
            json: None,
            cpus: Vec::new(),
        }
    }
}

impl Options {
    /// The n-th CPU to use. Fails if there are not so many.
    pub fn cpu(&self, n: usize) -> Result<usize> {
        let list = if self.cpus.is_empty() { cores::allowed()? } else { self.cpus.clone() };
        list.get(n).copied().with_context(|| format!("needs {} CPUs, there are {}", n + 1, list.len()))
    }
}

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
    pub more: Vec<(&'static str, f64)>,
    /// What the counters grew by.
    pub ledger: Snapshot,
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

    /// Builds what is measured.
    fn prepare(&mut self) -> Result<()>;

    /// Measures for about `length`.
    fn run_slice(&mut self, length: Duration) -> Result<Sample>;

    /// Takes down what [`Experiment::prepare`] built. Called once after it, also when a slice failed.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
