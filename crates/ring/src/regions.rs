//! Guest memory of several ranges: low and high memory of a PC, memory that was plugged in, the many mappings of a
//! process that plays a guest.

use arrayvec::ArrayVec;

use crate::{Bytes, Region};

/// Maximum number of ranges of one guest; a vhost-user memory table has no more descriptors than this.
pub const MOST_REGIONS: usize = 32;

/// Up to [`MOST_REGIONS`] ranges of one guest's memory.
///
/// A search through all ranges would be paid for each descriptor, and nearly all buffers of a queue lie in one or two
/// ranges. So those two are cached in [`RegionCache`]: a lookup tries the first one, which is all that a guest with one range
/// ever costs, then the second. A caller that finds an address in another range makes that range the second
/// ([`Self::cache`]).
#[derive(Clone, Debug)]
pub struct Regions {
    near: RegionCache,
    all: ArrayVec<Region, MOST_REGIONS>,
}

/// The two ranges that a lookup tries first.
#[derive(Clone, Copy, Debug)]
pub struct RegionCache {
    first: Region,
    second: Region,
}

impl From<Region> for Regions {
    fn from(region: Region) -> Self {
        Self { near: RegionCache { first: region, second: region }, all: ArrayVec::from_iter([region]) }
    }
}

impl Regions {
    /// Collects ranges; `None` if there are none or too many. Where ranges overlap, any of them may be used.
    pub fn new(ranges: impl IntoIterator<Item = Region>) -> Option<Self> {
        let mut all = ArrayVec::new();
        for range in ranges {
            all.try_push(range).ok()?;
        }
        // The largest first, because guests have their buffers there.
        let first = *all.iter().max_by_key(|range| range.len())?;
        Some(Self { near: RegionCache { first, second: first }, all })
    }

    /// Returns the ranges that a lookup tries first.
    #[inline(always)]
    pub const fn near(&self) -> RegionCache {
        self.near
    }

    /// Returns the range that contains all of `[address, address + len)`.
    pub fn find(&self, address: u64, len: u64) -> Option<&Region> {
        self.all.iter().find(|range| range.translate(address, len).is_some())
    }

    /// Returns the piece `[address, address + len)`; `None` unless one range contains all of it.
    #[cold]
    pub fn bytes(&self, address: u64, len: u32) -> Option<Bytes<'static>> {
        self.near.bytes(address, len).or_else(|| self.find(address, u64::from(len))?.bytes(address, len))
    }

    /// Records that buffers lie around `address`: lookups try its range second from now on.
    #[cold]
    pub fn cache(&mut self, address: u64) {
        if self.near.bytes(address, 1).is_none()
            && let Some(range) = self.find(address, 1)
        {
            self.near.second = *range;
        }
    }
}

impl RegionCache {
    /// Returns the piece `[address, address + len)`; `None` unless one of the two ranges contains all of it.
    #[inline(always)]
    pub fn bytes(&self, address: u64, len: u32) -> Option<Bytes<'static>> {
        match self.first.bytes(address, len) {
            None => self.second.bytes(address, len),
            found => found,
        }
    }
}

#[cfg(test)]
mod tests;
