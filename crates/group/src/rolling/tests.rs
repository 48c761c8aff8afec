use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::member::Event;

const LOOK: Duration = Duration::from_millis(100);

/// Members that do what they are told, each after a time of its own.
struct World {
    roster: Roster,
    rolling: Rolling,
    now: Duration,
    /// When each member that starts serves.
    serves: BTreeMap<Member, Duration>,
    /// How long each member takes to start; none: it does not.
    takes: fn(Member) -> Option<Duration>,
    steps: Vec<Step>,
    /// The fewest members that served at any time.
    fewest: usize,
}

impl World {
    fn new(states: &[State], takes: fn(Member) -> Option<Duration>) -> Self {
        let mut roster = Roster::default();
        for (member, state) in (0..).map(Member).zip(states) {
            roster.add(member, 1, Duration::ZERO);
            let events: &[Event] = match state {
                State::Starting => &[],
                State::Serving => &[Event::Answers],
                State::Suspect => &[Event::Answers, Event::Missed],
                State::Dead => &[Event::Ended],
                State::Parked => &[Event::Answers, Event::Park],
                State::Leaving => &[Event::Leave],
            };
            for event in events {
                roster.note(member, *event, Duration::ZERO);
            }
        }
        let rolling = Rolling::new(&roster, Rules::default());
        let fewest = roster.count(State::Serving);
        let (serves, steps) = Default::default();
        Self { roster, rolling, now: Duration::ZERO, serves, takes, steps, fewest }
    }

    fn note(&mut self, member: Member, event: Event) {
        self.roster.note(member, event, self.now);
    }

    fn starts(&mut self, member: Member) {
        self.serves.extend((self.takes)(member).map(|time| (member, self.now + time)));
    }

    fn obey(&mut self, step: Step) {
        match step {
            Step::Lend(member) => {
                self.roster.add(member, 1, self.now);
                self.starts(member);
            }
            Step::Drain(member) => self.note(member, Event::Leave),
            Step::Restart(member) => {
                self.note(member, Event::Ended);
                self.note(member, Event::Start);
                self.starts(member);
            }
            Step::Return(member) => {
                self.roster.remove(member);
            }
            Step::Wait | Step::Done | Step::Failed(_) => {}
        }
    }

    fn look(&mut self, is_empty: bool) -> Step {
        self.now += LOOK;
        let now = self.now;
        let up = |(_, due): &(&Member, &Duration)| **due <= now;
        let up: Vec<Member> = self.serves.iter().filter(up).map(|(member, _)| *member).collect();
        for member in up {
            self.serves.remove(&member);
            self.note(member, Event::Answers);
        }
        let step = self.rolling.step(&self.roster, self.now, |_| is_empty);
        self.obey(step);
        self.fewest = self.fewest.min(self.roster.count(State::Serving));
        if step != Step::Wait {
            self.steps.push(step);
        }
        step
    }

    /// Goes on until it is over.
    fn finish(&mut self) -> Step {
        for _ in 0..10_000 {
            let step = self.look(true);
            if matches!(step, Step::Done | Step::Failed(_)) {
                return step;
            }
        }
        panic!("it never ends: {:?}", self.steps);
    }

    fn restarted(&self) -> Vec<Member> {
        let restarted = |step: &Step| match step {
            Step::Restart(member) => Some(*member),
            _ => None,
        };
        self.steps.iter().filter_map(restarted).collect()
    }
}

fn at_once(_: Member) -> Option<Duration> {
    Some(LOOK)
}

#[test]
fn one_after_the_other() {
    let mut world = World::new(&[State::Serving; 3], at_once);
    assert_eq!(world.finish(), Step::Done);
    let each = |n| [Step::Drain(Member(n)), Step::Restart(Member(n))];
    assert_eq!(world.steps, [&each(0)[..], &each(1), &each(2), &[Step::Done]].concat());
    assert_eq!((world.fewest, world.roster.count(State::Serving)), (2, 3));
    assert_eq!(world.look(true), Step::Done);
}

