//! One router file, and the ways to run it. In this version: a KVM guest with the firmware.
#![forbid(unsafe_code)]

pub mod io_thread;
pub mod kvm;
pub mod routes;
pub mod thread;

pub use kvm::{Duty, KvmRouter};
pub use io_thread::{Idle, IoThread, Pump};
pub use thread::Thread;
