//! A restart of all members without loss: one after the other is drained, restarted, and serves again before the next one is touched.
//!
//! ```text
//!  for each member:  Drain --> (its rings are empty, or it had its time) --> Restart --> (it serves) --> the next one
//! ```
//!
//! If only one member serves, none would serve while it restarts: the restart waits for one that starts or is suspect, and if there is
//! none, another one is lent first, and leaves in the end. A member that does not come back stops the restart: the others go on as they
//! are.

use std::collections::VecDeque;
use std::time::Duration;

use crate::member::{Member, Roster, State};

/// How long each part of it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a member may take to finish what it has; it is restarted then all the same.
    pub drain: Duration,
    /// How long a member may take to serve.
    pub start: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { drain: Duration::from_secs(1), start: Duration::from_secs(60) }
    }
}

/// What to do next. Each order is given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Wait,
    /// Start another member of this number.
    Lend(Member),
    /// Give this member no new frames.
    Drain(Member),
    /// End this member, and start it anew.
    Restart(Member),
    /// Let the member leave that was lent.
    Return(Member),
    /// All are restarted.
    Done,
    /// This member does not serve, and the restart has stopped.
    Failed(Member),
}

/// A restart that is under way.
#[derive(Clone, Debug)]
pub struct Rolling {
    rules: Rules,
    left: VecDeque<Member>,
    lent: Option<Member>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Next,
    /// No other member serves, and one of them may do so soon.
    Alone {
        since: Duration,
    },
    Lending {
        lent: Member,
        since: Duration,
    },
    Draining {
        member: Member,
        since: Duration,
    },
    Starting {
        member: Member,
        since: Duration,
    },
    Over(Step),
}

impl Rolling {
    /// A restart of all members that there are now, by number. Dead ones are left out: they start anew anyhow.
    pub fn new(roster: &Roster, rules: Rules) -> Self {
        let live = roster.iter().filter(|(_, state)| !matches!(state, State::Dead | State::Leaving));
        let left = live.map(|(member, _)| member).collect();
        Self { rules, left, lent: None, phase: Phase::Next }
    }

    /// What to do next; `is_empty` tells whether a member has finished all frames that it had.
    pub fn step(&mut self, roster: &Roster, now: Duration, is_empty: impl Fn(Member) -> bool) -> Step {
        match self.phase {
            Phase::Next => self.next(roster, now, now),
            Phase::Alone { since } => self.next(roster, since, now),
            Phase::Lending { lent, since } => self.lend(roster, (lent, since), now),
            Phase::Draining { member, since } => self.drain(roster, (member, since), now, is_empty(member)),
            Phase::Starting { member, since } => self.start(roster, (member, since), now),
            Phase::Over(step) => step,
        }
    }

    fn next(&mut self, roster: &Roster, since: Duration, now: Duration) -> Step {
        while let Some(&member) = self.left.front() {
            match roster.state(member) {
                None | Some(State::Dead | State::Leaving) => {
                    self.left.pop_front();
                }
                Some(State::Parked) => {
                    self.left.pop_front();
                    return self.begin(Phase::Starting { member, since: now }, Step::Restart(member));
                }
                Some(State::Starting | State::Serving | State::Suspect) => {
                    return self.relieve(roster, (member, since), now);
                }
            }
        }
        match self.lent.take() {
            Some(lent) => Step::Return(lent),
            None => self.begin(Phase::Over(Step::Done), Step::Done),
        }
    }

    /// Drains a member, if another one serves; waits for one that may serve soon, and else lends one first.
    fn relieve(&mut self, roster: &Roster, (member, since): (Member, Duration), now: Duration) -> Step {
        if others_serve(roster, member) {
            self.left.pop_front();
            return self.begin(Phase::Draining { member, since: now }, Step::Drain(member));
        }
        let may_serve = |state: State| matches!(state, State::Starting | State::Suspect);
        let is_expected = roster.iter().any(|(other, state)| other != member && may_serve(state));
        if is_expected && now.saturating_sub(since) < self.rules.start {
            return self.begin(Phase::Alone { since }, Step::Wait);
        }
        let lent = roster.free();
        self.begin(Phase::Lending { lent, since: now }, Step::Lend(lent))
    }

    fn lend(&mut self, roster: &Roster, (lent, since): (Member, Duration), now: Duration) -> Step {
        match roster.state(lent) {
            Some(State::Serving) => {
                self.lent = Some(lent);
                self.begin(Phase::Next, Step::Wait)
            }
            _ => self.wait(lent, since, now),
        }
    }

    fn drain(
        &mut self,
        roster: &Roster,
        (member, since): (Member, Duration),
        now: Duration,
        is_empty: bool,
    ) -> Step {
        if roster.state(member).is_none() {
            // It was removed meanwhile.
            return self.begin(Phase::Next, Step::Wait);
        }
        if !others_serve(roster, member) {
            // They died meanwhile, and are replaced: this one still gets the frames.
            return self.wait(member, since, now);
        }
        let is_drained = is_empty || now.saturating_sub(since) >= self.rules.drain;
        if roster.state(member) == Some(State::Leaving) && !is_drained {
            return Step::Wait;
        }
        self.begin(Phase::Starting { member, since: now }, Step::Restart(member))
    }

    fn start(&mut self, roster: &Roster, (member, since): (Member, Duration), now: Duration) -> Step {
        match roster.state(member) {
            None | Some(State::Serving | State::Parked) => self.begin(Phase::Next, Step::Wait),
            Some(_) => self.wait(member, since, now),
        }
    }

    /// Waits for a member, but not for ever.
    fn wait(&mut self, member: Member, since: Duration, now: Duration) -> Step {
        if now.saturating_sub(since) < self.rules.start {
            return Step::Wait;
        }
        self.begin(Phase::Over(Step::Failed(member)), Step::Failed(member))
    }

    const fn begin(&mut self, phase: Phase, step: Step) -> Step {
        self.phase = phase;
        step
    }
}

fn others_serve(roster: &Roster, member: Member) -> bool {
    roster.iter().any(|(other, state)| other != member && state == State::Serving)
}

#[cfg(test)]
mod tests;
