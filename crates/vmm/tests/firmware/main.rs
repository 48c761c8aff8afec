//! The firmware itself, on every ground that it can run on.

mod boot;
mod ground;
mod process;
