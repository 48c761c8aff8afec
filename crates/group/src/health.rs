//! Health of members, judged by the frames and probes that pass through them, not by what they report.
//!
//! In each round a probe is sent through every member, on the way that frames take. A round is good for a member if its probe has come
//! back, or if frames have left it. Three bad rounds in a row, and it gets no frames; three good ones, and it gets them again; bad for
//! much longer, and it is given up. A round in which the judge itself came late counts against no member: whatever delayed it has most
//! likely delayed the members, too.
//!
//! After such a round counting begins anew: what was missed before it may have had the same reason. The number of such rounds is bounded
//! until the next sign of life, because a judge that is late again and again would otherwise never find a member that is dead. Such a sign
//! is a good round, and a probe that comes back after its round.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::{Event, Member};

/// When a member is blamed for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Time between two probes.
    pub round: Duration,
    /// Time between two probes of a parked member.
    pub parked: Duration,
    /// Bad rounds in a row after which a member gets no frames.
    pub missed: u32,
    /// Good rounds in a row after which it gets them again.
    pub good: u32,
    /// A member that gets no frames for so long is given up.
    pub silent: Duration,
    /// How long a member may take to come up or to wake.
    pub boot: Duration,
    /// How much later than planned a round may be for its probes to count.
    pub late: Duration,
    /// Bad rounds since the last sign of life for which a member may be excused.
    pub excused: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            round: Duration::from_millis(10),
            parked: Duration::from_secs(1),
            missed: 3,
            good: 3,
            silent: Duration::from_secs(1),
            boot: Duration::from_secs(30),
            late: Duration::from_millis(5),
            excused: 200,
        }
    }
}

/// How a member is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It comes up or wakes: its first answer counts at once.
    Starting,
    /// It gets frames.
    Serving,
    /// It is parked.
    Parked,
}

/// A probe to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Through whom.
    pub member: Member,
    /// Its number, which the one that comes back has as well.
    pub number: u32,
}

/// What comes of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The probes of the next one, to be sent now.
    pub probes: Vec<Probe>,
    /// What has happened to members. One that is [`Event::Silent`] is not watched any more.
    pub events: Vec<(Member, Event)>,
    /// Members that were not blamed for a bad round.
    pub excused: usize,
}

/// Watches the members of a group.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    rules: Rules,
    pulses: BTreeMap<Member, Pulse>,
}

/// What is known of a member.
#[derive(Clone, Debug)]
struct Pulse {
    pace: Pace,
    /// Number of the probe that is under way.
    number: u32,
    /// Whether it has come back.
    is_answered: bool,
    passed: u64,
    /// When the round ends.
    due: Duration,
    /// Bad rounds in a row.
    missed: u32,
    /// Good rounds in a row.
    good: u32,
    /// Good rounds that are asked of it until it gets frames; none: it gets them.
    asked: Option<u32>,
    /// Since when it is without frames.
    since: Duration,
    /// Rounds since the last sign of life for which it was excused.
    excused: u32,
    /// Number of the last probe that came back after its round.
    late: Option<u32>,
}

impl Judge {
    /// A judge with rules of its own.
    pub const fn new(rules: Rules) -> Self {
        Self { rules, pulses: BTreeMap::new() }
    }

    /// Watches a member from now on, which has passed so many frames: its first probe. One that is watched already goes on with
    /// its numbers, so that a late answer is known as one.
    pub fn watch(&mut self, member: Member, pace: Pace, passed: u64, now: Duration) -> Probe {
        let number = self.pulses.get(&member).map_or(0, |pulse| pulse.number).wrapping_add(1);
        let pulse = Pulse {
            pace,
            number,
            is_answered: false,
            passed,
            due: now.saturating_add(self.rules.interval(pace)),
            missed: 0,
            good: 0,
            asked: (pace == Pace::Starting).then_some(1),
            since: now,
            excused: 0,
            late: None,
        };
        self.pulses.insert(member, pulse);
        Probe { member, number }
    }

    /// Watches a member no more.
    pub fn forget(&mut self, member: Member) {
        self.pulses.remove(&member);
    }

    /// A probe came back, in its round or later. For a member that was waited for this is an event, which need not wait for the end of
    /// the round; a late one only shows that the member lives.
    pub fn answered(&mut self, member: Member, number: u32) -> Option<Event> {
        let pulse = self.pulses.get_mut(&member)?;
        if pulse.number != number {
            pulse.note_late(number);
            return None;
        }
        pulse.is_answered = true;
        (pulse.asked == Some(1)).then(|| pulse.serve())
    }

    /// When the next round of a member ends; none: nobody is watched.
    pub fn due(&self) -> Option<Duration> {
        self.pulses.values().map(|pulse| pulse.due).min()
    }

    /// Ends the rounds that are due, and begins the next ones. So many frames have left each member, since any moment.
    pub fn round(&mut self, now: Duration, passed: impl Fn(Member) -> u64) -> Round {
        let mut round = Round::default();
        let rules = self.rules;
        self.pulses.retain(|&member, pulse| {
            if now < pulse.due {
                return true;
            }
            let (event, is_excused) = pulse.end_round(&rules, now, passed(member));
            round.excused += usize::from(is_excused);
            round.events.extend(event.map(|event| (member, event)));
            let is_watched = event != Some(Event::Silent);
            round.probes.extend(is_watched.then(|| pulse.next_round(&rules, member, now)));
            is_watched
        });
        round
    }
}

impl Rules {
    const fn interval(&self, pace: Pace) -> Duration {
        match pace {
            Pace::Starting | Pace::Serving => self.round,
            Pace::Parked => self.parked,
        }
    }
}

impl Pulse {
    /// What a round says of the member, and whether it was excused.
    fn end_round(&mut self, rules: &Rules, now: Duration, passed: u64) -> (Option<Event>, bool) {
        let is_good = self.is_answered || passed != self.passed;
        self.passed = passed;
        if is_good {
            return (self.note_good(), false);
        }
        let is_late = now > self.due.saturating_add(rules.late);
        if is_late && self.excused < rules.excused {
            self.excused += 1;
            (self.missed, self.good, self.since) = (0, 0, now);
            return (None, true);
        }
        (self.note_bad(rules, now), false)
    }

    fn note_good(&mut self) -> Option<Event> {
        (self.missed, self.excused) = (0, 0);
        self.good = self.good.saturating_add(1);
        (self.asked? <= self.good).then(|| self.serve())
    }

    /// A probe came back after its round; it may be told of more than once.
    fn note_late(&mut self, number: u32) {
        if self.late.replace(number) != Some(number) {
            self.excused = 0;
        }
    }

    fn note_bad(&mut self, rules: &Rules, now: Duration) -> Option<Event> {
        self.good = 0;
        self.missed = self.missed.saturating_add(1);
        if self.asked.is_some() {
            let patience = if self.pace == Pace::Starting { rules.boot } else { rules.silent };
            return (now.saturating_sub(self.since) >= patience).then_some(Event::Silent);
        }
        if self.missed < rules.missed {
            return None;
        }
        (self.asked, self.since) = (Some(rules.good), now);
        Some(Event::Missed)
    }

    /// It gets frames from now on.
    fn serve(&mut self) -> Event {
        self.asked = None;
        if self.pace == Pace::Starting {
            self.pace = Pace::Serving;
        }
        Event::Answers
    }

    fn next_round(&mut self, rules: &Rules, member: Member, now: Duration) -> Probe {
        self.number = self.number.wrapping_add(1);
        self.is_answered = false;
        self.due = now.saturating_add(rules.interval(self.pace));
        Probe { member, number: self.number }
    }
}

#[cfg(test)]
mod tests;
