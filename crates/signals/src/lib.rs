//! Signals that a process of ours handles for itself: one that takes a thread out of a call that waits ([`interrupt`]), and the one
//! that comes when memory was taken away which is mapped here ([`guard`]).

// It panics where nobody reads: what a data plane says there may be lost.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod guard;
pub mod interrupt;
