//! Routes of FRR's zebra, received by the protocol of its forwarding plane manager (FPM, `zebra -M dplane_fpm_nl`), and the
//! table that they add up to.
//!
//! ```text
//! zebra --TCP--> Zebra (socket) --octets--> Session: Frames -> messages -> Rib --changes--> route table of the data path
//!                                              ^                            ^
//!                                              | sweep: routes in the kernel | connected routes, `ip route add`
//!                                              \------ netlink dump ---------/
//! ```
//!
//! * [`Frames`] cuts the stream into frames, [`messages`] reads the netlink messages of one without allocating.
//! * A [`Rib`] holds all routes and next-hop groups. Messages only change it; [`Rib::changes`] closes a batch and reports what
//!   differs from what the data path was told last. A route that was deleted and added in one batch is therefore one
//!   replacement, and a batch that changes nothing reports nothing.
//! * Next hops are always a *group*, shared by all routes that use it: when a next hop fails, the group changes and its
//!   routes, however many, stay as they are.
//! * After a reconnect zebra sends the whole table again, without a mark at its end. [`Rib::mark`] makes all routes stale; each
//!   one that comes again is fresh. A stale route goes when a netlink dump shows that the kernel does not have it either
//!   (zebra writes to the kernel before it writes to FPM), never because of a timer.
//! * There are at most [`MOST_ROUTES`] routes of zebra in each table and family, and [`MOST_GROUPS`] groups. What has no room is
//!   refused; once there is room again, a new connection brings it ([`Rib::has_room_again`]).
//!
//! Format: `fpm/fpm.h` and `zebra/dplane_fpm_nl.c` of FRR 8.4.4, rtnetlink(7).

#![forbid(unsafe_code)]

mod answer;
mod attributes;
mod counters;
mod decode;
mod frames;
mod groups;
mod local;
mod rib;
mod room;
mod session;
mod zebra;

pub use answer::Answers;
pub use counters::FpmCounters;
pub use decode::{GroupContent, GroupMessage, Hops, Message, Refused, RouteMessage, messages};
pub use frames::{Broken, Frames};
pub use groups::{GroupId, Paths};
pub use rib::{Change, Found, Key, Origin, Rib, Target, is_zebras};
pub use room::{MOST_GROUPS, MOST_ROUTES};
pub use session::{Session, Stage};
pub use zebra::{Turn, Zebra};

/// Numbers and lengths of the format, for zebra's side of a connection: `crates/fpm_peer`.
pub mod wire {
    pub use crate::attributes::{HEADER as ATTRIBUTE_HEADER, NUMBER as ATTRIBUTE_NUMBER};
    pub use crate::decode::{HOP_HEADER, MESSAGE_HEADER, NEXT_HOP_HEADER, ROUTE_HEADER};
    pub use crate::decode::{next_hop, route, types};
    pub use crate::frames::{HEADER as FRAME_HEADER, append, length};
}

/// TCP port that zebra connects to unless its configuration says otherwise (`FPM_DEFAULT_PORT`).
pub const PORT: u16 = 2620;
