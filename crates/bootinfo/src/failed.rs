//! Next hops of groups that a firmware does not reach.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Maximum number of next hops that are reported at a time.
pub const MOST_FAILED: usize = 64;
/// Bit of a word that is in use, and of one for the IPv6 table.
const USED: u64 = 1 << 63;
const SIX: u64 = 1 << 62;

/// A list of next hops in no order, which the vCPUs write and the host reads. An entry may be there twice for a moment.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FailedHops([AtomicU64; MOST_FAILED]);

impl Default for FailedHops {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; MOST_FAILED])
    }
}

/// Place of the number of a table in a word.
const TABLE_SHIFT: u32 = 32;

/// A next hop: its route table, whether it is of the IPv6 one, and its number there.
pub type NumberedHop = (u8, bool, u32);

const fn word((table, six, number): NumberedHop) -> u64 {
    USED | if six { SIX } else { 0 } | (table as u64) << TABLE_SHIFT | number as u64
}

impl FailedHops {
    /// Adds a next hop; further ones than [`MOST_FAILED`] are left out.
    pub fn report(&self, hop: NumberedHop) {
        let word = word(hop);
        if self.0.iter().all(|place| place.load(Relaxed) != word) {
            let _ = self.0.iter().find(|place| place.compare_exchange(0, word, AcqRel, Relaxed).is_ok());
        }
    }

    /// Removes a next hop.
    pub fn withdraw(&self, hop: NumberedHop) {
        for place in &self.0 {
            // Another vCPU may have removed it meanwhile.
            let _ = place.compare_exchange(word(hop), 0, AcqRel, Relaxed);
        }
    }

    /// Returns all next hops.
    pub fn read(&self) -> impl Iterator<Item = NumberedHop> {
        let words = self.0.iter().map(|place| place.load(Acquire));
        let hop = |word: u64| ((word >> TABLE_SHIFT) as u8, word & SIX != 0, word as u32);
        words.filter(|word| word & USED != 0).map(hop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once_until_it_is_withdrawn() {
        let failed = FailedHops::default();
        for hop in [(0, false, 7), (0, true, 7), (31, false, 7), (0, false, 7), (0, false, u32::MAX)] {
            failed.report(hop);
        }
        assert!(failed.read().eq([(0, false, 7), (0, true, 7), (31, false, 7), (0, false, u32::MAX)]));
        failed.withdraw((0, true, 7));
        failed.withdraw((0, true, 8));
        assert!(failed.read().eq([(0, false, 7), (31, false, 7), (0, false, u32::MAX)]));
        (0..100).for_each(|number| failed.report((1, true, number)));
        assert_eq!(failed.read().count(), MOST_FAILED);
    }
}
