//! What a device took out of the available ring and has not yet returned.

use arrayvec::ArrayVec;

use crate::{BURST, Bytes};

/// Most buffers of one chain that are shown; a longer chain shows none (it can only be returned).
pub const MAX_SEGMENTS: usize = 64;
/// Most descriptors of one chain, tables included, whatever the size of the queue: one with more is broken.
///
/// Drivers need far fewer. Linux describes a frame by its header, its head and MAX_SKB_FRAGS pages (17, or up to 45 by its
/// configuration), in a table: 20 descriptors. What has more than [`MAX_SEGMENTS`] buffers is not shown anyway; up to here it
/// is returned, and loses its frame alone.
pub const MAX_DESCRIPTORS: u16 = 256;
/// Buffers of all chains of a burst that have more than one. A burst ends when it may not hold another chain.
pub(super) const SPILL: usize = 4 * MAX_SEGMENTS;
/// Descriptors that a burst reads at most in chains that are not just one buffer. It ends before a chain that could lead
/// beyond; that one is the first of the next burst.
///
/// No driver without empty descriptors meets that end: by the time that a burst may hold no other chain it has read a
/// descriptor for each buffer and a table for each chain, which leaves room for the longest chain there is.
pub(super) const STEPS: usize = SPILL + 2 * BURST + MAX_DESCRIPTORS as usize;

/// `Chain::start` of a chain with more than [`MAX_SEGMENTS`] buffers.
pub(super) const TOO_MANY: u16 = u16::MAX;

/// One chain: the buffers that the device reads, then those that it writes.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// The only buffer, where there is only one.
    pub(super) only: Bytes<'static>,
    pub(super) head: u16,
    /// First of its buffers in the burst's list, where there is more than one.
    pub(super) start: u16,
    pub(super) readable: u8,
    pub(super) writable: u8,
}

impl Chain {
    /// The buffer, where the chain has exactly one.
    #[inline(always)]
    pub fn single(&self) -> Option<Bytes<'static>> {
        (self.readable + self.writable == 1).then_some(self.only)
    }

    /// The buffer, where the chain has at most one ([`Burst::is_simple`]); empty otherwise.
    #[inline(always)]
    pub const fn only(&self) -> Bytes<'static> {
        self.only
    }

    /// Number of its first descriptor: the name by which it is returned.
    #[inline(always)]
    pub const fn head(&self) -> u16 {
        self.head
    }

    /// Whether no buffer is shown: all were empty, or there were [too many](Self::too_many).
    pub const fn is_empty(&self) -> bool {
        self.readable + self.writable == 0
    }

    /// Whether the chain has more than [`MAX_SEGMENTS`] buffers.
    pub const fn too_many(&self) -> bool {
        self.start == TOO_MANY
    }
}

/// Up to [`BURST`] chains; reused for each burst.
#[derive(Debug, Default)]
pub struct Burst {
    pub(super) chains: ArrayVec<Chain, BURST>,
    pub(super) segments: ArrayVec<Bytes<'static>, SPILL>,
    /// Descriptors read for it, without those of chains that are one buffer.
    pub(super) steps: u16,
    /// Whether it ended although more chains were asked for and there.
    pub(super) cut: bool,
}

impl Burst {
    /// An empty burst.
    pub const fn new() -> Self {
        Self { chains: ArrayVec::new_const(), segments: ArrayVec::new_const(), steps: 0, cut: false }
    }

    /// The chains, in the order in which the driver made them available.
    #[inline(always)]
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Chains.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.chains.len()
    }

    /// Whether there is no chain.
    pub const fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Whether no chain has more than one buffer that is shown.
    #[inline(always)]
    pub const fn is_simple(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many descriptors were read for those of its chains that are not just one buffer near the last ones.
    pub const fn steps(&self) -> usize {
        self.steps as usize
    }

    /// Whether it ended although more chains were asked for and there: it could hold no other one, or read no more
    /// descriptors.
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether it may go on with a chain of any shape. One that is empty always may.
    pub(super) fn takes_any(&self) -> bool {
        let steps = self.steps() + usize::from(MAX_DESCRIPTORS) <= STEPS;
        steps && self.segments.remaining_capacity() >= MAX_SEGMENTS
    }

    /// The buffers of one of its chains that the device may read.
    pub fn readable<'a>(&'a self, chain: &'a Chain) -> &'a [Bytes<'static>] {
        self.segments_of(chain).get(..usize::from(chain.readable)).unwrap_or(&[])
    }

    /// The buffers of one of its chains that the device may write.
    pub fn writable<'a>(&'a self, chain: &'a Chain) -> &'a [Bytes<'static>] {
        self.segments_of(chain).get(usize::from(chain.readable)..).unwrap_or(&[])
    }

    fn segments_of<'a>(&'a self, chain: &'a Chain) -> &'a [Bytes<'static>] {
        let count = usize::from(chain.readable + chain.writable);
        if count == 1 {
            return core::slice::from_ref(&chain.only);
        }
        let start = usize::from(chain.start);
        // A chain of another burst: nothing of it is here.
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
