//! Experiments of seed paper 000 §3 and seed paper 003 §4.2: who gets the core decides who forwards.
//!
//! All of them run the command itself from a file (`room`), with its threads where the file says, on a *contended* CPU. Load
//! comes from another CPU, by packet sockets in front of macvtaps or TAPs: frames wait in the queue there until the routers'
//! own threads fetch them, so that what is offered costs the contended CPU what it would cost behind a wire. The load of each
//! step is a fraction of the *capacity*, what one router carries with vCPU and vhost thread on one CPU; both are told. What a
//! host, or the command, refuses ends as an error, never as a figure. Only `accounting` loads the contended CPU in other ways: by
//! burns whose size is known.

pub(super) mod accounting;
mod capacity;
pub(super) mod cases;
mod contended;
pub(super) mod isolation;
pub(super) mod promise;
mod spinner;
pub(super) mod sweep;

pub(super) use capacity::on;
