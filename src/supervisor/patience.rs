//! How long the data plane may leave something unanswered.
//!
//! A question has to be answered, or anything else be said, within [`ANSWER`]. While the data plane brings routers up it
//! says nothing else, so it is given time for each of them, until it has answered just that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For a question.
const ANSWER: Duration = Duration::from_secs(10);
/// More, for each router that is brought up or changed.
const ROUTER: Duration = Duration::from_secs(2);
/// After this time without an answer it is said to be busy.
pub(super) const LATE: Duration = Duration::from_secs(1);

/// What is unanswered.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Until when something has to be said, because something was asked.
    due: Option<Instant>,
    /// What keeps it from answering anything else, by the number of the question: since when, and until when at most.
    busy: BTreeMap<u64, (Instant, Instant)>,
}

impl Patience {
    /// Something was asked that takes no time.
    pub(super) fn asked(&mut self, now: Instant) {
        self.due = self.due.or(Some(now + ANSWER));
    }

    /// Something was asked for which so many routers are brought up or changed.
    pub(super) fn asked_for(&mut self, id: u64, routers: u32, now: Instant) {
        let before = self.busy.values().map(|(_, until)| *until).max();
        let until = before.unwrap_or(now).max(now) + ANSWER + ROUTER * routers;
        self.busy.insert(id, (now, until));
    }

    /// Something was said.
    pub(super) fn heard(&mut self) {
        self.due = None;
    }

    /// This question was answered.
    pub(super) fn answered(&mut self, id: u64) {
        if self.busy.remove(&id).is_some() {
            // What was asked meanwhile had to wait.
            self.due = None;
        }
    }

    /// Until when something has to be said.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.busy.values().map(|(_, until)| *until).max().or(self.due)
    }

    /// Whether something is unanswered for longer than it takes one that is healthy and not busy.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        let busy = self.busy.values().any(|(since, _)| *since + LATE < now);
        busy || self.due.is_some_and(|due| due + LATE < now + ANSWER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_question_counts_and_any_word_answers() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        assert_eq!(patience.deadline(), None);
        patience.asked(start);
        patience.asked(start + 5 * SECOND);
        assert_eq!(patience.deadline(), Some(start + 10 * SECOND));
        assert!(!patience.is_late(start + SECOND) && patience.is_late(start + 2 * SECOND));
        patience.heard();
        assert_eq!(patience.deadline(), None);
        assert!(!patience.is_late(start + 100 * SECOND));
    }

    #[test]
    fn routers_take_their_time_until_they_are_answered_for() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.asked_for(7, 100, start);
        patience.asked(start + SECOND);
        // It asks for a process meanwhile.
        patience.heard();
        patience.asked(start + 50 * SECOND);
        assert_eq!(patience.deadline(), Some(start + 210 * SECOND));
        assert!(patience.is_late(start + 2 * SECOND));
        patience.answered(6);
        assert_eq!(patience.deadline(), Some(start + 210 * SECOND));
        patience.answered(7);
        assert_eq!(patience.deadline(), None);
    }

    #[test]
    fn one_after_the_other() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.asked_for(1, 1, start);
        patience.asked_for(2, 1, start);
        assert_eq!(patience.deadline(), Some(start + 24 * SECOND));
        patience.answered(1);
        assert_eq!(patience.deadline(), Some(start + 24 * SECOND));
        patience.answered(2);
        assert_eq!(patience.deadline(), None);
    }
}
