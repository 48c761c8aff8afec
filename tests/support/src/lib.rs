//! What the end-to-end tests stand on.
//!
//! A test says first what it needs of the host ([`needs!`]); where that is missing it prints one line and passes,
//! and `cargo xtask test` counts it as skipped. It takes [`Traces`] before and after, starts every process as a
//! [`Running`], which ends with it, and lets [`dissect`] read captured frames with a parser that is not ours.
#![forbid(unsafe_code)]

mod dissect;
mod namespace;
mod needs;
mod running;
mod traces;

pub use dissect::{Dissected, differences, dissect};
pub use namespace::Namespace;
pub use needs::{Need, missing};
pub use running::{Finished, Running, run};
pub use rustix::process::Signal;
pub use traces::Traces;
