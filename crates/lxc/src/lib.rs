//! Containers run by Debian's LXC, for routers with `engine = "lxc"` (container routers). A [`Container`] describes one, [`text`]
//! renders its configuration for `lxc-start`, and [`Running`] supervises it. `lxc-start` stays in the foreground as our child,
//! and every wait for it has a time limit.
//!
//! LXC creates and moves the interfaces (`lxc.net.N`: veth, macvlan, phys), as in the set-ups of seed paper 003. The caller
//! configures addresses, routes and sysctls in the container's network namespace ([`Running::network`]).
//!
//! A container outlives a supervisor that is killed, because `lxc-start` continues as an orphan. The cleaner ends and removes it
//! with the help of a [`OrphanedContainer`], which the supervisor records before it starts the container.

#![forbid(unsafe_code)]

mod check;
mod container;
mod error;
mod folder;
mod groups;
mod info;
mod orphan;
mod programs;
mod running;

pub use check::check;
pub use container::{Container, Link, Nic, Root, name_for, text};
pub use error::Error;
pub use folder::HostPaths;
pub use info::{Info, State};
pub use orphan::{Monitors, OrphanedContainer};
pub use programs::Programs;
pub use running::{Running, StopOutcome, TimeLimits};

#[cfg(test)]
mod tests;
