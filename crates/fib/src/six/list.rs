//! Intervals: into which routes divide the addresses below a prefix.

use alloc::vec::Vec;

/// First address of an interval, and its next hop; it ends where the next one begins.
pub(crate) type Interval = (u128, u32);

/// Returns the intervals of the addresses `first..=last`. `cover` is the next hop of those that none of `routes` covers;
/// the routes (first and last address, next hop) are in the order of (prefix, length).
pub(crate) fn intervals(
    (first, last): (u128, u128),
    cover: u32,
    routes: impl Iterator<Item = (u128, u128, u32)>,
) -> Vec<Interval> {
    let mut found = Sweep { intervals: alloc::vec![(first, cover)], open: alloc::vec![(last, cover)] };
    for (start, end, next_hop) in routes {
        found.close_before(start);
        found.begin(start, next_hop);
        found.open.push((end, next_hop));
    }
    found.close_before(last);
    found.intervals
}

/// Intervals so far, and the routes that cover the present address, the longest prefix last.
struct Sweep {
    intervals: Vec<Interval>,
    open: Vec<(u128, u32)>,
}

impl Sweep {
    /// Ends the routes that end before `at`.
    fn close_before(&mut self, at: u128) {
        while let [.., (_, outer), (end, _)] = self.open[..]
            && end < at
        {
            self.open.pop();
            self.begin(end + 1, outer);
        }
    }

    /// Begins an interval. One that begins at the same address was empty; one with the same next hop goes on.
    fn begin(&mut self, at: u128, next_hop: u32) {
        if let Some((start, _)) = self.intervals.last()
            && *start == at
        {
            self.intervals.pop();
        }
        if self.intervals.last().is_none_or(|(_, last)| *last != next_hop) {
            self.intervals.push((at, next_hop));
        }
    }
}
