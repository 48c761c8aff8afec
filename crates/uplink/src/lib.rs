//! The host's world as ports: TAP devices, and the network namespaces they lie in.
//!
//! What is made here (TAPs, namespaces, their addresses and routes) belongs to file descriptors of this process. The
//! kernel takes it away with the last of them, so nothing is left even after SIGKILL.

pub mod door;
pub mod error;
pub mod links;
pub mod netns;
pub mod opened;
mod request;
pub mod tap;
pub mod xdp;

pub use door::Door;
pub use error::Error;
pub use links::{LinkCounters, Links, Mac};
pub use netns::Netns;
pub use opened::{Description, Opened};
pub use tap::{Ownership, ReadCounters, Tap, TapConfig, TapSink, TapSource, WriteCounters};
pub use xdp::{Xdp, XdpConfig, XdpParts};
