//! Sequence check of one flow.

/// Number of a flow's latest frames that are tracked individually.
const REMEMBERED: u32 = 32;

/// Result of checking a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceCheck {
    /// The expected number.
    InOrder,
    /// This many numbers before it are missing.
    Missed(u32),
    /// A number that was missing, arrived late.
    Late,
    /// A number that had arrived already.
    Repeated,
    /// Too old to tell whether late or repeated.
    Stale,
}

/// State of one flow: the next expected number, and a bitmap of missing numbers before it (bit 0: the
/// latest).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    next: u32,
    missing: u32,
}

impl Flow {
    /// Records frame `sequence`.
    #[inline(always)]
    pub(super) fn see(&mut self, sequence: u32) -> SequenceCheck {
        if sequence == self.next {
            self.next = sequence.wrapping_add(1);
            self.missing <<= 1;
            return SequenceCheck::InOrder;
        }
        self.see_out_of_order(sequence)
    }

    #[cold]
    fn see_out_of_order(&mut self, sequence: u32) -> SequenceCheck {
        let ahead = sequence.wrapping_sub(self.next);
        if ahead < 1 << 31 {
            let shifted = self.missing.checked_shl(ahead + 1).unwrap_or(0);
            let gap = 1u32.checked_shl(ahead).unwrap_or(0).wrapping_sub(1) << 1;
            self.missing = shifted | gap;
            self.next = sequence.wrapping_add(1);
            return SequenceCheck::Missed(ahead);
        }
        let back = self.next.wrapping_sub(1).wrapping_sub(sequence);
        if back >= REMEMBERED {
            return SequenceCheck::Stale;
        }
        let bit = 1 << back;
        if self.missing & bit == 0 {
            return SequenceCheck::Repeated;
        }
        self.missing &= !bit;
        SequenceCheck::Late
    }
}
