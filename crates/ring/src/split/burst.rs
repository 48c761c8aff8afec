//! What a device took out of the available ring and has not yet returned.

use arrayvec::ArrayVec;

use crate::{BURST, Bytes};

/// Most buffers of one chain that are shown; a longer chain shows none (it can only be returned).
pub const MAX_SEGMENTS: usize = 64;
/// Buffers of all chains of a burst that have more than one. A burst ends when it may not hold another chain.
pub(super) const SPILL: usize = 4 * MAX_SEGMENTS;

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
}

impl Burst {
    /// An empty burst.
    pub const fn new() -> Self {
        Self { chains: ArrayVec::new_const(), segments: ArrayVec::new_const() }
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
    }
}
