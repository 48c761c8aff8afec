//! How long the data plane may leave something unanswered.
//!
//! What was counted is told by a thread that does nothing else, so questions for that wait for nothing: they have to be answered
//! within [`ANSWER`]. All others are answered in their order, by the thread that also brings routers up, and those that have failed without
//! being asked: they are given the time that such a router has ([`BUSY`]), and behind an order for several more for each of those.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For what was counted.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// For everything else. A firmware that gets no CPU has 30 s to come up, and its machine is made by some thirty calls of KVM's that wait
/// until every other user of the machine has let go: together 12 s were seen on a host whose CPUs had three times as much to do as they could.
const BUSY: Duration = Duration::from_secs(32);
/// More, for each router that is brought up or changed.
const ROUTER: Duration = Duration::from_secs(2);
/// After this time without an answer it is said to be busy.
pub(super) const LATE: Duration = Duration::from_secs(1);
/// How much longer an answer is waited for when its time is over: that nobody here had a CPU is no silence of others.
pub(super) const MORE: Duration = Duration::from_millis(100);

/// What is unanswered.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Since when what was counted is asked for, by the number of the question.
    counters: BTreeMap<u64, Instant>,
    /// Since when an answer is due that takes no time, once it is its turn.
    quick: BTreeMap<u64, Instant>,
    /// What keeps it from answering those: since when, and until when at most.
    busy: BTreeMap<u64, (Instant, Instant)>,
}

impl Patience {
    /// It was asked what it has counted.
    pub(super) fn asked_to_count(&mut self, id: u64, now: Instant) {
        self.counters.insert(id, now);
    }

    /// Something was asked that takes no time.
    pub(super) fn asked(&mut self, id: u64, now: Instant) {
        self.quick.insert(id, now);
    }

    /// Something was asked for which so many routers are brought up or changed.
    pub(super) fn asked_for(&mut self, id: u64, routers: u32, now: Instant) {
        let before = self.busy.values().map(|(_, until)| *until).max();
        let until = before.unwrap_or(now).max(now) + BUSY + ROUTER * routers;
        self.busy.insert(id, (now, until));
    }

    /// This question was answered, or nobody wants to know any more.
    pub(super) fn answered(&mut self, id: u64, now: Instant) {
        self.counters.remove(&id);
        self.quick.remove(&id);
        if self.busy.remove(&id).is_some() && self.busy.is_empty() {
            // What was asked meanwhile had to wait.
            self.quick.values_mut().for_each(|since| *since = now);
        }
    }

    /// Whether this question waits for an answer.
    pub(super) fn waits_for(&self, id: u64) -> bool {
        self.counters.contains_key(&id) || self.quick.contains_key(&id) || self.busy.contains_key(&id)
    }

    /// Until when something has to be said.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let done = self.busy.values().map(|(_, until)| *until).max();
        let quick = done.or_else(|| Some(*self.quick.values().min()? + BUSY));
        let counters = self.counters.values().min().map(|since| *since + ANSWER);
        quick.into_iter().chain(counters).min()
    }

    /// Whether something is unanswered for longer than it takes one that is healthy and not busy.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        let mut busy = self.busy.values().map(|(since, _)| since).chain(self.quick.values());
        busy.any(|since| *since + LATE < now) || self.is_silent(now)
    }

    /// Whether it does not even say what it has counted, which one that is busy does.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.counters.values().any(|since| *since + LATE < now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_question_has_its_own_time() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        assert_eq!(patience.deadline(), None);
        patience.asked(1, start);
        patience.asked(2, start + 5 * SECOND);
        assert_eq!(patience.deadline(), Some(start + 32 * SECOND));
        assert!(!patience.is_late(start + SECOND) && patience.is_late(start + 2 * SECOND));
        patience.answered(2, start + 6 * SECOND);
        assert_eq!(patience.deadline(), Some(start + 32 * SECOND), "another answer is none to the first");
        patience.answered(1, start + 6 * SECOND);
        assert_eq!(patience.deadline(), None);
        assert!(!patience.is_late(start + 100 * SECOND));
    }

    #[test]
    fn routers_take_their_time_and_others_wait_behind_them() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.asked_for(7, 100, start);
        patience.asked(8, start + SECOND);
        assert_eq!(patience.deadline(), Some(start + 232 * SECOND));
        assert!(patience.is_late(start + 2 * SECOND));
        patience.answered(6, start + 3 * SECOND);
        assert_eq!(patience.deadline(), Some(start + 232 * SECOND));
        patience.answered(7, start + 100 * SECOND);
        assert_eq!(patience.deadline(), Some(start + 132 * SECOND), "now it is the turn of the other");
        patience.answered(8, start + 101 * SECOND);
        assert_eq!(patience.deadline(), None);
    }

    #[test]
    fn counters_wait_for_nothing() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.asked_for(7, 100, start);
        patience.asked_to_count(8, start + SECOND);
        assert_eq!(patience.deadline(), Some(start + 11 * SECOND));
        assert!(!patience.is_silent(start + 2 * SECOND) && patience.is_silent(start + 3 * SECOND));
        patience.answered(8, start + 3 * SECOND);
        assert!(!patience.is_silent(start + 9 * SECOND));
    }

    #[test]
    fn one_after_the_other() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.asked_for(1, 1, start);
        patience.asked_for(2, 1, start);
        assert_eq!(patience.deadline(), Some(start + 68 * SECOND));
        patience.answered(1, start);
        assert_eq!(patience.deadline(), Some(start + 68 * SECOND));
        patience.answered(2, start);
        assert_eq!(patience.deadline(), None);
    }
}
