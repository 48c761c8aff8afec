//! Network namespaces (network_namespaces(7)) as values. A [`Namespace`] is created or opened, and holds the kernel object by
//! a file descriptor: the namespace is removed with its last reference, however the process ends. Some state of a namespace
//! is visible only to a thread inside it (sockets, `/proc/sys/net`, `/sys/class/net`); a short-lived thread that enters the
//! namespace reads it.
//!
//! A namespace can be [published](Namespace::publish) as `/run/netns/NAME`, where `ip netns exec NAME` finds it. That name
//! persists until it is removed: see [`unpublish`].

#![forbid(unsafe_code)]

mod error;
mod name;
mod namespace;
mod parameters;
mod sysfs;

pub use error::Error;
pub use name::{Published, check_name, unpublish};
pub use namespace::{Id, Namespace};
pub use parameters::{set_sysctl, sysctl};
pub use sysfs::Sysfs;

#[cfg(test)]
mod tests;
