//! Placement and scheduling of threads.
//!
//! [`outline`] is pure: its input is what a file asks for and what is [`SchedFacts`] of the host, its output a
//! place and a policy for each thread, or all reasons why that is impossible. An [`Applier`] carries an
//! [`Outline`] out, by control groups and sched_setattr(2), and undoes it; everything that it makes is
//! announced beforehand as [`Undo`]s, for the process that cleans up after a killed one. `docs/sched.md`
//! explains the keys and policies.
//!
//! [`promises`] keeps promised rates, based on observed packet costs ([`costs`]); [`guarantee`] has the
//! arithmetic.
//!
//! [`ceiling`] limits memory and tasks of a whole run, also by control groups.

pub mod account;
mod admission;
mod apply;
mod attr;
mod automatic;
pub mod ceiling;
mod cgroup;
mod controller;
pub mod costs;
mod error;
mod exclusive_cpus;
pub mod guarantee;
mod host;
mod interrupts;
mod lock;
mod outline;
mod plan;
pub mod promises;
mod sched_facts;
mod show;
mod task;
#[cfg(test)]
mod tests;
mod thread;
mod topology;
mod undo;

pub use apply::Applier;
pub use attr::{Attributes, attributes, try_policy};
pub use automatic::is_automatic;
pub use cgroup::{Hierarchy, Version};
pub use error::ApplyError;
pub use host::{Host, RealTime};
pub use interrupts::{Interrupt, Irq};
pub use outline::{
    CpuNeighbours, ExclusiveCpus, Group, Outline, Placement, Refusal, Schedule, Slot, refused,
};
pub use plan::outline;
pub use sched_facts::{Load, SchedFacts};
pub use task::{ThreadIdentity, stat};
pub use thread::{Class, Direction, Thread, first_queue};
pub use topology::{Cpu, Topology};
pub use undo::Undo;
