//! One router file, and the ways to run it: each router a virtual machine or a process with the firmware.
#![forbid(unsafe_code)]

mod capture;
pub mod clock;
mod groups;
pub mod guest;
pub mod instance;
pub mod io_thread;
pub mod routes;
pub mod thread;
pub mod watch;
pub mod wiring;

pub use instance::Instance;
pub use io_thread::{Idle, IoThread, Pump};
pub use guest::{Duty, Ground, Guest};
pub use sandbox::{Class, Confinement};
pub use thread::Thread;
pub use wiring::{Outside, Plug, Plugs};
