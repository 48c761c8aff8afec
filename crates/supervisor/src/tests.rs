//! Tests of the supervisor's decisions, with a data plane that the test plays at the other end of a real
//! link, and a clock that the test moves. They need no privileges and never sleep.

mod budgets;
mod changes;
mod controls;
mod dying;
mod end;
pub(crate) mod fake_backend;
mod kernel_cpus;
mod kernels;
mod links;
mod lives;
mod locks;
mod opening;
mod packet_ways;
mod promises;
mod questions;
mod remote;
mod spares;
mod stage;
mod tending;
