//! One router file, and the ways to run it. In this version: a KVM guest with the firmware.
#![forbid(unsafe_code)]

mod capture;
pub mod clock;
mod groups;
pub mod instance;
pub mod io_thread;
pub mod kvm;
pub mod routes;
pub mod thread;
pub mod watch;
pub mod wiring;

pub use instance::Instance;
pub use io_thread::{Idle, IoThread, Pump};
pub use kvm::{Duty, KvmRouter};
pub use sandbox::{Class, Confinement};
pub use thread::Thread;
pub use wiring::{Outside, Plug, Plugs};
