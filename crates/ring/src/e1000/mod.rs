//! The descriptor rings of the e1000 family (82540EM manual, chapter "Receive and Transmit Description"), both ends,
//! and the status block by which the two ends need no register (seed paper 001, section 3.3).
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
//! Positions count from 0 up to the number of entries, which is a multiple of 8 and not always a power of two. Where
//! head and tail are equal the device has nothing: a ring holds one descriptor less than it has entries.
//!
//! The driver learns of progress in one of two ways, and in the first without reading a descriptor to look for it:
//! * by the [block](csb): each end writes where it is into a line of its own, and whether it sleeps;
//! * by write-back: the device sets DD in descriptors, and the driver looks whether it is set in the next one. Then
//!   each publication of the driver is a register write.

pub mod csb;
mod descriptor;
mod device;
mod ends;
mod receive;
mod shared;
mod transmit;

use core::fmt;

pub use crate::split::Broken;
pub use csb::Csb;
pub use descriptor::{Context, Data, Descriptor, Legacy, Received, rx, tx};
pub use device::DeviceRing;
pub use ends::Ends;
pub use receive::RxDriver;
pub use transmit::{TxDriver, TxSlot};

/// Octets of a descriptor.
pub const DESCRIPTOR: u32 = 16;
/// A ring's length in octets is a multiple of this (register RDLEN, TDLEN).
pub const LENGTH_UNIT: u32 = 128;
/// The longest ring in octets that RDLEN and TDLEN can hold.
pub const MAX_LENGTH: u32 = 0xf_ff80;

/// Where a ring lies in guest memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Guest-physical address, a multiple of 16.
    pub base: u64,
    /// Entries, a multiple of 8 and not 0.
    pub entries: u16,
}

impl Layout {
    /// From what the registers of a ring hold: the address (RDBAL, RDBAH, TDBAL, TDBAH), and its length in octets
    /// (RDLEN, TDLEN).
    pub const fn new(base: u64, octets: u32) -> Result<Self, LayoutError> {
        if octets == 0 || octets > MAX_LENGTH || !octets.is_multiple_of(LENGTH_UNIT) {
            return Err(LayoutError::Length(octets));
        }
        if !base.is_multiple_of(DESCRIPTOR as u64) {
            return Err(LayoutError::Alignment(base));
        }
        Ok(Self { base, entries: (octets / DESCRIPTOR) as u16 })
    }

    /// Octets.
    pub const fn octets(&self) -> u32 {
        self.entries as u32 * DESCRIPTOR
    }
}

/// Why a ring or a status block cannot be used where it is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Octets of a ring that are 0, no multiple of [`LENGTH_UNIT`], or more than [`MAX_LENGTH`].
    Length(u32),
    /// An address that is not aligned: a ring lies at a multiple of 16, a status block at one of 64.
    Alignment(u64),
    /// A ring or a block that does not lie in the guest's memory as a whole.
    Outside(u64),
    /// A head that is no position in the ring.
    Head(u16),
    /// Private storage of a driver that does not have one place for each entry.
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

/// How far it is in a ring from one position to another.
#[inline(always)]
const fn distance(from: u16, to: u16, entries: u16) -> u16 {
    if to >= from { to - from } else { entries - from + to }
}

/// The position `n` (at most a ring) after another one.
#[inline(always)]
const fn after(position: u16, n: u16, entries: u16) -> u16 {
    // Two positions may add up to more than 16 bits hold.
    let sum = position as u32 + n as u32;
    let entries = entries as u32;
    (if sum >= entries { sum - entries } else { sum }) as u16
}

#[cfg(test)]
mod tests;
