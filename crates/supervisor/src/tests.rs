//! The supervisor's decisions, with a data plane that the test plays at the other end of a real link, and a clock that the test
//! moves. Nothing here needs a privilege, and nothing waits.

mod budgets;
mod changes;
mod dying;
mod end;
mod links;
mod lives;
mod locks;
mod opening;
mod promises;
mod questions;
mod stage;
mod tending;
