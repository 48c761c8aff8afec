//! Attachments of NICs: grammar, checks, opening, hand-over, health, repair, ports, counters. Each kind is a
//! file in `kinds` and a line in its table.
//!
//! | type | meaning | used by |
//! |---|---|---|
//! | [`Attach`] | attachment in a file: kind, name, keys | everybody, as a part of the plan |
//! | [`HostResource`] | host resource opened for a NIC with these [requirements](NicRequirements) | the process that may open it: the supervisor |
//! | [`Attachment`] | server of the NIC | the data plane, across restarts of routers |
//! | [`Origin`](kernel_router::Origin) | origin of the interface of a kernel router | the supervisor, which creates it |
#![forbid(unsafe_code)]

mod attach;
mod attachment;
pub mod files;
mod interfaces;
mod keywords;
mod kind;
mod kinds;
mod link;
mod macvlan_mode;
mod opened;
mod requirements;
pub mod safe_open;
mod shared;
mod shared_source;
mod slow_file;
mod socket;
mod urgent;

pub(crate) use attachment::plain;
pub(crate) use kind::{KernelUse, Kind, Place, lack};
pub(crate) use opened::FixedDescriptors;

pub use attach::{Attach, counts, keys, words};
pub use attachment::{About, Attachment, Entry, News, Outside, Ports, ServiceContext, Visit, later, port};
pub use keywords::Keywords;
pub use kind::{AttachmentProperties, Fields, Finding, Key, MissingRequirement, State, Takes};
pub use kinds::udp::Tunnel;
pub use kinds::vf::Function;
pub use kinds::vhost_user_backend::meet;
pub use link::{link, tap};
pub use opened::{
    DataPlaneChange, HandedOver, Health, HostInterfaces, HostResource, Restored, Watched, Work,
};
pub use requirements::NicRequirements;
pub use shared::Shared;
pub use slow_file::{Capture, SlowFileWriter, close_apart, empty_and_write_out, write_out};
pub use socket::of_door;
