//! The firmware itself, on every engine that can run it.

mod boot;
mod common_tables;
mod e1000;
mod machines;
mod process;
