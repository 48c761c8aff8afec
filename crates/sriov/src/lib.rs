//! Virtual functions of NICs (SR-IOV, PCI-SIG Single Root I/O Virtualization 1.1). A port (physical function, PF) can be divided
//! into virtual functions (VFs). Each of them is a PCI device with a driver and an interface of its own, and can be moved into a
//! router.
//!
//! [`Sysfs`] reads ports and their functions ([`Port`], [`Function`]). [`plan_function_count`] plans the number of functions of a port, and
//! [`assign()`] assigns functions to NICs of routers. A [`Claim`] applies the per-function settings of a port (Ethernet address,
//! VLAN, spoof check). Its [`FormerSettings`] holds the settings from before, with which the supervisor, or the cleaner after a crash,
//! restores them. The caller moves the function's interface into a namespace, and back before the claim ends. A [`FormerCount`] holds
//! the number of functions that a port had before runs changed it.
//!
//! Planning is pure: it makes no system calls. Tests run on sysfs trees and models of ports ([`PortSettings`]) that they create; none of
//! this has run on hardware.

#![forbid(unsafe_code)]

mod assign;
mod claim;
mod count;
mod error;
mod former_count;
mod pci;
mod plan;
mod port_settings;
mod sysfs;

pub use assign::{Assigned, FunctionRequest, assign};
pub use claim::{Claim, restore};
pub use count::plan_function_count;
pub use error::Error;
pub use former_count::{CountRecord, FormerCount};
pub use pci::Address;
pub use plan::{FormerSettings, FunctionSettings, Step, steps};
pub use port_settings::PortSettings;
pub use sysfs::{Function, Location, Port, Sysfs};

#[cfg(test)]
mod tests;
