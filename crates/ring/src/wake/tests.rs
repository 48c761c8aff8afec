extern crate std;

use std::vec::Vec;

use super::*;

/// Writes down what is asked of it.
#[derive(Default)]
struct Recorder {
    calls: Vec<&'static str>,
    /// Answers of `poll`, the next one last; false when there are no more.
    polls: Vec<bool>,
    news: bool,
}

impl Party for Recorder {
    fn poll(&mut self) -> bool {
        self.calls.push("poll");
        self.polls.pop().unwrap_or(false)
    }

    fn arm(&mut self) -> bool {
        self.calls.push("arm");
        self.news
    }

    fn disarm(&mut self) {
        self.calls.push("disarm");
    }
}

/// So many turns, and what was asked in them.
fn turns(poller: &mut Poller, party: &mut Recorder, count: usize) -> (Vec<Turn>, Vec<&'static str>) {
    let turns = (0..count).map(|_| poller.turn(party, |party| party.calls.push("sleep"))).collect();
    (turns, std::mem::take(&mut party.calls))
}

#[test]
fn a_thread_polls_first_and_wants_no_notification_meanwhile() {
    let (mut poller, mut party) =
        (Poller::new(10), Recorder { polls: std::vec![true, true], ..Recorder::default() });
    let (did, asked) = turns(&mut poller, &mut party, 3);
    assert_eq!(did, [Turn::Moved, Turn::Moved, Turn::Empty]);
    assert_eq!(asked, ["disarm", "poll", "poll", "poll"]);
}

#[test]
fn it_arms_and_sleeps_after_its_budget_of_empty_polls() {
    let (mut poller, mut party) = (Poller::new(2), Recorder::default());
    let (did, asked) = turns(&mut poller, &mut party, 4);
    assert_eq!(did, [Turn::Empty, Turn::Empty, Turn::Slept, Turn::Empty]);
    assert_eq!(asked, ["disarm", "poll", "poll", "poll", "arm", "sleep", "disarm", "poll"]);
}

#[test]
fn work_renews_the_budget() {
    let polls = std::vec![false, true, false, false];
    let (mut poller, mut party) = (Poller::new(2), Recorder { polls, ..Recorder::default() });
    let (did, _) = turns(&mut poller, &mut party, 6);
    assert_eq!(did, [Turn::Empty, Turn::Empty, Turn::Moved, Turn::Empty, Turn::Empty, Turn::Slept]);
}

#[test]
fn it_does_not_sleep_on_news() {
    let (mut poller, mut party) = (Poller::new(0), Recorder { news: true, ..Recorder::default() });
    let (did, asked) = turns(&mut poller, &mut party, 2);
    assert_eq!(did, [Turn::Stayed, Turn::Stayed]);
    assert_eq!(asked, ["disarm", "poll", "arm", "disarm", "poll", "arm"]);
}

#[test]
fn a_thread_without_end_never_arms() {
    let (mut poller, mut party) = (Poller::new(u32::MAX), Recorder::default());
    let (did, asked) = turns(&mut poller, &mut party, 1000);
    assert!(did.iter().all(|&turn| turn == Turn::Empty));
    assert!(!asked.contains(&"arm"));
}
