//! Faults of a peer. A fault ends the connection with one line; the peer may connect again.

use std::io;

use ring::split::{Broken, LayoutError};
use vhost::vhost_user::message::FrontendReq;

use crate::memory::MemoryError;

/// Reason why we ended a connection.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The message has another version of the protocol.
    #[error("a message of version {0} of the protocol; there is only 1")]
    Version(u32),
    /// The body is longer than that of any message.
    #[error("a message with a body of {0} octets; the longest has 4096")]
    Long(u32),
    /// The protocol has no such request.
    #[error("request number {0}, which the protocol does not have")]
    Unknown(u32),
    /// An answer without a request.
    #[error("an answer, though nothing was asked")]
    Answer,
    /// The connection was closed within a message.
    #[error("it ended in the middle of a message")]
    Torn,
    /// The rest of a message does not arrive.
    #[error("it stopped in the middle of a message")]
    Stuck,
    /// The message has more descriptors than any request.
    #[error("a message with more than 32 descriptors")]
    TooManyDescriptors,
    /// It does not read the answers to its requests.
    #[error("it does not read the answers")]
    Deaf,
    /// The socket fails, with this error.
    #[error("its socket fails: {0}")]
    Socket(io::Error),
    /// The body has the wrong length.
    #[error("{request:?} with a body of {size} octets, which is not its size")]
    Size {
        /// The request.
        request: FrontendReq,
        /// Octets.
        size: usize,
    },
    /// The number of descriptors is wrong.
    #[error("{request:?} with {found} descriptors, expected {expected}")]
    Descriptors {
        /// The request.
        request: FrontendReq,
        /// Expected number.
        expected: usize,
        /// Received number.
        found: usize,
    },
    /// The request was not offered or not negotiated.
    #[error("{0:?}, which was not agreed on")]
    NotAgreed(FrontendReq),
    /// The features were not offered.
    #[error("features {0:#x}, which were not offered")]
    Features(u64),
    /// There is no such ring.
    #[error("ring {ring}; there are {rings}")]
    NoRing {
        /// Number of the ring.
        ring: u32,
        /// Number of rings.
        rings: usize,
    },
    /// Invalid value of a ring.
    #[error("ring {ring}: {what} {value:#x}")]
    Value {
        /// Number of the ring.
        ring: usize,
        /// The kind of value.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// The memory table cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An area of a ring is outside the shared memory.
    #[error("ring {ring}: its area at {address:#x} does not lie in the memory that was shared")]
    Outside {
        /// Number of the ring.
        ring: usize,
        /// Address in the peer's own address space.
        address: u64,
    },
    /// The layout of the ring is invalid.
    #[error("ring {ring}: {why}")]
    Layout {
        /// Number of the ring.
        ring: usize,
        /// The layout error.
        why: LayoutError,
    },
    /// The event descriptors of the ring cannot be used.
    #[error("ring {ring}: {why}")]
    Bells {
        /// Number of the ring.
        ring: usize,
        /// The reason.
        why: String,
    },
    /// The driver does not support virtio 1.0.
    #[error("the driver is of before virtio 1.0 (no VIRTIO_F_VERSION_1)")]
    Legacy,
    /// The driver broke a ring.
    #[error("its driver broke a ring: {0}")]
    Ring(Broken),
    /// An event descriptor of a ring blocked a thread of ours that wrote to it.
    #[error("it does not take the events of a ring, and made a thread of ours wait")]
    Waited,
    /// The memory was truncated while in use.
    #[error("it cut off the memory that it had shared")]
    CutOff,
}
