//! Which thread runs where, and what of a CPU it is promised.
//!
//! [`outline`] is pure: what a file asks for and what is [`Known`] of the host go in, a place and a policy for each thread come
//! out, or every reason why not. An [`Applier`] carries an [`Outline`] out, by control groups and sched_setattr(2), and takes it
//! back; what it has made is told before as [`Undo`]s, for who cleans up after a process that was killed.
//! `docs/sched.md` has the keys and what each policy means.
//!
//! [`promises`] keeps rates that are promised, by what packets were seen to cost ([`costs`]); [`guarantee`] has the arithmetic.
//!
//! [`ceiling`] bounds the memory and the tasks of a whole run, by the same means.

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
pub mod guarantee;
mod host;
mod interrupts;
mod island;
mod known;
mod lock;
mod outline;
mod plan;
pub mod promises;
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
pub use known::{Known, Load};
pub use outline::{Company, Group, Island, Outline, Placement, Refusal, Schedule, Slot, refused};
pub use plan::outline;
pub use task::{Task, stat};
pub use thread::{Class, Direction, Thread};
pub use topology::{Cpu, Topology};
pub use undo::Undo;
