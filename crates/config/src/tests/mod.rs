//! Tests of the crate, by subject.

mod apart;
mod bad;
mod good;
mod group;
mod host;
mod keys;
mod linux;
mod model;
mod one_line;
mod running;
mod sched;
mod setting;
mod values;
mod wild;
