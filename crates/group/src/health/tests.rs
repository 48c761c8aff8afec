use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const M: Member = Member(7);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn nothing_passes(_: Member) -> u64 {
    0
}

/// A judge with one member, and the time.
struct Bench {
    judge: Judge,
    now: Duration,
    probe: Probe,
}

impl Bench {
    fn new(pace: Pace) -> Self {
        let mut judge = Judge::default();
        let probe = judge.watch(M, pace, 0, ms(0));
        Self { judge, now: ms(0), probe }
    }

    /// Ends the round when it is due, and so much later; so many frames have passed by then.
    fn round(&mut self, later: Duration, passed: u64) -> Round {
        self.now = self.judge.due().expect("somebody is watched") + later;
        let round = self.judge.round(self.now, |_| passed);
        self.probe = round.probes.first().copied().unwrap_or(self.probe);
        round
    }

    /// What a round says in which nothing comes back.
    fn bad(&mut self) -> Option<Event> {
        self.round(ms(0), 0).events.first().map(|(_, event)| *event)
    }

    /// What a round says whose probe comes back.
    fn good(&mut self) -> Option<Event> {
        let at_once = self.judge.answered(M, self.probe.number);
        at_once.or(self.bad())
    }
}

#[test]
fn who_starts_serves_with_its_first_answer() {
    let mut bench = Bench::new(Pace::Starting);
    assert_eq!((bench.bad(), bench.bad(), bench.bad(), bench.bad()), (None, None, None, None));
    let number = bench.probe.number;
    assert_eq!(bench.judge.answered(M, number.wrapping_sub(1)), None, "an answer to an older probe");
    assert_eq!(bench.judge.answered(Member(8), number), None, "nobody watches this one");
    assert_eq!(bench.judge.answered(M, number), Some(Event::Answers));
    assert_eq!(bench.judge.answered(M, number), None);
    assert_eq!(bench.bad(), None, "its probe has come back");
}

#[test]
fn three_missed_probes_and_three_that_come_back() {
    let mut bench = Bench::new(Pace::Serving);
    assert_eq!((bench.bad(), bench.bad(), bench.good()), (None, None, None));
    assert_eq!((bench.bad(), bench.bad(), bench.bad()), (None, None, Some(Event::Missed)));
    assert_eq!((bench.good(), bench.good(), bench.bad()), (None, None, None));
    assert_eq!((bench.good(), bench.good(), bench.good()), (None, None, Some(Event::Answers)));
    assert_eq!((bench.bad(), bench.bad(), bench.bad()), (None, None, Some(Event::Missed)));
}

#[test]
fn who_is_silent_for_long_is_given_up_and_not_probed_any_more() {
    let mut bench = Bench::new(Pace::Serving);
    let events: Vec<Event> = (0..103).filter_map(|_| bench.bad()).collect();
    assert_eq!(events, [Event::Missed, Event::Silent]);
    assert_eq!((bench.now, bench.judge.due()), (ms(1030), None));
    assert_eq!(bench.judge.round(ms(2000), nothing_passes), Round::default());
}

#[test]
fn who_answers_now_and_then_is_given_up_as_well() {
    let mut bench = Bench::new(Pace::Serving);
    let mut events = Vec::new();
    for turn in 0..200 {
        if bench.judge.due().is_some() {
            events.extend(if turn % 4 == 3 { bench.good() } else { bench.bad() });
        }
    }
    assert_eq!(events, [Event::Missed, Event::Silent]);
}

#[test]
fn who_does_not_come_up_is_given_up() {
    let mut bench = Bench::new(Pace::Starting);
    let event = (0..3000).find_map(|_| bench.bad());
    assert_eq!((event, bench.now), (Some(Event::Silent), ms(30_000)));
}

#[test]
fn frames_that_pass_are_as_good_as_probes() {
    let mut bench = Bench::new(Pace::Serving);
    for passed in 1..20 {
        let round = bench.round(ms(0), passed);
        assert_eq!((round.events.len(), round.probes.len()), (0, 1), "it is probed all the same");
    }
    let events: Vec<Event> = (0..4).flat_map(|_| bench.round(ms(0), 19).events).map(|(_, e)| e).collect();
    assert_eq!(events, [Event::Missed]);
}

#[test]
fn a_judge_that_comes_late_blames_nobody() {
    let mut bench = Bench::new(Pace::Serving);
    for _ in 0..4 {
        assert_eq!((bench.bad(), bench.bad()), (None, None));
        let round = bench.round(ms(6), 0);
        assert_eq!((round.excused, round.events), (1, vec![]));
    }
    // A little late is in time.
    bench.bad();
    bench.bad();
    assert_eq!(bench.round(ms(5), 0).events, [(M, Event::Missed)]);
}

#[test]
fn a_judge_that_is_late_again_and_again_finds_a_dead_member_all_the_same() {
    for late_every in [1, 2, 3] {
        let (mut bench, mut events, mut excused) = (Bench::new(Pace::Serving), Vec::new(), 0);
        for turn in 0..1000 {
            if bench.judge.due().is_some() {
                let later = if turn % late_every == 0 { ms(6) } else { ms(0) };
                let round = bench.round(later, 0);
                excused += round.excused;
                events.extend(round.events);
            }
        }
        assert_eq!((excused, events), (200, vec![(M, Event::Missed), (M, Event::Silent)]));
    }
}

