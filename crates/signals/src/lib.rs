//! Signals that a process of ours handles for itself: one that takes a thread out of a call that waits ([`interrupt`]), and the one
//! that comes when memory was taken away which is mapped here ([`guard`]).

// A data plane that is told to end must not wait for who reads what it prints.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod guard;
pub mod interrupt;
