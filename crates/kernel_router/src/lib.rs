//! Routers that the host's kernel runs: a network namespace whose packets the kernel forwards. Nothing of them goes to the data
//! plane.
//!
//! ```text
//! Wanted --+
//!          +-- steps (pure) --> Step, Step, Step --> the kernel
//! Seen  ---+                         |                  | refused: their inverses, the last one first
//!   ^                                +------------------+
//!   +---------------- looked at again -------------------+
//! ```
//!
//! * **[`Wanted`]** says what a router is to be; [`check()`] says what of it can never be.
//! * **[`Seen`]** is what its namespace has of it now.
//! * **[`steps`]** are what leads from one to the other: none where both are the same.
//! * **[`Router`]** carries them out: all of them or none. It looks again afterwards, because the kernel takes things along that
//!   nobody has told it to (the last address of an interface takes its routes).
//!
//! What is not wanted by name is somebody else's, and stays: interfaces, addresses, routes of other protocols.
//!
//! A router's namespace, its pairs of veths and its macvlans go with the last descriptor of the namespace. What does not is in its
//! [`Leftover`]: its name in `/run/netns`, and interfaces of the host that were moved into it and have to come home.

#![forbid(unsafe_code)]

mod carry;
mod check;
mod counters;
mod error;
mod hands;
mod known;
mod leftover;
mod look;
mod napi;
mod plan;
mod router;
mod seen;
mod step;
mod wanted;

pub use carry::go_by_napi;
pub use check::{Fault, check};
pub use counters::{Counters, InterfaceCounters, PacketCounters};
pub use error::Error;
pub use leftover::{Kept, Leftover};
pub use napi::NapiThread;
pub use netlink::MacvtapMode as Mode;
pub use plan::{Obstacle, steps};
pub use router::{Health, Journal, Router, Site};
pub use seen::{Present, Seen};
pub use step::{Made, Setting, Step, Thing};
pub use wanted::{Interface, Neighbour, Origin, Place, Route, Wanted, interface_sysctl};

#[cfg(test)]
mod tests;
