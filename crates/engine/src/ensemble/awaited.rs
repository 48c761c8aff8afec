//! Probes of a member that comes up or wakes: that all of them are back is known at once, and not when the round ends.

use std::sync::atomic::{AtomicU64, Ordering};

use group::probe;

/// Bits of the NICs.
const NICS: u64 = 0xffff;
// One for each NIC of a member.
const _: () = assert!(probe::MOST_NICS as u32 <= NICS.count_ones());

/// Probes that a member is waited for: one more than their number, and behind it a bit for each NIC that one has entered and that has
/// not come back.
#[derive(Default)]
pub(super) struct AwaitedProbes(AtomicU64);

impl AwaitedProbes {
    /// Probes of this number are about to enter these NICs, one bit each. Others are not waited for any more.
    pub(super) fn set(&self, number: u32, nics: u16) {
        self.0.store(numbered(number) | u64::from(nics), Ordering::Release);
    }

    /// The probe of this number has come back that had entered this NIC; true if it was the last one that was waited for. A member that
    /// sends it again is not heard again.
    pub(super) fn note(&self, nic: u8, number: u32) -> bool {
        let bit = 1_u64.checked_shl(nic.into()).unwrap_or(0) & NICS;
        let without = |known: u64| {
            let is_awaited = known & !NICS == numbered(number) && known & bit != 0;
            is_awaited.then_some(known & !bit)
        };
        let known = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, without);
        known.is_ok_and(|known| known & NICS == bit)
    }
}

/// A number in its place, where 0 is none.
const fn numbered(number: u32) -> u64 {
    (number as u64 + 1) << NICS.count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_probe_that_comes_back_is_told_once() {
        let awaited = AwaitedProbes::default();
        assert!(!awaited.note(0, 0), "none is waited for");
        awaited.set(u32::MAX, 0b101);
        assert!(!awaited.note(2, u32::MAX) && !awaited.note(2, u32::MAX), "one is missing");
        assert!(!awaited.note(0, u32::MAX - 1) && !awaited.note(1, u32::MAX) && !awaited.note(64, u32::MAX));
        assert!(awaited.note(0, u32::MAX));
        assert!(!awaited.note(0, u32::MAX) && !awaited.note(2, u32::MAX));
        awaited.set(0, 0b10);
        assert!(awaited.note(1, 0));
    }
}
