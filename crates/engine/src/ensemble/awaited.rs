//! Probes of a member that starts or wakes: that all have come back is noticed at once, not at the end of the round.

use std::sync::atomic::{AtomicU64, Ordering};

use group::probe;

/// Bits of the NICs.
const NICS: u64 = 0xffff_ffff;
// One for each NIC of a member.
const _: () = assert!(probe::MOST_NICS as u32 <= NICS.count_ones());

/// Awaited probes of a member: their number, followed by a bit for each NIC by which one has entered and has not come back; without any
/// bit none is awaited.
#[derive(Default)]
pub(super) struct AwaitedProbes(AtomicU64);

impl AwaitedProbes {
    /// Awaits probes with this number, which are about to enter these NICs, one bit each, and no others.
    pub(super) fn set(&self, number: u32, nics: u32) {
        self.0.store(numbered(number) | u64::from(nics), Ordering::Release);
    }

    /// Notes that the probe with this number, which entered this NIC, has come back; returns true if it was the last awaited one. Copies of
    /// it have no effect.
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

/// Returns a number in its place.
const fn numbered(number: u32) -> u64 {
    (number as u64) << NICS.count_ones()
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
        awaited.set(7, u32::MAX);
        assert!((0..31).all(|nic| !awaited.note(nic, 7)) && !awaited.note(32, 7), "one of 32 is missing");
        assert!(awaited.note(31, 7));
    }
}
