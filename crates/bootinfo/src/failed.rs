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

const fn word(six: bool, number: u32) -> u64 {
    USED | if six { SIX } else { 0 } | number as u64
}

impl FailedHops {
    /// Adds a next hop by its number in one of the two tables; further ones than [`MOST_FAILED`] are left out.
    pub fn report(&self, six: bool, number: u32) {
        let word = word(six, number);
        if self.0.iter().all(|place| place.load(Relaxed) != word) {
            let _ = self.0.iter().find(|place| place.compare_exchange(0, word, AcqRel, Relaxed).is_ok());
        }
    }

    /// Removes a next hop.
    pub fn withdraw(&self, six: bool, number: u32) {
        for place in &self.0 {
            // Another vCPU may have removed it meanwhile.
            let _ = place.compare_exchange(word(six, number), 0, AcqRel, Relaxed);
        }
    }

    /// Returns all next hops: whether each is of the IPv6 table, and its number.
    pub fn read(&self) -> impl Iterator<Item = (bool, u32)> {
        let words = self.0.iter().map(|place| place.load(Acquire));
        words.filter(|word| word & USED != 0).map(|word| (word & SIX != 0, word as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once_until_it_is_withdrawn() {
        let failed = FailedHops::default();
        for (six, number) in [(false, 7), (true, 7), (false, 7), (false, u32::MAX)] {
            failed.report(six, number);
        }
        assert!(failed.read().eq([(false, 7), (true, 7), (false, u32::MAX)]));
        failed.withdraw(true, 7);
        failed.withdraw(true, 8);
        assert!(failed.read().eq([(false, 7), (false, u32::MAX)]));
        (0..100).for_each(|number| failed.report(true, number));
        assert_eq!(failed.read().count(), MOST_FAILED);
    }
}
