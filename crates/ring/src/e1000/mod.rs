//! Both ends of the descriptor rings of the e1000 family (82540EM manual, chapter "Receive and Transmit Description"),
//! and the status block by which the two ends work without register accesses (seed paper 001, section 3.3).
//!
//! ```text
//!              taken, not yet done   given, not yet taken
//!                 +-----------------+------------------+
//!   descriptors:  | . . . . . . . . | . . . . . . . .  |  the rest belongs to the driver
//!                 +-----------------+------------------+
//!                 ^ head            ^ (private)        ^ tail
//!                 written by the device                written by the driver
//! ```
//!
//! Positions run from 0 to the number of entries minus 1; that number is a multiple of 8 and not always a power of two.
//! A ring whose head and tail are equal is empty for the device: a ring holds one descriptor less than it has entries.
//!
//! The driver learns of progress in one of two ways; only in the second it has to read descriptors for that:
//! * by the [block](csb): each end writes its position into a line of its own, and whether it wants a notification;
//! * by write-back: the device sets DD in descriptors, and the driver checks DD of the next one. Each publication of
//!   the driver is then a register write.

pub mod csb;
mod descriptor;
mod device;
mod head_tail;
mod receive;
mod shared;
mod transmit;

use core::fmt;

pub use crate::split::Broken;
pub use csb::Csb;
pub use descriptor::{Context, Data, Descriptor, Legacy, Received, rx, tx};
pub use device::DeviceRing;
pub use head_tail::HeadTail;
pub use receive::RxDriver;
pub use transmit::{TxDriver, TxSlot};

/// Size of a descriptor in octets.
pub const DESCRIPTOR: u32 = 16;
/// Unit of a ring's length in octets (registers RDLEN, TDLEN).
pub const LENGTH_UNIT: u32 = 128;
/// Longest ring in octets that RDLEN and TDLEN can hold.
pub const MAX_LENGTH: u32 = 0xf_ff80;

/// Location of a ring in guest memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Guest-physical address, a multiple of 16.
    pub base: u64,
    /// Number of entries, a multiple of 8 and not 0.
    pub entries: u16,
}

impl Layout {
    /// Creates a layout from the contents of a ring's registers: the address (RDBAL, RDBAH, TDBAL, TDBAH), and the
    /// length in octets (RDLEN, TDLEN).
    pub const fn new(base: u64, octets: u32) -> Result<Self, LayoutError> {
        if octets == 0 || octets > MAX_LENGTH || !octets.is_multiple_of(LENGTH_UNIT) {
            return Err(LayoutError::Length(octets));
        }
        if !base.is_multiple_of(DESCRIPTOR as u64) {
            return Err(LayoutError::Alignment(base));
        }
        Ok(Self { base, entries: (octets / DESCRIPTOR) as u16 })
    }

    /// Returns the ring's length in octets.
    pub const fn octets(&self) -> u32 {
        self.entries as u32 * DESCRIPTOR
    }
}

/// Reason why a ring or a status block cannot be used at a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The ring's length in octets is 0, no multiple of [`LENGTH_UNIT`], or more than [`MAX_LENGTH`].
    Length(u32),
    /// The address is not aligned: a ring lies at a multiple of 16, a status block at a multiple of 64.
    Alignment(u64),
    /// The ring or the block is not completely inside guest memory.
    Outside(u64),
    /// The head is no position in the ring.
    Head(u16),
    /// The driver's private storage does not have exactly one place for each entry.
    Storage(usize),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(octets) => {
                write!(
                    f,
                    "ring of {octets} octets: must be a multiple of {LENGTH_UNIT} up to {MAX_LENGTH}, not 0"
                )
            }
            Self::Alignment(at) => write!(f, "address {at:#x} is not aligned as the device demands"),
            Self::Outside(at) => write!(f, "ring or status block at {at:#x} does not lie in guest memory"),
            Self::Head(head) => write!(f, "head {head} is no position in the ring"),
            Self::Storage(len) => write!(f, "private storage has {len} places, not one for each entry"),
        }
    }
}

impl core::error::Error for LayoutError {}

/// Returns the distance in a ring from one position to another.
#[inline(always)]
const fn distance(from: u16, to: u16, entries: u16) -> u16 {
    if to >= from { to - from } else { entries - from + to }
}

/// Returns the position `n` (at most a ring) after another one.
#[inline(always)]
const fn after(position: u16, n: u16, entries: u16) -> u16 {
    // The sum of two positions may exceed 16 bits.
    let sum = position as u32 + n as u32;
    let entries = entries as u32;
    (if sum >= entries { sum - entries } else { sum }) as u16
}

#[cfg(test)]
mod tests;
