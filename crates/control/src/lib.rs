//! What the routes of a control namespace mean to a router: interfaces become NICs, next-hop groups become [`Way`]s, and changes
//! of the routes become changes of a [`Table`].
//!
//! ```text
//! fpm::Rib --changes--> Translator --ways, routes--> Table (the data path's), one publication a batch
//!                        ^
//! netlink::Mirror --links--> Ports
//! ```
//!
//! A table may be full, or wait for its readers: what it refuses is offered again with the next batch, and counted meanwhile.

#![forbid(unsafe_code)]

mod filter;
mod ports;
mod translator;

pub use filter::without_routes_of_zebra;
pub use ports::{Port, Ports};
pub use translator::{ControlCounters, Fate, Hop, Refusal, Table, Translator, Way};
