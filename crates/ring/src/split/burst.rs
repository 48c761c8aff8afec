//! Chains that a device has taken from the available ring and not yet returned.

use arrayvec::ArrayVec;

use crate::{BURST, Bytes};

/// Maximum number of buffers of one chain that are shown; a longer chain shows none and can only be returned.
pub const MAX_SEGMENTS: usize = 64;
/// Maximum number of descriptors of one chain, including the descriptors of tables, whatever the queue's size: a longer
/// chain breaks the queue.
///
/// Drivers need far fewer. Linux describes a frame by its header, its head and MAX_SKB_FRAGS pages (17, or up to 45 by
/// its configuration), in a table: 20 descriptors. The buffers of a chain with more than [`MAX_SEGMENTS`] of them are
/// not shown anyway; up to this limit such a chain is returned, and only its own frame is lost.
pub const MAX_DESCRIPTORS: u16 = 256;
/// Capacity for the buffers of a burst's multi-buffer chains. A burst ends when it may have no room for another chain.
pub(super) const SEGMENT_CAPACITY: usize = 4 * MAX_SEGMENTS;
/// Maximum number of descriptors that a burst reads for chains other than single buffers. The burst ends before a chain
/// that could exceed it; that chain is the first of the next burst.
///
/// A driver that posts no empty descriptors never reaches this limit: by the time that a burst has no room for another
/// chain it has read a descriptor for each buffer and a table for each chain, which leaves room for the longest chain
/// there is.
pub(super) const MAX_SLOW_DESCRIPTORS: usize = SEGMENT_CAPACITY + 2 * BURST + MAX_DESCRIPTORS as usize;

/// Value of `Chain::start` for a chain with more than [`MAX_SEGMENTS`] buffers.
pub(super) const TOO_MANY: u16 = u16::MAX;

/// One chain: first the buffers that the device reads, then those that it writes.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// The only buffer, if there is exactly one.
    pub(super) only: Bytes<'static>,
    pub(super) head: u16,
    /// Index of its first buffer in the burst's list, if there is more than one.
    pub(super) start: u16,
    pub(super) readable: u8,
    pub(super) writable: u8,
}

impl Chain {
    /// Returns the buffer, if the chain has exactly one.
    #[inline(always)]
    pub fn single(&self) -> Option<Bytes<'static>> {
        (self.readable + self.writable == 1).then_some(self.only)
    }

    /// Returns the buffer, if the chain has at most one ([`Burst::is_simple`]); an empty one otherwise.
    #[inline(always)]
    pub const fn only(&self) -> Bytes<'static> {
        self.only
    }

    /// Returns the number of its first descriptor, the id by which it is returned.
    #[inline(always)]
    pub const fn head(&self) -> u16 {
        self.head
    }

    /// Returns true if no buffer is shown: all were empty, or there were [too many](Self::too_many).
    pub const fn is_empty(&self) -> bool {
        self.readable + self.writable == 0
    }

    /// Returns true if the chain has more than [`MAX_SEGMENTS`] buffers.
    pub const fn too_many(&self) -> bool {
        self.start == TOO_MANY
    }
}

/// Up to [`BURST`] chains; reused for each burst.
#[derive(Debug, Default)]
pub struct Burst {
    pub(super) chains: ArrayVec<Chain, BURST>,
    pub(super) segments: ArrayVec<Bytes<'static>, SEGMENT_CAPACITY>,
    /// Descriptors read for the burst, without those of single-buffer chains.
    pub(super) steps: u16,
    /// True if the burst ended although more chains were requested and available.
    pub(super) cut: bool,
}

impl Burst {
    /// Creates an empty burst.
    pub const fn new() -> Self {
        Self { chains: ArrayVec::new_const(), segments: ArrayVec::new_const(), steps: 0, cut: false }
    }

    /// Returns the chains, in the order in which the driver made them available.
    #[inline(always)]
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Returns the number of chains.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.chains.len()
    }

    /// Returns true if there is no chain.
    pub const fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Returns true if no chain shows more than one buffer.
    #[inline(always)]
    pub const fn is_simple(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns how many descriptors were read for chains other than a single buffer in one of the two [near
    /// ranges](crate::regions::RegionCache).
    pub const fn steps(&self) -> usize {
        self.steps as usize
    }

    /// Returns true if the burst ended although more chains were requested and available, because it had no room for
    /// another chain or had reached its limit of descriptors.
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns true if the burst has room for a chain of any shape. An empty burst always has.
    pub(super) fn takes_any(&self) -> bool {
        let steps = self.steps() + usize::from(MAX_DESCRIPTORS) <= MAX_SLOW_DESCRIPTORS;
        steps && self.segments.remaining_capacity() >= MAX_SEGMENTS
    }

    /// Returns the buffers of one of its chains that the device may read.
    pub fn readable<'a>(&'a self, chain: &'a Chain) -> &'a [Bytes<'static>] {
        self.segments_of(chain).get(..usize::from(chain.readable)).unwrap_or(&[])
    }

    /// Returns the buffers of one of its chains that the device may write.
    pub fn writable<'a>(&'a self, chain: &'a Chain) -> &'a [Bytes<'static>] {
        self.segments_of(chain).get(usize::from(chain.readable)..).unwrap_or(&[])
    }

    fn segments_of<'a>(&'a self, chain: &'a Chain) -> &'a [Bytes<'static>] {
        let count = usize::from(chain.readable + chain.writable);
        if count == 1 {
            return core::slice::from_ref(&chain.only);
        }
        let start = usize::from(chain.start);
        // For a chain of another burst, whose buffers are not here, the slice is empty.
        self.segments.get(start..start + count).unwrap_or(&[])
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.chains.clear();
        self.segments.clear();
        self.steps = 0;
        self.cut = false;
    }
}
