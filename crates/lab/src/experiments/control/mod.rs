//! Experiments of seed paper 000 §3 and seed paper 003 §4.2: the scheduling of the core determines the forwarding rates.
//!
//! All of them run the command itself from a file (`router_run`), with its threads placed on a *contended* CPU as the file says. The
//! load comes from another CPU, through packet sockets in front of macvtaps or TAPs: frames wait in that queue until the routers'
//! own threads fetch them, so that offered frames cost the contended CPU as much as they would behind a wire. The load of each
//! step is a fraction of the *capacity*, the rate that one router forwards with vCPU and vhost thread on one CPU; both are
//! reported. If the host or the command refuses a setting, the result is an error, never a figure. Only `accounting` loads the
//! contended CPU in other ways: by burns of known size.

pub(super) mod accounting;
pub(super) mod capacity;
pub(super) mod cases;
mod contended;
pub(super) mod guarantee;
pub(super) mod isolation;
mod spinner;
pub(super) mod stages;
pub(super) mod sweep;

pub(super) use capacity::on;
pub(super) use cases::free_on;
