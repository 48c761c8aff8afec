extern crate std;

use std::vec::Vec;

use super::*;

/// Records the calls made to it.
#[derive(Default)]
struct Recorder {
    calls: Vec<&'static str>,
    /// Results of `poll`, the next one last; false when there are no more.
    polls: Vec<bool>,
    news: bool,
    /// Time of the clock; `None`: there is no clock.
    time: Option<u64>,
    /// Advance of the clock with each poll.
    pace: u64,
    gave_way: usize,
}

impl Party for Recorder {
    fn poll(&mut self) -> bool {
        self.calls.push("poll");
        self.time = self.time.map(|time| time + self.pace);
        self.polls.pop().unwrap_or(false)
    }

    fn arm(&mut self) -> bool {
        self.calls.push("arm");
        self.news
    }

    fn disarm(&mut self) {
        self.calls.push("disarm");
    }

    fn now(&self) -> Option<u64> {
        self.time
    }

    fn give_way(&mut self) {
        self.gave_way += 1;
    }
}

/// Runs `count` turns; returns them and the calls made.
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

#[test]
fn a_budget_can_be_changed_in_the_middle() {
    let (mut poller, mut party) = (Poller::new(u32::MAX), Recorder::default());
    turns(&mut poller, &mut party, 100);
    poller.set_spin(0);
    assert_eq!(turns(&mut poller, &mut party, 1).0, [Turn::Slept]);
    poller.set_spin(1);
    assert_eq!(turns(&mut poller, &mut party, 2).0, [Turn::Empty, Turn::Slept]);
}

/// Returns the number of empty turns until it sleeps.
fn patience(poller: &mut Poller, party: &mut Recorder) -> usize {
    let turn = |poller: &mut Poller, party: &mut Recorder| poller.turn(party, |_| {});
    (0..).take_while(|_| turn(poller, party) == Turn::Empty).count()
}

#[test]
fn who_has_the_core_for_himself_spends_his_whole_budget() {
    let party = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut party) = (Poller::new(1000), party);
    assert_eq!((patience(&mut poller, &mut party), party.gave_way), (1000, 0));
}

#[test]
fn who_was_taken_off_the_core_sleeps_soon_for_a_second() {
    let party = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut party) = (Poller::new(1000), party);
    for _ in 0..100 {
        poller.turn(&mut party, |_| {});
    }
    party.time = Some(4000);
    assert!(patience(&mut poller, &mut party) < 100);
    assert_eq!(patience(&mut poller, &mut party), SHORT_SPIN as usize);
    // It was not preempted since.
    party.time = Some(2_000_000);
    patience(&mut poller, &mut party);
    assert_eq!((patience(&mut poller, &mut party), party.gave_way), (1000, 0));
}

#[test]
fn who_never_sleeps_gives_way_all_the_same() {
    let party = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut party) = (Poller::new(u32::MAX), party);
    for time in [5, 4000] {
        party.time = Some(time);
        for _ in 0..200 {
            assert_eq!(poller.turn(&mut party, |_| panic!("it slept")), Turn::Empty);
        }
    }
    assert!(party.gave_way > 100);
}

#[test]
fn time_with_work_or_asleep_is_no_sign_of_others() {
    let party = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut party) = (Poller::new(100), party);
    for _ in 0..50 {
        poller.turn(&mut party, |_| {});
    }
    party.polls = std::vec![true];
    party.time = Some(10_000);
    assert_eq!(poller.turn(&mut party, |_| {}), Turn::Moved);
    assert_eq!(patience(&mut poller, &mut party), 100);
    party.time = Some(20_000);
    assert_eq!((patience(&mut poller, &mut party), party.gave_way), (100, 0));
}
