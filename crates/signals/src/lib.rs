//! Signals that a process of ours handles itself: one that interrupts a thread's blocking call
//! ([`interrupt`]), and the one raised by access to mapped memory that was taken away ([`guard`]).

// eprintln! panics when standard error is closed; a data plane drops the line instead.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod guard;
pub mod interrupt;
