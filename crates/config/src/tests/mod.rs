//! Tests of the crate, by subject.

mod apart;
mod bad;
mod good;
mod host;
mod kernel;
mod keys;
mod linux;
mod model;
mod one_line;
mod running;
mod sched;
mod setting;
mod values;
mod wild;
