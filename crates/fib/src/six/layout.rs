//! Memory layout of the IPv6 table.
//!
//! The crate has no unsafe code, so the code that maps the memory creates the references: with `base` the address of at
//! least [`len`]`(nodes, ranges)` zeroed octets, 4096-octet aligned,
//! ```text
//! header    = &*(base                 as *const Header)
//! next_hops = &*(base + NEXT_HOPS_AT  as *const [AtomicU64; HOP_WORDS * NEXT_HOPS])
//! buckets   = &*(base + BUCKETS_AT    as *const [AtomicU64; BUCKETS])
//! root      = &*(base + ROOT_AT       as *const [AtomicU64; ROOT])
//! nodes     = slice::from_raw_parts(base + NODES_AT as *const AtomicU64, nodes * NODE)
//! ranges    = slice::from_raw_parts(base + NODES_AT + 8 * NODE * nodes as *const AtomicU64, ranges)
//! ```
//! All fields are atomics, for which every bit pattern is valid.

use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of a table; changes with the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ringfb63");
/// Maximum number of next hops of a table; number 0 is "no route".
pub const NEXT_HOPS: usize = 1 << 14;
/// Words of one next hop.
pub const HOP_WORDS: usize = 4;
/// Number of buckets of all groups of next hops together.
pub const BUCKETS: usize = 1 << 16;
/// Number of entries of the root.
pub const ROOT: usize = 1 << 16;
/// Number of entries of a node.
pub const NODE: usize = 256;
/// Offset of the next hops.
pub const NEXT_HOPS_AT: usize = 4096;
/// Offset of the buckets.
pub const BUCKETS_AT: usize = NEXT_HOPS_AT + 8 * HOP_WORDS * NEXT_HOPS;
/// Offset of the root.
pub const ROOT_AT: usize = BUCKETS_AT + 8 * BUCKETS;
/// Offset of the nodes.
pub const NODES_AT: usize = ROOT_AT + 8 * ROOT;

/// Returns the size in octets of a table with this many nodes and words of ranges.
pub const fn len(nodes: usize, ranges: usize) -> usize {
    NODES_AT + 8 * (NODE * nodes + ranges)
}

/// The first page of a table.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Header {
    /// [`MAGIC`], once the table has a writer.
    pub magic: AtomicU64,
    /// Number of the default route's next hop; 0: none.
    pub default_route: AtomicU32,
    /// Changes after each batch of changes.
    pub epoch: AtomicU32,
    /// Number of nodes, and of words of ranges, that follow.
    pub nodes: AtomicU32,
    /// See [`Header::nodes`].
    pub ranges: AtomicU32,
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
    /// The next hops.
    pub next_hops: &'a [AtomicU64; HOP_WORDS * NEXT_HOPS],
    /// The buckets of groups of next hops.
    pub buckets: &'a [AtomicU64; BUCKETS],
    /// The root.
    pub root: &'a [AtomicU64; ROOT],
    /// The nodes.
    pub nodes: &'a [AtomicU64],
    /// The lists of intervals.
    pub ranges: &'a [AtomicU64],
}

/// Depth of the root's entries in bits.
pub(crate) const ROOT_BITS: u8 = 16;
/// Bits of one node.
#[cfg(feature = "rib")]
pub(crate) const NODE_BITS: u8 = 8;
/// Depth at which only lists with keys of 64 bits follow.
#[cfg(feature = "rib")]
pub(crate) const WIDE_DEPTH: u8 = 64;
/// Bits of a key in a list of words.
#[cfg(feature = "rib")]
pub(crate) const KEY_BITS: u8 = 32;

/// What an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A next hop; number 0: the default route.
    Leaf,
    /// A node for the next 8 bits.
    Node,
    /// A list with keys of 32 bits: `key << 32 | next hop` in each word.
    List,
    /// A list with keys of 64 bits: two words each.
    Wide,
}

/// An entry of root or node.
///
/// ```text
///   63  60 59  48 47        32 31                      0
///  +------+------+------------+-------------------------+
///  | kind |  0   | intervals  | next hop, node or place |
///  +------+------+------------+-------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// Creates an entry of this kind; `count` is 0 unless it is a list.
    #[cfg(feature = "rib")]
    pub(crate) const fn new(kind: Kind, number: u32, count: u16) -> Self {
        Self((kind as u64) << 60 | (count as u64) << 32 | number as u64)
    }

    #[inline(always)]
    pub(crate) const fn kind(self) -> Kind {
        match self.0 >> 60 {
            1 => Kind::Node,
            2 => Kind::List,
            3 => Kind::Wide,
            _ => Kind::Leaf,
        }
    }

    /// Returns the next hop, the number of the node, or the first word of the list.
    #[inline(always)]
    pub(crate) const fn number(self) -> usize {
        self.0 as u32 as usize
    }

    /// Returns the number of intervals of a list.
    #[inline(always)]
    pub(crate) const fn count(self) -> usize {
        (self.0 >> 32) as u16 as usize
    }
}
