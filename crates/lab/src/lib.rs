//! The measuring room: a generator and a sink that are ports, experiments, and the report.
//!
//! An experiment is a description ([`experiment::Experiment`]): a rig stands while it is measured (`rig`), a scenario says what happens over
//! time (`scenario`), and a metric reads counters and times before and after, and makes figures of them (`metric`). What is peculiar to
//! one experiment stands with it in `experiments`.
//!
//! A frame of the generator carries a tag behind its UDP header: which flow it belongs to and its number within the
//! flow. The sink reads the tag of every frame and the whole header of one frame in 61, so that a rate is never
//! reported for frames that were lost, repeated, out of order or damaged without saying so.
#![forbid(unsafe_code)]

pub mod device;
mod due;
pub mod experiment;
pub mod experiments;
pub mod figures;
pub mod flood;
pub mod generator;
pub mod host;
pub mod ledger_snapshot;
mod metric;
pub mod report;
mod rig;
mod scenario;
pub mod self_rate;
pub mod sink;
pub mod tag;

pub use measure::stats;
