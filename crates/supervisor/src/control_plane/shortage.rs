//! What is done about routes of zebra for which there is no room: it is told once, and when there is room again zebra sends everything.

/// Milliseconds between two requests to send everything, which take zebra and this thread some time.
const PAUSE: u64 = 60_000;

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Tell that routes were refused.
    Tell,
    /// Have zebra send everything again.
    Ask,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    is_told: bool,
    /// No request before, in milliseconds.
    next: u64,
}

impl Shortage {
    /// Looks whether routes were refused in zebra's present session, and whether there is room again for such.
    pub(super) fn look(&mut self, is_short: bool, has_room_again: bool, now: u64) -> Option<Act> {
        let was_told = std::mem::replace(&mut self.is_told, is_short);
        if !is_short {
            return None;
        }
        if !was_told {
            return Some(Act::Tell);
        }
        if !has_room_again || now < self.next {
            return None;
        }
        self.next = now + PAUSE;
        Some(Act::Ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_once_and_everything_asked_for_at_most_once_a_minute() {
        let mut shortage = Shortage::default();
        assert_eq!(shortage.look(false, false, 0), None);
        assert_eq!(shortage.look(true, false, 1000), Some(Act::Tell));
        assert_eq!(shortage.look(true, false, 2000), None);
        assert_eq!(shortage.look(true, true, 3000), Some(Act::Ask));
        // zebra has not connected yet; and then there is no room again.
        assert_eq!(shortage.look(true, true, 3001), None);
        assert_eq!(shortage.look(false, false, 6000), None);
        assert_eq!(shortage.look(true, true, 7000), Some(Act::Tell));
        assert_eq!([62_999, 63_000].map(|now| shortage.look(true, true, now)), [None, Some(Act::Ask)]);
    }
}
