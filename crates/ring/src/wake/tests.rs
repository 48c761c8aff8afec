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

impl RingServer for Recorder {
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

    fn yield_core(&mut self) {
        self.gave_way += 1;
    }
}

/// Runs `count` turns; returns them and the calls made.
fn turns(poller: &mut Poller, server: &mut Recorder, count: usize) -> (Vec<Turn>, Vec<&'static str>) {
    let turns = (0..count).map(|_| poller.turn(server, |server| server.calls.push("sleep"))).collect();
    (turns, std::mem::take(&mut server.calls))
}

#[test]
fn a_thread_polls_first_and_wants_no_notification_meanwhile() {
    let (mut poller, mut server) =
        (Poller::new(10), Recorder { polls: std::vec![true, true], ..Recorder::default() });
    let (did, asked) = turns(&mut poller, &mut server, 3);
    assert_eq!(did, [Turn::Moved, Turn::Moved, Turn::Empty]);
    assert_eq!(asked, ["disarm", "poll", "poll", "poll"]);
}

#[test]
fn it_arms_and_sleeps_after_its_budget_of_empty_polls() {
    let (mut poller, mut server) = (Poller::new(2), Recorder::default());
    let (did, asked) = turns(&mut poller, &mut server, 4);
    assert_eq!(did, [Turn::Empty, Turn::Empty, Turn::Slept, Turn::Empty]);
    assert_eq!(asked, ["disarm", "poll", "poll", "poll", "arm", "sleep", "disarm", "poll"]);
}

#[test]
fn work_renews_the_budget() {
    let polls = std::vec![false, true, false, false];
    let (mut poller, mut server) = (Poller::new(2), Recorder { polls, ..Recorder::default() });
    let (did, _) = turns(&mut poller, &mut server, 6);
    assert_eq!(did, [Turn::Empty, Turn::Empty, Turn::Moved, Turn::Empty, Turn::Empty, Turn::Slept]);
}

#[test]
fn it_does_not_sleep_on_news() {
    let (mut poller, mut server) = (Poller::new(0), Recorder { news: true, ..Recorder::default() });
    let (did, asked) = turns(&mut poller, &mut server, 2);
    assert_eq!(did, [Turn::Stayed, Turn::Stayed]);
    assert_eq!(asked, ["disarm", "poll", "arm", "disarm", "poll", "arm"]);
}

#[test]
fn a_thread_without_end_never_arms() {
    let (mut poller, mut server) = (Poller::new(u32::MAX), Recorder::default());
    let (did, asked) = turns(&mut poller, &mut server, 1000);
    assert!(did.iter().all(|&turn| turn == Turn::Empty));
    assert!(!asked.contains(&"arm"));
}

#[test]
fn a_budget_can_be_changed_in_the_middle() {
    let (mut poller, mut server) = (Poller::new(u32::MAX), Recorder::default());
    turns(&mut poller, &mut server, 100);
    poller.set_spin(0);
    assert_eq!(turns(&mut poller, &mut server, 1).0, [Turn::Slept]);
    poller.set_spin(1);
    assert_eq!(turns(&mut poller, &mut server, 2).0, [Turn::Empty, Turn::Slept]);
}

/// Returns the number of empty turns until it sleeps.
fn patience(poller: &mut Poller, server: &mut Recorder) -> usize {
    let turn = |poller: &mut Poller, server: &mut Recorder| poller.turn(server, |_| {});
    (0..).take_while(|_| turn(poller, server) == Turn::Empty).count()
}

#[test]
fn who_has_the_core_for_himself_spends_his_whole_budget() {
    let server = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut server) = (Poller::new(1000), server);
    assert_eq!((patience(&mut poller, &mut server), server.gave_way), (1000, 0));
}

#[test]
fn who_was_taken_off_the_core_sleeps_soon_for_a_second() {
    let server = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut server) = (Poller::new(1000), server);
    for _ in 0..100 {
        poller.turn(&mut server, |_| {});
    }
    server.time = Some(4000);
    assert!(patience(&mut poller, &mut server) < 100);
    assert_eq!(patience(&mut poller, &mut server), SHORT_SPIN as usize);
    // It was not preempted since.
    server.time = Some(2_000_000);
    patience(&mut poller, &mut server);
    assert_eq!((patience(&mut poller, &mut server), server.gave_way), (1000, 0));
}

#[test]
fn who_never_sleeps_gives_way_all_the_same() {
    let server = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut server) = (Poller::new(u32::MAX), server);
    for time in [5, 4000] {
        server.time = Some(time);
        for _ in 0..200 {
            assert_eq!(poller.turn(&mut server, |_| panic!("it slept")), Turn::Empty);
        }
    }
    assert!(server.gave_way > 100);
}

#[test]
fn time_with_work_or_asleep_is_no_sign_of_others() {
    let server = Recorder { time: Some(5), pace: 1, ..Recorder::default() };
    let (mut poller, mut server) = (Poller::new(100), server);
    for _ in 0..50 {
        poller.turn(&mut server, |_| {});
    }
    server.polls = std::vec![true];
    server.time = Some(10_000);
    assert_eq!(poller.turn(&mut server, |_| {}), Turn::Moved);
    assert_eq!(patience(&mut poller, &mut server), 100);
    server.time = Some(20_000);
    assert_eq!((patience(&mut poller, &mut server), server.gave_way), (100, 0));
}
