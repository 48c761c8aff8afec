//! Both ends of the split virtqueue (virtio 1.2, section 2.7).
//!
//! ```text
//!   driver writes                                device writes
//!   descriptors[size]         16 octets each
//!   +---------+-----+-------+------+
//!   | address | len | flags | next |             used: flags, index
//!   +---------+-----+-------+------+                   +----+-----+
//!        ^                                             | id | len |   size entries, 8 octets each
//!        | head                                        +----+-----+
//!   available: flags, index                            avail_event   "kick me when you pass this entry"
//!        +------+                                           |
//!        | head |  size entries, 2 octets each              +--> read by the driver after it publishes
//!        +------+
//!        used_event   "interrupt me when you pass this entry", read by the device after it publishes
//! ```
//!
//! Both indices are free-running and wrap at 65536; entry `i` lies at `i % size`. A chain takes one available entry: a
//! descriptor and those that follow it by `next`. With IN_ORDER (section 2.7.6) descriptors are used in the order of
//! the table, so the available entries carry no information and neither end reads them; and the device may return a
//! batch by one used entry, in the place of the first, that names the last.

mod burst;
pub mod device;
pub mod driver;
pub mod in_order;
pub mod notify;
mod shared;
mod walk;

use core::fmt;

pub use burst::{Burst, Chain, MAX_DESCRIPTORS, MAX_SEGMENTS};
pub use device::DeviceQueue;
pub use driver::{Driver, DriverQueue, Segment, Slot};
pub use in_order::InOrderDriver;

/// Largest queue (section 2.7).
pub const MAX_SIZE: u16 = 32768;

/// Negotiated features that change how the ring is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// VIRTIO_F_EVENT_IDX: notifications are requested by index instead of by flag.
    pub event_idx: bool,
    /// VIRTIO_F_INDIRECT_DESC: a descriptor may refer to a table of descriptors.
    pub indirect: bool,
    /// VIRTIO_F_IN_ORDER: buffers are made available and used in the order of the table.
    pub in_order: bool,
}

/// Location of a queue in guest memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Number of entries, a power of two from 1 to [`MAX_SIZE`].
    pub size: u16,
    /// Guest-physical address of the descriptor table, a multiple of 16.
    pub descriptors: u64,
    /// Guest-physical address of the available ring, a multiple of 2.
    pub available: u64,
    /// Guest-physical address of the used ring, a multiple of 4.
    pub used: u64,
}

/// Reason why a [`Layout`] cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The size is not a power of two from 1 to [`MAX_SIZE`].
    Size(u16),
    /// An area does not lie at a multiple of its alignment.
    Alignment(u64),
    /// An area is not completely inside guest memory.
    Outside(u64),
    /// The private storage given to a driver does not have exactly one place for each entry of the queue.
    Storage(usize),
    /// This end of the queue cannot work with these features.
    Features,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => write!(f, "queue size {size} is not a power of two from 1 to {MAX_SIZE}"),
            Self::Alignment(at) => write!(f, "queue area at {at:#x} is not aligned as virtio demands"),
            Self::Outside(at) => write!(f, "queue area at {at:#x} does not lie in guest memory"),
            Self::Storage(len) => {
                write!(f, "private storage has {len} entries, not one for each of the queue")
            }
            Self::Features => write!(f, "the queue cannot work with these features"),
        }
    }
}

impl core::error::Error for LayoutError {}

impl Layout {
    /// Returns how many octets [`Layout::contiguous`] takes for `size` entries.
    pub const fn octets(size: u16) -> u64 {
        let (_, _, end) = Self::offsets(size);
        end
    }

    /// Lays the three areas out one after the other from `base` (a multiple of 64), each at the start of a cache line.
    pub const fn contiguous(size: u16, base: u64) -> Self {
        let (available, used, _) = Self::offsets(size);
        Self { size, descriptors: base, available: base + available, used: base + used }
    }

    const fn offsets(size: u16) -> (u64, u64, u64) {
        let available = 16 * size as u64;
        let used = (available + available_octets(size)).next_multiple_of(64) + 64;
        (available, used, (used + used_octets(size)).next_multiple_of(64) + 64)
    }
}

/// Returns the size in octets of an available ring with `used_event`.
const fn available_octets(size: u16) -> u64 {
    6 + 2 * size as u64
}

/// Returns the size in octets of a used ring with `avail_event`.
const fn used_octets(size: u16) -> u64 {
    6 + 8 * size as u64
}

/// Rule of the ring that the other end broke. The queue stops until the device is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// An index moved by more than the queue holds.
    Index,
    /// A head, `next` or used id is not an entry of the table, or names no outstanding chain.
    Entry,
    /// A chain has more than [`MAX_DESCRIPTORS`] descriptors, or is a cycle.
    Loop,
    /// A buffer is not completely inside guest memory.
    Address,
    /// An indirect table was not negotiated, is nested, empty, of an invalid length, or has a successor.
    Indirect,
    /// A readable buffer follows a writable one, or a buffer is of the wrong kind for this queue.
    Direction,
    /// With IN_ORDER: a chain or a used entry leaves the order of the table.
    Order,
}

impl Broken {
    /// All variants.
    pub const ALL: [Self; 7] =
        [Self::Index, Self::Entry, Self::Loop, Self::Address, Self::Indirect, Self::Direction, Self::Order];
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Index => "ring index moved by more than the queue holds",
            Self::Entry => "ring entry names no descriptor, or none that is outstanding",
            Self::Loop => "descriptor chain is longer than 256 descriptors, or runs in a circle",
            Self::Address => "buffer lies outside guest memory",
            Self::Indirect => "indirect descriptor table is malformed or not negotiated",
            Self::Direction => "buffer is readable where it must be writable, or the reverse",
            Self::Order => "entry out of order on an IN_ORDER queue",
        })
    }
}

impl core::error::Error for Broken {}

#[cfg(test)]
mod tests;
