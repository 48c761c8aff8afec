//! Bounded, numbered log of a run's events.

use std::collections::VecDeque;

use crate::event::Event;

/// Most events kept.
const KEPT: usize = 1000;

/// Bounded log: the newest event replaces the oldest. Events are numbered from 0 in order of arrival.
#[derive(Debug, Default)]
pub struct EventLog {
    /// Number of the first event in `kept`.
    first: u64,
    kept: VecDeque<Event>,
}

/// Result of [`EventLog::since`].
#[derive(Debug)]
pub struct Since<'l> {
    /// Number of the first event returned.
    pub first: u64,
    /// Events, oldest first.
    pub events: Vec<&'l Event>,
    /// Number to ask for next.
    pub next: u64,
    /// Number of requested events that are no longer kept.
    pub lost: u64,
}

impl EventLog {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an event. Returns its number.
    pub fn push(&mut self, event: Event) -> u64 {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(event);
        self.next_number() - 1
    }

    /// Number that the next event will get.
    pub fn next_number(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Returns at most so many events from this number on.
    pub fn since(&self, number: u64, most: usize) -> Since<'_> {
        let first = number.clamp(self.first, self.next_number());
        // `first` is at most the deque's length behind its front, so this fits.
        let skip = (first - self.first) as usize;
        let events: Vec<_> = self.kept.iter().skip(skip).take(most).collect();
        Since { first, next: first + events.len() as u64, lost: self.first.saturating_sub(number), events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;

    fn log(events: u64) -> EventLog {
        let mut log = EventLog::new();
        for n in 0..events {
            assert_eq!(log.push(Event::of_run("lab", Kind::Notice, n.to_string())), n);
        }
        log
    }

    fn messages(since: &Since<'_>) -> Vec<u64> {
        since.events.iter().map(|event| event.message.parse().unwrap()).collect()
    }

    #[test]
    fn events_are_told_from_a_number_on() {
        let log = log(5);
        let since = log.since(3, 100);
        assert_eq!((messages(&since), since.first, since.next, since.lost), (vec![3, 4], 3, 5, 0));
        let none = log.since(5, 100);
        assert_eq!((none.events.len(), none.next), (0, 5));
    }

    #[test]
    fn a_reader_that_takes_a_few_at_a_time_gets_all() {
        let log = log(10);
        let (mut next, mut seen) = (0, Vec::new());
        while next < log.next_number() {
            let since = log.since(next, 3);
            seen.extend(messages(&since));
            next = since.next;
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn the_oldest_make_room_and_are_counted_as_lost() {
        let log = log(1003);
        let since = log.since(1, 2000);
        assert_eq!((since.events.len(), since.first, since.lost), (1000, 3, 2));
        assert_eq!((messages(&since)[0], since.next), (3, 1003));
    }

    #[test]
    fn a_number_of_the_future_means_nothing_yet() {
        let since = log(2).since(u64::MAX, usize::MAX).next;
        assert_eq!(since, 2);
    }
}
