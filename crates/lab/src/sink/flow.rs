//! The order of one flow's frames.

/// How many of a flow's latest frames are remembered one by one.
const REMEMBERED: u32 = 32;

/// What a frame's number says about the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The next one.
    InOrder,
    /// So many are missing before it.
    Missed(u32),
    /// One that was missing, late.
    Late,
    /// One that was there already.
    Again,
    /// Too old to tell which.
    Stale,
}

/// One flow: the number expected next, and which of the numbers before it are missing (bit 0: the last one).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    next: u32,
    missing: u32,
}

impl Flow {
    /// Notes frame `sequence`.
    #[inline(always)]
    pub(super) fn see(&mut self, sequence: u32) -> Seen {
        if sequence == self.next {
            self.next = sequence.wrapping_add(1);
            self.missing <<= 1;
            return Seen::InOrder;
        }
        self.see_out_of_order(sequence)
    }

    #[cold]
    fn see_out_of_order(&mut self, sequence: u32) -> Seen {
        let ahead = sequence.wrapping_sub(self.next);
        if ahead < 1 << 31 {
            let shifted = self.missing.checked_shl(ahead + 1).unwrap_or(0);
            let gap = 1u32.checked_shl(ahead).unwrap_or(0).wrapping_sub(1) << 1;
            self.missing = shifted | gap;
            self.next = sequence.wrapping_add(1);
            return Seen::Missed(ahead);
        }
        let back = self.next.wrapping_sub(1).wrapping_sub(sequence);
        if back >= REMEMBERED {
            return Seen::Stale;
        }
        let bit = 1 << back;
        if self.missing & bit == 0 {
            return Seen::Again;
        }
        self.missing &= !bit;
        Seen::Late
    }
}
