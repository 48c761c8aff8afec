//! Whether a group serves: reported when its last serving member stops doing so, and when one serves again.

use group::{Member, Roster, State};

/// Whether members of a group serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Service {
    /// None has served yet, or all of them are to be without frames.
    #[default]
    NotYet,
    /// At least one serves.
    Runs,
    /// None serves any more, which was reported.
    Fails,
}

impl Service {
    /// Evaluates the states of the members; returns a report in the name of the first of them, if one is due.
    pub(super) fn note(&mut self, roster: &Roster) -> Option<(Member, String)> {
        let (first, _) = roster.iter().next()?;
        let serving = roster.count(State::Serving);
        let is_meant = roster.iter().all(|(_, state)| matches!(state, State::Parked | State::Leaving));
        let (after, news) = match (*self, serving) {
            (_, 0) if is_meant => (Self::NotYet, None),
            (Self::Runs, 0) => (Self::Fails, Some(failure(roster).to_owned())),
            (before, 0) => (before, None),
            (Self::Fails, 1) => (Self::Runs, Some("1 member serves again".to_owned())),
            (Self::Fails, serving) => (Self::Runs, Some(format!("{serving} members serve again"))),
            (Self::NotYet | Self::Runs, _) => (Self::Runs, None),
        };
        *self = after;
        news.map(|news| (first, news))
    }
}

/// Describes what becomes of frames while no member serves.
fn failure(roster: &Roster) -> &'static str {
    if roster.count(State::Suspect) > 0 {
        "no member of the group serves: suspect ones keep their flows"
    } else if roster.count(State::Leaving) > 0 {
        "no member of the group serves: those that leave keep their flows"
    } else {
        "no member of the group serves: what comes is lost until one does"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use group::member::Event;

    use super::*;

    /// Members with these numbers, of which nothing is known yet.
    fn roster(members: u16) -> Roster {
        let mut roster = Roster::default();
        (0..members).for_each(|number| roster.add(Member(number), 1, Duration::ZERO));
        roster
    }

    /// What is told after this has happened to members.
    fn told(service: &mut Service, roster: &mut Roster, events: &[(u16, Event)]) -> Option<String> {
        for (number, event) in events {
            roster.note(Member(*number), *event, Duration::ZERO).expect("another state");
        }
        service.note(roster).map(|(member, news)| {
            assert_eq!(member, Member(0));
            news
        })
    }

    #[test]
    fn a_group_tells_once_that_its_last_member_does_not_serve_and_once_that_members_do_again() {
        let (mut service, mut roster) = (Service::default(), roster(3));
        let mut note = |events: &[(u16, Event)]| told(&mut service, &mut roster, events);
        assert_eq!(note(&[]), None, "they come up");
        assert_eq!(note(&[(0, Event::Answers), (1, Event::Answers)]), None);
        assert_eq!(note(&[(0, Event::Missed)]), None, "one is left");
        let suspect = "no member of the group serves: suspect ones keep their flows";
        assert_eq!(note(&[(1, Event::Missed)]).as_deref(), Some(suspect));
        assert_eq!(note(&[]), None, "that is known");
        assert_eq!(note(&[(1, Event::Answers)]).as_deref(), Some("1 member serves again"));
        assert_eq!(note(&[(0, Event::Answers)]), None);
        let ended = "no member of the group serves: what comes is lost until one does";
        assert_eq!(note(&[(0, Event::Ended), (1, Event::Ended)]).as_deref(), Some(ended));
        assert_eq!(note(&[(0, Event::Start), (1, Event::Start)]), None);
        let both = [(0, Event::Answers), (1, Event::Answers)];
        assert_eq!(note(&both).as_deref(), Some("2 members serve again"));
    }

    #[test]
    fn a_member_that_leaves_keeps_what_comes_where_the_last_one_that_serves_has_ended() {
        let (mut service, mut roster) = (Service::default(), roster(2));
        let mut note = |events: &[(u16, Event)]| told(&mut service, &mut roster, events);
        assert_eq!(note(&[(0, Event::Answers), (1, Event::Answers)]), None);
        assert_eq!(note(&[(0, Event::Leave)]), None, "one is left");
        let leaving = "no member of the group serves: those that leave keep their flows";
        assert_eq!(note(&[(1, Event::Ended)]).as_deref(), Some(leaving));
    }

    #[test]
    fn members_that_are_to_be_without_frames_are_no_failure() {
        let (mut service, mut roster) = (Service::default(), roster(2));
        let mut note = |events: &[(u16, Event)]| told(&mut service, &mut roster, events);
        assert_eq!(note(&[(0, Event::Answers), (1, Event::Answers)]), None);
        assert_eq!(note(&[(0, Event::Leave), (1, Event::Leave)]), None, "the run ends");
        assert_eq!(note(&[(0, Event::Stay)]), None);
        assert_eq!(note(&[(0, Event::Answers)]), None, "nothing had failed");
    }
}