#[test]
fn a_restart_waits_for_a_member_that_is_suspect() {
    let mut world = World::new(&[State::Serving, State::Suspect], at_once);
    (0..20).for_each(|_| assert_eq!(world.look(true), Step::Wait));
    world.note(Member(1), Event::Answers);
    assert_eq!(world.finish(), Step::Done);
    let each = |n| [Step::Drain(Member(n)), Step::Restart(Member(n))];
    assert_eq!(world.steps, [&each(0)[..], &each(1), &[Step::Done]].concat(), "none is lent");
}

#[test]
fn a_member_alone_is_relieved() {
    let mut world = World::new(&[State::Serving], at_once);
    assert_eq!(world.finish(), Step::Done);
    let (own, lent) = (Member(0), Member(1));
    assert_eq!(
        world.steps,
        [Step::Lend(lent), Step::Drain(own), Step::Restart(own), Step::Return(lent), Step::Done]
    );
    assert_eq!((world.fewest, world.roster.iter().count()), (1, 1));
}

#[test]
fn who_has_frames_is_waited_for_but_not_for_ever() {
    let mut world = World::new(&[State::Serving; 2], at_once);
    assert_eq!(world.look(false), Step::Drain(Member(0)));
    for _ in 0..9 {
        assert_eq!(world.look(false), Step::Wait);
    }
    assert_eq!(world.look(false), Step::Restart(Member(0)));
}

#[test]
fn who_does_not_come_back_stops_it() {
    let mut world = World::new(&[State::Serving; 3], |member| (member != Member(1)).then_some(LOOK));
    assert_eq!(world.finish(), Step::Failed(Member(1)));
    assert_eq!(world.restarted(), [Member(0), Member(1)]);
    assert_eq!(world.roster.state(Member(2)), Some(State::Serving), "nobody touches the others");
    let mut world = World::new(&[State::Serving], |_| None);
    assert_eq!(world.finish(), Step::Failed(Member(1)), "the one that was lent");
    assert_eq!(world.restarted(), []);
}

#[test]
fn who_is_removed_while_it_drains_is_not_restarted() {
    let mut world = World::new(&[State::Serving; 3], at_once);
    assert_eq!(world.look(false), Step::Drain(Member(0)));
    world.roster.remove(Member(0));
    assert_eq!(world.finish(), Step::Done);
    assert_eq!(world.restarted(), [Member(1), Member(2)]);
}

#[test]
fn the_last_one_is_not_taken_away_while_it_drains() {
    let mut world = World::new(&[State::Serving; 2], at_once);
    assert_eq!(world.look(false), Step::Drain(Member(0)));
    world.note(Member(1), Event::Ended);
    for _ in 0..50 {
        assert_eq!(world.look(true), Step::Wait);
    }
    world.note(Member(1), Event::Start);
    world.note(Member(1), Event::Answers);
    assert_eq!(world.look(true), Step::Restart(Member(0)));
}

#[test]
fn who_is_dead_or_goes_is_left_out_and_who_sleeps_is_not_drained() {
    let mut world =
        World::new(&[State::Dead, State::Serving, State::Parked, State::Leaving, State::Serving], at_once);
    assert_eq!(world.rolling.left.len(), 3);
    assert_eq!(world.finish(), Step::Done);
    assert_eq!(world.restarted(), [Member(1), Member(2), Member(4)]);
    assert!(!world.steps.contains(&Step::Drain(Member(2))));
}

fn slowly(member: Member) -> Option<Duration> {
    Some(LOOK * (1 + u32::from(member.0) * 7 % 40))
}

proptest! {
    #[test]
    fn each_live_member_is_restarted_once_and_somebody_serves_all_the_time(
        states in prop::collection::vec(
            prop::sample::select(vec![State::Serving, State::Suspect, State::Parked, State::Dead, State::Leaving]),
            1..8,
        ),
    ) {
        let mut world = World::new(&states, slowly);
        let live = |state: &State| !matches!(state, State::Dead | State::Leaving);
        let due: Vec<Member> =
            (0..).map(Member).zip(&states).filter(|(_, state)| live(state)).map(|(member, _)| member).collect();
        let (before, members) = (world.fewest, world.roster.iter().count());
        prop_assert_eq!(world.finish(), Step::Done);
        prop_assert_eq!(world.restarted(), due);
        prop_assert!(world.fewest + 1 >= before && (before == 0 || world.fewest > 0), "{}", world.fewest);
        prop_assert_eq!(world.roster.iter().count(), members, "what was lent is given back");
    }
}
