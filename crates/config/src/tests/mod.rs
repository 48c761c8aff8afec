//! Tests of the crate, by subject.

pub(crate) use bad::errors as errors_of;

mod apart;
mod bad;
mod control;
mod good;
mod group;
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
