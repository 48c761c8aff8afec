//! Memory for frames that are larger than a slot: those still to be segmented (GSO), and jumbo frames.
//!
//! ```text
//!   slot of 2048 octets: | number | not used ........ |      large place: | frame ............... |
//!                             \------------------------------------------^
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::{Bytes, Slots};

use super::leases::Filled;
use super::{LONGEST, SLOT};

/// Maximum number of places: 4 MiB, which are 3 ms at 10 Gbit/s.
const MOST: u32 = 64;

pub(super) struct Large {
    places: Slots,
    /// Free places, used last in, first out: memory that is never needed is never touched.
    free: Mutex<Vec<u32>>,
}

impl Large {
    /// Creates the places for a queue of `count` frames.
    pub(super) fn new(count: u32) -> Self {
        let count = count.min(MOST);
        Self { places: Slots::new(count as usize, LONGEST), free: Mutex::new((0..count).rev().collect()) }
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        // A panicking thread cannot leave a vector in an invalid state.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a place for the frame that has this slot, and stores the place's number in the slot; `None` if all
    /// places are in use.
    #[cold]
    pub(super) fn lease(&self, slots: &Slots, slot: u32, len: usize) -> Option<Bytes<'_>> {
        let number = slots.get(slot as usize, size_of::<u32>())?;
        let place = self.free().pop()?;
        number.write(0, place.to_ne_bytes());
        self.places.get(place as usize, len)
    }

    /// Returns the number of places in use.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.places.count() - self.free().len()
    }

    /// Returns the place of a frame that is ready.
    #[cold]
    pub(super) fn get(&self, slots: &Slots, filled: &Filled) -> Option<Bytes<'_>> {
        self.places.get(number(slots, filled)? as usize, filled.len as usize)
    }

    /// Frees the places of these frames, of those that have one.
    #[inline(always)]
    pub(super) fn give_back(&self, slots: &Slots, filled: &[Filled]) {
        if filled.iter().any(is_large) {
            self.free().extend(
                filled.iter().filter(|filled| is_large(filled)).filter_map(|filled| number(slots, filled)),
            );
        }
    }
}

#[inline(always)]
const fn is_large(filled: &Filled) -> bool {
    filled.len as usize > SLOT
}

/// Returns the place number that a large frame's slot holds.
fn number(slots: &Slots, filled: &Filled) -> Option<u32> {
    slots.get(filled.slot as usize, size_of::<u32>())?.read(0).map(u32::from_ne_bytes)
}
