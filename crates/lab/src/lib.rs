//! The lab: a traffic generator and a sink that are ports, experiments, and the report.
//!
//! An experiment is a description ([`experiment::Experiment`]): a rig exists while it is measured (`rig`), a scenario defines the course of
//! events (`scenario`), and a metric reads counters and times before and after, and derives figures from them (`metric`). Whatever is
//! specific to one experiment is in its module in `experiments`.
//!
//! A frame of the generator carries a tag behind its UDP header: its flow, and its sequence number within the flow. The sink reads the tag
//! of every frame and checks the headers of one frame in 61, so that no rate is reported without the frames that were lost, repeated,
//! reordered or damaged.
#![forbid(unsafe_code)]

pub mod device;
pub mod diagram;
mod due;
pub mod experiment;
pub mod experiments;
pub mod figures;
pub mod flood;
pub mod full_table;
pub mod generator;
pub mod host;
pub mod ledger_snapshot;
mod metric;
pub mod plain_frr;
pub mod report;
mod rig;
mod scenario;
pub mod self_rate;
pub mod sink;
pub mod tag;

pub use measure::stats;