#[test]
fn a_member_whose_answers_are_late_is_excused_as_long_as_its_judge_is_late_too() {
    let mut bench = Bench::new(Pace::Serving);
    let mut last = bench.probe.number;
    for _ in 0..1000 {
        last = bench.probe.number;
        let round = bench.round(ms(6), 0);
        assert_eq!((round.excused, round.events), (1, vec![]));
        assert_eq!(bench.judge.answered(M, last), None, "it is late");
    }
    let (mut events, mut excused) = (Vec::new(), 0);
    for _ in 0..203 {
        assert_eq!(bench.judge.answered(M, last), None, "that is known already");
        let round = bench.round(ms(6), 0);
        excused += round.excused;
        events.extend(round.events);
    }
    assert_eq!((excused, events), (200, vec![(M, Event::Missed)]));
    // A member whose judge is in time has no such excuse.
    let mut bench = Bench::new(Pace::Serving);
    let mut events = Vec::new();
    for _ in 0..3 {
        let late = bench.probe.number;
        events.extend(bench.bad());
        assert_eq!(bench.judge.answered(M, late), None);
    }
    assert_eq!(events, [Event::Missed]);
}

#[test]
fn who_is_parked_is_probed_once_a_second() {
    let mut bench = Bench::new(Pace::Parked);
    assert_eq!((bench.good(), bench.now), (None, ms(1000)));
    let events: Vec<Event> = (0..4).filter_map(|_| bench.bad()).collect();
    assert_eq!((events, bench.now), (vec![Event::Missed, Event::Silent], ms(5000)));
}

#[test]
fn a_probe_before_its_time_changes_nothing() {
    let mut bench = Bench::new(Pace::Serving);
    assert_eq!(bench.judge.round(ms(9), nothing_passes), Round::default());
    assert_eq!(bench.judge.due(), Some(ms(10)));
    let again = bench.judge.watch(M, Pace::Starting, 0, ms(9));
    assert_eq!((again.number, bench.judge.due()), (bench.probe.number + 1, Some(ms(19))));
    bench.judge.forget(M);
    assert_eq!((bench.judge.due(), bench.judge.answered(M, again.number)), (None, None));
}

/// A stretch of time: everything runs for so long, then everything stands still, and the member goes on so much later than the judge.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    runs: u64,
    stands: u64,
    lag: u64,
}

fn stretch() -> impl Strategy<Value = Stretch> {
    // What stands still for less than a round and a half costs one probe at most; longer, and the judge notices.
    (1..300_u64, 17..1500_u64, 0..20_u64).prop_map(|(runs, stands, lag)| Stretch { runs, stands, lag })
}

/// A member that answers each probe when it has run for so many milliseconds since, and a judge; both a millisecond at a time.
struct World {
    judge: Judge,
    latency: u64,
    /// Numbers of probes, and for how long the member has run with each.
    under_way: VecDeque<(u32, u64)>,
    events: Vec<(u64, Event)>,
}

impl World {
    fn new(latency: u64) -> Self {
        let mut judge = Judge::default();
        let probe = judge.watch(M, Pace::Serving, 0, ms(0));
        Self { judge, latency, under_way: [(probe.number, 0)].into(), events: Vec::new() }
    }

    fn run_member(&mut self, now: u64) {
        self.under_way.iter_mut().for_each(|(_, age)| *age += 1);
        while self.under_way.front().is_some_and(|(_, age)| *age >= self.latency) {
            let Some((number, _)) = self.under_way.pop_front() else { break };
            self.events.extend(self.judge.answered(M, number).map(|event| (now, event)));
        }
    }

    fn run_judge(&mut self, now: u64) {
        let round = self.judge.round(ms(now), nothing_passes);
        self.under_way.extend(round.probes.iter().map(|probe| (probe.number, 0)));
        self.events.extend(round.events.iter().map(|(_, event)| (now, *event)));
    }
}

proptest! {
    #[test]
    fn nobody_is_blamed_for_a_host_that_stands_still(
        stretches in prop::collection::vec(stretch(), 1..30), latency in 1..10_u64,
    ) {
        let mut world = World::new(latency);
        let (mut now, mut resumes) = (0, 0);
        for Stretch { runs, stands, lag } in stretches {
            for _ in 0..runs {
                now += 1;
                if now >= resumes {
                    world.run_member(now);
                }
                world.run_judge(now);
            }
            now += stands;
            resumes = now + lag;
        }
        prop_assert!(world.events.is_empty(), "{:?}", world.events);
    }

    #[test]
    fn who_hangs_is_found_in_four_rounds(hangs in 1..500_u64, latency in 1..10_u64) {
        let mut world = World::new(latency);
        for now in 1..hangs + 60 {
            if now < hangs {
                world.run_member(now);
            }
            world.run_judge(now);
        }
        let [(found, Event::Missed)] = world.events[..] else { panic!("{:?}", world.events) };
        prop_assert!(found <= hangs + 40 && found > hangs, "hangs at {hangs}, found at {found}");
    }

    #[test]
    fn each_event_follows_from_the_rounds_before(rounds in prop::collection::vec(any::<bool>(), 0..80)) {
        // The rules once more, as naive as can be.
        let mut bench = Bench::new(Pace::Serving);
        let (mut serves, mut streak) = (true, 0);
        for is_good in rounds {
            let event = if is_good { bench.good() } else { bench.bad() };
            streak = if is_good == serves { 0 } else { streak + 1 };
            let expected = (streak == 3).then_some(if serves { Event::Missed } else { Event::Answers });
            if expected.is_some() {
                (serves, streak) = (!serves, 0);
            }
            prop_assert_eq!(event, expected);
        }
    }
}
