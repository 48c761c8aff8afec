//! BPF programs at hooks of the kernel, for kernel routers (`engine = "kernel"`) and container routers (`"lxc"`):
//!
//! * a [`Limiter`] limits the rate of packets that enter a router, at tcx ingress, before the kernel's IP layer;
//! * a [`PacketTracer`] traces single packets from the NIC by which they arrive to the NIC by which they leave, or to the reason for
//!   which the kernel drops them (`skb:kfree_skb`); it implements `trace`;
//! * [`DropCounters`] counts dropped packets by interface and reason, without cost for other packets.
//!
//! [`Reasons`] maps the kernel's drop reasons to their names. The kernel detaches and frees each program when its descriptor is
//! closed.

#![forbid(unsafe_code)]

mod drops;
mod error;
mod limit;
mod reasons;
mod trace;

pub use drops::{DropCounters, Interface};
pub use error::Error;
pub use limit::{LimitCounters, Limiter, MOST};
pub use reasons::Reasons;
pub use trace::{Filter, PacketFate, PacketTracer, TraceCounts, TraceSpec, TracedPacket};

/// Returns the value. If this user or kernel lacks what the test needs, prints that the test is skipped and returns `None`.
#[cfg(test)]
pub(crate) fn granted<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(granted) => Some(granted),
        Err(lacks @ (Error::NotPermitted { .. } | Error::NoTcx | Error::NoTypes { .. })) => {
            println!("SKIPPED: {lacks}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
