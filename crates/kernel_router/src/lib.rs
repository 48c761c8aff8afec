//! Kernel routers: a kernel router is a network namespace in which the host's kernel forwards packets. The data plane does not
//! take part.
//!
//! ```text
//! RouterConfig ---+
//!                 +-- steps (pure) --> Step, Step, Step --> the kernel
//! ObservedState --+                         |                  | refused: the inverse steps, in reverse order
//!   ^                                       +------------------+
//!   +---------------------- the namespace is read again -------+
//! ```
//!
//! * **[`RouterConfig`]** is the desired configuration of a router; [`check()`] rejects configurations that no host can have.
//! * **[`ObservedState`]** is the observed state of its namespace.
//! * **[`steps`]** plans the changes that lead from the observed state to the desired one; there are none if both agree.
//! * **[`Router`]** carries them out, all or none. It reads the namespace again afterwards, because the kernel may remove more
//!   than it was asked to (removing the last address of an interface removes its routes).
//!
//! Objects that the configuration does not name belong to others, and stay: interfaces, addresses, routes of other routing
//! protocols.
//!
//! A router's namespace, its veth pairs and its macvlans disappear with the last descriptor of the namespace. What does not is
//! recorded in its [`Leftover`]: its name in `/run/netns`, the host's interfaces that were moved into it and have to be
//! returned, and pairs whose ends somebody may have pulled out.

#![forbid(unsafe_code)]

mod carry;
mod check;
mod config;
mod counters;
mod error;
mod executor;
mod leftover;
mod look;
mod managed;
mod napi;
mod observed;
mod plan;
mod router;
mod six;
mod spread;
mod step;
mod typed;

pub use check::{Fault, check};
pub use config::{Interface, MAIN, Neighbour, Origin, PeerNamespace, Route, RouterConfig, interface_sysctl};
pub use counters::{Counters, InterfaceCounters, PacketCounters};
pub use error::Error;
pub use leftover::{Leftover, MovedInterface, OtherEnd};
pub use napi::NapiThread;
pub use netlink::MacvtapMode as Mode;
pub use netlink::{Queue, QueueKind};
pub use observed::{ObservedInterface, ObservedState};
pub use plan::{Obstacle, steps};
pub use router::{Health, Journal, Router, Surroundings, name_to_adopt};
pub use spread::{SpreadRoute, Way};
pub use step::{NewInterface, Object, Setting, Step};
pub use typed::TypedRoute;

#[cfg(test)]
mod tests;
