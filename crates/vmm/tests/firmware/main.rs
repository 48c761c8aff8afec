//! The firmware itself, on every ground that it can run on.

mod boot;
mod e1000;
mod ground;
mod process;
