//! Network configuration of the kernel by rtnetlink(7): interfaces and their queueing disciplines, addresses, neighbours, routes and
//! rules of one network namespace. A [`Netlink`] queries and changes them; a [`Mirror`] holds a copy of all of them
//! and follows changes. A [`Generic`] reads and sets properties of interfaces that rtnetlink does not cover
//! (features, NAPI).
//!
//! Messages are those of `netlink-packet-route`; this crate exposes the parts that a router needs.

#![forbid(unsafe_code)]

mod address;
mod answers;
mod attribute;
mod function;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod generic;
mod link;
mod make;
mod mirror;
mod neighbour;
mod next_hop;
mod prefix;
mod queue;
mod raw;
mod route;
mod rule;
mod socket;
mod statistics;
mod table;

pub use address::Address;
pub use function::{Function, FunctionSetting, FunctionVlan};
pub use generic::{Generic, Napi};
pub use link::{Link, Settings, Which};
pub use make::{Kind, MacvtapMode};
pub use mirror::{Kept, Mirror, News};
pub use neighbour::{Neighbour, State};
pub use next_hop::{NextHopKind, NextHopObject};
pub use prefix::Prefix;
pub use queue::{Queue, QueueKind, QueueState};
pub use route::{NextHop, Route, RouteId, RouteKind};
pub use rule::Rule;
pub use socket::Netlink;
pub use statistics::Statistics;
pub use table::{Change, Object, Table};

/// An Ethernet address.
pub type Mac = [u8; 6];
