//! A guest's memory where it is not one range: low and high memory of a PC, memory that was plugged in, the many
//! mappings of a process that plays a guest.

use arrayvec::ArrayVec;

use crate::{Bytes, Region};

/// Most ranges of one guest (a vhost-user memory table has no more descriptors than this).
pub const MOST_REGIONS: usize = 32;

/// Up to [`MOST_REGIONS`] ranges of one guest's memory.
///
/// A search through all would be paid for each descriptor, and nearly all buffers of a queue lie in one or two ranges. So
/// those two are [`Near`]: the first is looked at first, which is all that a guest with one range ever costs, then the
/// second; who finds an address elsewhere makes that range the second.
#[derive(Clone, Debug)]
pub struct Regions {
    near: Near,
    all: ArrayVec<Region, MOST_REGIONS>,
}

/// The two ranges that are looked at first.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    first: Region,
    second: Region,
}

impl From<Region> for Regions {
    fn from(region: Region) -> Self {
        Self { near: Near { first: region, second: region }, all: ArrayVec::from_iter([region]) }
    }
}

impl Regions {
    /// These ranges; `None` if there are none or too many. Where they overlap any of them may count.
    pub fn new(ranges: impl IntoIterator<Item = Region>) -> Option<Self> {
        let mut all = ArrayVec::new();
        for range in ranges {
            all.try_push(range).ok()?;
        }
        // The largest first: that is where a guest has its buffers.
        let first = *all.iter().max_by_key(|range| range.len())?;
        Some(Self { near: Near { first, second: first }, all })
    }

    /// The ranges that are looked at first.
    #[inline(always)]
    pub const fn near(&self) -> Near {
        self.near
    }

    /// The range in which `[address, address + len)` lies as a whole.
    pub fn find(&self, address: u64, len: u64) -> Option<&Region> {
        self.all.iter().find(|range| range.translate(address, len).is_some())
    }

    /// The piece `[address, address + len)`, if it lies in one of the ranges as a whole.
    #[cold]
    pub fn bytes(&self, address: u64, len: u32) -> Option<Bytes<'static>> {
        self.near.bytes(address, len).or_else(|| self.find(address, u64::from(len))?.bytes(address, len))
    }

    /// Takes note that buffers lie around `address`: its range is looked at second from now on.
    #[cold]
    pub fn visit(&mut self, address: u64) {
        if self.near.bytes(address, 1).is_none()
            && let Some(range) = self.find(address, 1)
        {
            self.near.second = *range;
        }
    }
}

impl Near {
    /// The piece `[address, address + len)`, if it lies in one of the two as a whole.
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
