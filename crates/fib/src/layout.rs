//! Memory layout of the table.
//!
//! The crate has no unsafe code, so the code that maps the memory creates the references: with `base` the
//! address of at least [`len`]`(groups)` zeroed octets, 4096-octet aligned,
//! ```text
//! header    = &*(base                 as *const Header)
//! next_hops = &*(base + NEXT_HOPS_AT  as *const [AtomicU64; NEXT_HOPS])
//! buckets   = &*(base + BUCKETS_AT    as *const [AtomicU64; BUCKETS])
//! tbl24     = &*(base + TBL24_AT      as *const [AtomicU32; TBL24])
//! tbl8      = slice::from_raw_parts(base + TBL8_AT as *const AtomicU32, groups * GROUP)
//! ```
//! All fields are atomics, for which every bit pattern is valid.

use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of a table; changes with the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ringfib3");
/// Maximum number of next hops of a table; number 0 is "no route".
pub const NEXT_HOPS: usize = 1 << 16;
/// Number of buckets of all groups of next hops together.
pub const BUCKETS: usize = 1 << 17;
/// Number of entries of the first table.
pub const TBL24: usize = 1 << 24;
/// Number of entries of one group of the second table.
pub const GROUP: usize = 256;
/// Offset of the next hops.
pub const NEXT_HOPS_AT: usize = 4096;
/// Offset of the buckets.
pub const BUCKETS_AT: usize = NEXT_HOPS_AT + 8 * NEXT_HOPS;
/// Offset of the first table.
pub const TBL24_AT: usize = BUCKETS_AT + 8 * BUCKETS;
/// Offset of the second table.
pub const TBL8_AT: usize = TBL24_AT + 4 * TBL24;

/// Returns the size in octets of a table with this many groups for prefixes longer than /24.
pub const fn len(groups: usize) -> usize {
    TBL8_AT + 4 * GROUP * groups
}

/// Returns the number of groups of a table of this many octets.
pub const fn groups(len: usize) -> usize {
    len.saturating_sub(TBL8_AT) / (4 * GROUP)
}

/// Maximum number of different IPv6 gateways of a table (RFC 8950).
pub const GATEWAYS6: usize = 240;

/// The first page of a table.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Header {
    /// [`MAGIC`], once the table has a writer.
    pub magic: AtomicU64,
    /// Number of the default route's next hop; 0: none.
    pub default_route: AtomicU32,
    /// Changes after each batch of changes.
    pub epoch: AtomicU32,
    /// Offset in octets of the IPv6 table ([`crate::six`]) in the same memory; 0: there is none.
    pub six_at: AtomicU64,
    /// IPv6 gateways, in two words each, the high one first; zeros: a free place. A next hop refers to them by number.
    pub gateways6: [[AtomicU64; 2]; GATEWAYS6],
}

impl Default for Header {
    fn default() -> Self {
        Self {
            magic: AtomicU64::new(0),
            default_route: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            six_at: AtomicU64::new(0),
            gateways6: [const { [const { AtomicU64::new(0) }; 2] }; GATEWAYS6],
        }
    }
}

impl Header {
    /// Returns true if a table of this layout follows.
    pub fn is_valid(&self) -> bool {
        self.magic.load(Acquire) == MAGIC
    }
}

/// The parts of a table.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    /// The first page.
    pub header: &'a Header,
    /// The array of next hops.
    pub next_hops: &'a [AtomicU64; NEXT_HOPS],
    /// The buckets of groups of next hops.
    pub buckets: &'a [AtomicU64; BUCKETS],
    /// The first table.
    pub tbl24: &'a [AtomicU32; TBL24],
    /// The second table.
    pub tbl8: &'a [AtomicU32],
}

/// Bit of an entry that refers to a group.
pub(crate) const IS_GROUP: u32 = 1 << 31;
/// Bits of an entry that hold the number of a next hop or a group.
pub(crate) const NUMBER: u32 = (1 << 25) - 1;
/// Position in an entry of the length of the prefix that it stems from.
#[cfg(feature = "rib")]
pub(crate) const DEPTH_SHIFT: u32 = 25;
