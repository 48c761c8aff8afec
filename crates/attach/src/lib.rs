//! Attachments of NICs: grammar, checks, opening, hand-over, health, repair, ports, counters. Each kind is a
//! file in `kinds` and a line in its table.
//!
//! | type | meaning | used by |
//! |---|---|---|
//! | [`Attach`] | attachment in a file: kind, name, keys | everybody, as a part of the plan |
//! | [`Opened`] | host resource opened for a NIC with these [requirements](Wanted) | the process that may open it: the supervisor |
//! | [`Attachment`] | server of the NIC | the data plane, across restarts of routers |
#![forbid(unsafe_code)]

mod attach;
mod attachment;
pub mod files;
mod home;
mod interfaces;
mod kind;
mod kinds;
mod link;
mod opened;
mod patient;
mod socket;
mod wanted;
mod words;
pub mod written;

pub(crate) use attachment::plain;
pub(crate) use kind::{Kind, Place, lack};
pub(crate) use opened::Kept;

pub use attach::{Attach, counts, keys, words};
pub use attachment::{About, Attachment, Entry, News, Outside, Ports, Site, Visit, later, port};
pub use kind::{Fields, Finding, Key, Lack, State, Takes, Traits};
pub use kinds::vhost_user_backend::meet;
pub use link::{link, tap};
pub use opened::{Handed, Health, Opened, Restored, Turn, View, Watched, Work};
pub use patient::{Capture, Patient, write_out};
pub use socket::of_door;
pub use wanted::Wanted;
pub use words::Words;
