//! Network interfaces of the host as ports: TAP devices, macvtaps, AF_XDP, and the network namespaces they
//! are in.
//!
//! Everything created here (TAPs, namespaces, their addresses and routes) belongs to file descriptors of this
//! process. The kernel removes it with the last of them, so nothing is left behind even after SIGKILL.

pub mod bridge;
mod cable;
pub mod datagrams;
pub mod error;
pub mod links;
pub mod macvtap;
pub mod membership;
pub mod netns;
pub mod ovs;
mod rename_into_place;
mod request;
pub mod solicitations;
mod steering;
pub mod tap;
pub mod udp;
pub mod undo;
pub mod wire;
pub mod xdp;

pub use self::netns::Netns;
pub use ::netlink::Mac;
pub use cable::Cable;
pub use door::{Door, SocketBroker};
pub use error::Error;
pub use links::{LinkCounters, LinkTable, Links};
pub use membership::Membership;
pub use tap::{
    Ownership, QueueLimit, ReadCounters, Spread, Tap, TapConfig, TapSink, TapSource, Traits, WriteCounters,
};
pub use undo::Undo;
pub use wire::PacketSender;
pub use xdp::{Xdp, XdpConfig, XdpParts};
