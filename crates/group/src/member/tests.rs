use proptest::prelude::*;

use super::*;

const EVENTS: [Event; 9] = [
    Event::Answers,
    Event::Missed,
    Event::Silent,
    Event::Ended,
    Event::Start,
    Event::Park,
    Event::Wake,
    Event::Leave,
    Event::Stay,
];

const STATES: [State; 6] =
    [State::Starting, State::Serving, State::Suspect, State::Dead, State::Parked, State::Leaving];

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A roster with a member of each of these states, by number.
fn roster(states: &[State]) -> Roster {
    let entry = |state| Entry { state, weight: 1, since: at(0) };
    let members = (0..).map(Member).zip(states.iter().copied().map(entry));
    Roster { members: members.collect() }
}

#[test]
fn a_life() {
    let mut group = Roster::default();
    let member = group.free();
    group.add(member, 1, at(0));
    assert_eq!((group.state(member), group.shares().len()), (Some(State::Starting), 0));
    assert_eq!(group.note(member, Event::Answers, at(1)), Some((State::Starting, State::Serving)));
    assert_eq!((group.shares().len(), group.since(member)), (1, Some(at(1))));
    assert_eq!(group.note(member, Event::Answers, at(2)), None);
    assert_eq!(group.since(member), Some(at(1)));
    for (event, state) in [
        (Event::Missed, State::Suspect),
        (Event::Answers, State::Serving),
        (Event::Park, State::Parked),
        (Event::Missed, State::Parked),
        (Event::Wake, State::Starting),
        (Event::Silent, State::Dead),
        (Event::Answers, State::Dead),
        (Event::Start, State::Starting),
        (Event::Leave, State::Leaving),
        (Event::Answers, State::Leaving),
        (Event::Ended, State::Dead),
    ] {
        group.note(member, event, at(3));
        assert_eq!(group.state(member), Some(state), "after {event:?}");
    }
}

#[test]
fn numbers_are_used_again() {
    let mut group = roster(&[State::Serving; 3]);
    assert_eq!(group.free(), Member(3));
    group.remove(Member(1));
    assert_eq!(group.free(), Member(1));
    group.add(Member(1), 0, at(0));
    group.note(Member(1), Event::Answers, at(0));
    assert_eq!(group.shares()[&Member(1)], 1, "no member is without weight");
    group.add(Member(3), 4, at(0));
    group.note(Member(3), Event::Answers, at(0));
    assert_eq!(group.shares()[&Member(3)], 4);
}

#[test]
fn frames_go_to_who_serves_and_else_to_who_may() {
    use State::{Dead, Leaving, Parked, Serving, Starting, Suspect};
    let share =
        |states: &[State]| -> Vec<u16> { roster(states).shares().keys().map(|member| member.0).collect() };
    assert_eq!(share(&[Suspect, Serving, Leaving, Serving, Parked]), [1, 3]);
    assert_eq!(share(&[Dead, Leaving, Suspect, Starting]), [2]);
    assert_eq!(share(&[Dead, Leaving, Starting]), [1]);
    assert!(share(&[Dead, Starting, Parked]).is_empty());
}

fn any_roster() -> impl Strategy<Value = Roster> {
    prop::collection::vec(prop::sample::select(STATES.to_vec()), 0..12).prop_map(|states| roster(&states))
}

proptest! {
    #[test]
    fn who_gets_frames_is_alive(
        group in any_roster(), events in prop::collection::vec((0..12_u16, 0..EVENTS.len()), 0..40),
    ) {
        let mut group = group;
        for (member, event) in events {
            group.note(Member(member), EVENTS[event], at(1));
            let shares = group.shares();
            let is_live = |state| matches!(state, State::Serving | State::Suspect | State::Leaving);
            prop_assert!(shares.keys().all(|member| group.state(*member).is_some_and(is_live)));
            prop_assert_eq!(shares.is_empty(), !group.iter().any(|(_, state)| is_live(state)));
            if group.count(State::Serving) > 0 {
                prop_assert_eq!(shares.len(), group.count(State::Serving));
            }
        }
    }
}
