//! Deadlines for the answers of a data plane.
//!
//! Counters are reported by a thread that does nothing else, so a request for counters never queues behind
//! other work: it must be answered within [`ANSWER`]. All other requests are answered in order by the thread
//! that also stops routers and brings them up. They get the time that stopping one may take ([`QUICK`]), and
//! those that bring routers up what that may take ([`BUSY`]), with more for each router.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Deadline for counters.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// What a data plane that keeps the engine's limits may need beyond them.
const MARGIN: Duration = Duration::from_secs(10);
/// Deadline for everything else that brings no router up.
pub(super) const QUICK: Duration = engine::LONGEST_STOP.saturating_add(MARGIN);
/// Deadline for bringing a router up.
pub(super) const BUSY: Duration = engine::LONGEST_START.saturating_add(MARGIN);
/// Additional time for each router that is brought up or changed. Routers of one order are mostly built at the same time, or one after
/// the other in milliseconds; of their limits only those of one are reached on a host that works.
pub(super) const ROUTER: Duration = Duration::from_secs(2);
/// After this time without an answer the data plane is reported as busy.
pub(super) const LATE: Duration = Duration::from_secs(1);
/// Time that the process of a router has for its part of counters that somebody may compare: those that a client asks for, and the last
/// ones of a run. On a busy host a process may not run for more than a second. Less than [`ANSWER`]: one that is silent is still there
/// then, and the counters that it reported last are used.
pub(super) const PART: Duration = Duration::from_secs(5);
/// Extension of a deadline that has passed: the supervisor itself may have had no CPU, which is no silence of
/// the data plane.
pub(super) const EXTENSION: Duration = Duration::from_millis(100);

const _: () = assert!(LATE.as_secs() < PART.as_secs() && PART.as_secs() < ANSWER.as_secs());
const _: () = assert!(QUICK.as_secs() < BUSY.as_secs());

/// Outstanding requests.
#[derive(Debug, Default)]
pub(super) struct ReplyDeadlines {
    /// Requests for counters, by number: since when.
    counters: BTreeMap<u64, Instant>,
    /// Requests that need no time of their own once it is their turn: since when.
    quick: BTreeMap<u64, Instant>,
    /// Requests that keep the data plane busy: since when, and until when at most.
    busy: BTreeMap<u64, (Instant, Instant)>,
}

impl ReplyDeadlines {
    /// Notes a request for counters.
    pub(super) fn asked_to_count(&mut self, id: u64, now: Instant) {
        self.counters.insert(id, now);
    }

    /// Notes a request that needs no time of its own.
    pub(super) fn asked(&mut self, id: u64, now: Instant) {
        self.quick.insert(id, now);
    }

    /// Notes a request for which so many routers are brought up or changed.
    pub(super) fn asked_for(&mut self, id: u64, routers: u32, now: Instant) {
        let before = self.busy.values().map(|(_, until)| *until).max();
        let until = before.unwrap_or(now).max(now) + BUSY + ROUTER * routers;
        self.busy.insert(id, (now, until));
    }

    /// Notes that a request was answered, or that its answer is no longer wanted.
    pub(super) fn answered(&mut self, id: u64, now: Instant) {
        self.counters.remove(&id);
        self.quick.remove(&id);
        if self.busy.remove(&id).is_some() && self.busy.is_empty() {
            // Requests made meanwhile had to wait behind this one; their time starts now.
            self.quick.values_mut().for_each(|since| *since = now);
        }
    }

    /// Returns true if this request is outstanding.
    pub(super) fn waits_for(&self, id: u64) -> bool {
        self.counters.contains_key(&id) || self.quick.contains_key(&id) || self.busy.contains_key(&id)
    }

    /// When the next answer is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let done = self.busy.values().map(|(_, until)| *until).max();
        let quick = done.or_else(|| Some(*self.quick.values().min()? + QUICK));
        let counters = self.counters.values().min().map(|since| *since + ANSWER);
        quick.into_iter().chain(counters).min()
    }

    /// Returns true if a request is outstanding for longer than a healthy data plane takes that is not busy.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        let mut busy = self.busy.values().map(|(since, _)| since).chain(self.quick.values());
        busy.any(|since| *since + LATE < now) || self.is_silent(LATE, now)
    }

    /// Returns true if even a request for counters, which a busy data plane still answers, is outstanding for longer than `most`.
    pub(super) fn is_silent(&self, most: Duration, now: Instant) -> bool {
        self.counters.values().any(|since| *since + most < now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_question_has_its_own_time() {
        let (mut deadlines, start) = (ReplyDeadlines::default(), Instant::now());
        assert_eq!(deadlines.deadline(), None);
        deadlines.asked(1, start);
        deadlines.asked(2, start + 5 * SECOND);
        assert_eq!(deadlines.deadline(), Some(start + QUICK));
        assert!(!deadlines.is_late(start + SECOND) && deadlines.is_late(start + 2 * SECOND));
        deadlines.answered(2, start + 6 * SECOND);
        assert_eq!(deadlines.deadline(), Some(start + QUICK), "another answer is none to the first");
        deadlines.answered(1, start + 6 * SECOND);
        assert_eq!(deadlines.deadline(), None);
        assert!(!deadlines.is_late(start + 100 * SECOND));
    }

    #[test]
    fn routers_take_their_time_and_others_wait_behind_them() {
        let (mut deadlines, start) = (ReplyDeadlines::default(), Instant::now());
        deadlines.asked_for(7, 100, start);
        deadlines.asked(8, start + SECOND);
        let until = start + BUSY + 100 * ROUTER;
        assert_eq!(deadlines.deadline(), Some(until));
        assert!(deadlines.is_late(start + 2 * SECOND));
        deadlines.answered(6, start + 3 * SECOND);
        assert_eq!(deadlines.deadline(), Some(until));
        deadlines.answered(7, start + 100 * SECOND);
        assert_eq!(
            deadlines.deadline(),
            Some(start + 100 * SECOND + QUICK),
            "now it is the turn of the other"
        );
        deadlines.answered(8, start + 101 * SECOND);
        assert_eq!(deadlines.deadline(), None);
    }

    #[test]
    fn counters_wait_for_nothing() {
        let (mut deadlines, start) = (ReplyDeadlines::default(), Instant::now());
        deadlines.asked_for(7, 100, start);
        deadlines.asked_to_count(8, start + SECOND);
        assert_eq!(deadlines.deadline(), Some(start + 11 * SECOND));
        for most in [LATE, PART] {
            let since = start + SECOND + most;
            assert!(!deadlines.is_silent(most, since) && deadlines.is_silent(most, since + SECOND));
        }
        deadlines.answered(8, start + 3 * SECOND);
        assert!(!deadlines.is_silent(LATE, start + 9 * SECOND));
    }

    #[test]
    fn one_after_the_other() {
        let (mut deadlines, start) = (ReplyDeadlines::default(), Instant::now());
        deadlines.asked_for(1, 1, start);
        deadlines.asked_for(2, 1, start);
        assert_eq!(deadlines.deadline(), Some(start + 2 * (BUSY + ROUTER)));
        deadlines.answered(1, start);
        assert_eq!(deadlines.deadline(), Some(start + 2 * (BUSY + ROUTER)));
        deadlines.answered(2, start);
        assert_eq!(deadlines.deadline(), None);
    }
}
