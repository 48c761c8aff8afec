//! What a peer can do wrong. The connection ends with one line, and may begin anew.

use std::io;

use ring::split::{Broken, LayoutError};
use vhost::vhost_user::message::FrontendReq;

use crate::memory::MemoryError;

/// Why a connection was ended by us.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Another version of the protocol.
    #[error("a message of version {0} of the protocol; there is only 1")]
    Version(u32),
    /// A body that is too long for any message.
    #[error("a message with a body of {0} octets; the longest has 4096")]
    Long(u32),
    /// A request that the protocol does not have.
    #[error("request number {0}, which the protocol does not have")]
    Unknown(u32),
    /// An answer where nothing was asked.
    #[error("an answer, though nothing was asked")]
    Answer,
    /// The connection ended within a message.
    #[error("it ended in the middle of a message")]
    Torn,
    /// The rest of a message does not come.
    #[error("it stopped in the middle of a message")]
    Stuck,
    /// More descriptors than any message has.
    #[error("a message with more than 32 descriptors")]
    TooManyDescriptors,
    /// It does not read what it asked for.
    #[error("it does not read the answers")]
    Deaf,
    /// The kernel's answer.
    #[error("its socket fails: {0}")]
    Socket(io::Error),
    /// The body is not as long as it has to be.
    #[error("{request:?} with a body of {size} octets, which is not its size")]
    Size {
        /// The request.
        request: FrontendReq,
        /// Octets.
        size: usize,
    },
    /// Descriptors are missing, or there are some that belong to nothing.
    #[error("{request:?} with {found} descriptors, expected {expected}")]
    Descriptors {
        /// The request.
        request: FrontendReq,
        /// How many it takes.
        expected: usize,
        /// How many came.
        found: usize,
    },
    /// A request for something that was not offered or not agreed on.
    #[error("{0:?}, which was not agreed on")]
    NotAgreed(FrontendReq),
    /// Features that were not offered.
    #[error("features {0:#x}, which were not offered")]
    Features(u64),
    /// A ring that there is not.
    #[error("ring {ring}; there are {rings}")]
    NoRing {
        /// Its number.
        ring: u32,
        /// How many there are.
        rings: usize,
    },
    /// A value that a ring cannot have.
    #[error("ring {ring}: {what} {value:#x}")]
    Value {
        /// Its number.
        ring: usize,
        /// What it is of.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// The memory table cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An area of a ring that lies nowhere in the memory.
    #[error("ring {ring}: its area at {address:#x} does not lie in the memory that was shared")]
    Outside {
        /// Its number.
        ring: usize,
        /// The peer's own address.
        address: u64,
    },
    /// The ring cannot be laid out so.
    #[error("ring {ring}: {why}")]
    Layout {
        /// Its number.
        ring: usize,
        /// What is wrong.
        why: LayoutError,
    },
    /// The ring cannot be served.
    #[error("ring {ring}: {why}")]
    Bells {
        /// Its number.
        ring: usize,
        /// What is wrong.
        why: String,
    },
    /// A driver of before virtio 1.0.
    #[error("the driver is of before virtio 1.0 (no VIRTIO_F_VERSION_1)")]
    Legacy,
    /// The driver broke a ring.
    #[error("its driver broke a ring: {0}")]
    Ring(Broken),
    /// A descriptor of a ring made a thread of ours wait that wrote to it.
    #[error("it does not take the events of a ring, and made a thread of ours wait")]
    Waited,
    /// The memory was cut off while it was in use.
    #[error("it cut off the memory that it had shared")]
    CutOff,
}
