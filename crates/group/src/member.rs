//! Members of a group, and the states that they are in.
//!
//! ```text
//!             Answers            Missed             Silent
//!  Starting -----------> Serving ------> Suspect ----------> Dead     (Silent, Ended: from any state)
//!     ^  ^                 |  ^            |                  |
//!     |  |           Park  |  \--Answers---/                  |
//!     |  \--Wake-- Parked <+                                  |
//!     \--------------------------- Start --------------------/        (Leave: Leaving, from any state but Dead)
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The number of a member in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u16);

impl fmt::Display for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "member {}", self.0)
    }
}

/// Weights of the members that get frames, at least 1 each: one of weight 2 gets twice as many as one of weight 1.
pub type Shares = BTreeMap<Member, u32>;

/// What a member is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It comes up, or wakes, and has not forwarded anything yet.
    Starting,
    /// It gets frames.
    Serving,
    /// It has missed probes: it gets no frames, and is probed on.
    Suspect,
    /// It has ended, or was silent for too long.
    Dead,
    /// It sleeps with everything that it needs, until the load asks for it.
    Parked,
    /// It gets no new frames, finishes those that it has, and ends.
    Leaving,
}

impl State {
    /// Its name in tables and events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Parked => "parked",
            Self::Leaving => "leaving",
        }
    }

    /// The state after an event; the same one where the event says nothing.
    #[must_use]
    pub const fn after(self, event: Event) -> Self {
        match (self, event) {
            (_, Event::Ended | Event::Silent) => Self::Dead,
            (Self::Starting | Self::Suspect, Event::Answers) => Self::Serving,
            (Self::Serving, Event::Missed) => Self::Suspect,
            (Self::Serving, Event::Park) => Self::Parked,
            (Self::Parked, Event::Wake) | (Self::Dead, Event::Start) | (Self::Leaving, Event::Stay) => {
                Self::Starting
            }
            (Self::Starting | Self::Serving | Self::Suspect | Self::Parked, Event::Leave) => Self::Leaving,
            (state, _) => state,
        }
    }
}

/// Something that happens to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Frames or probes come back from it, as many in a row as are asked for.
    Answers,
    /// It has missed as many probes in a row as it may.
    Missed,
    /// It has not come up, or not come back, for as long as it may.
    Silent,
    /// Its process has ended.
    Ended,
    /// It is started in the place where it died.
    Start,
    /// It is to sleep.
    Park,
    /// It is to wake.
    Wake,
    /// It is to finish what it has, and to end.
    Leave,
    /// It is not to leave any more.
    Stay,
}

/// One member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    state: State,
    weight: u32,
    since: Duration,
}

/// The members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    members: BTreeMap<Member, Entry>,
}

impl Roster {
    /// Adds a member that starts. One that is there already stays as it is.
    pub fn add(&mut self, member: Member, weight: u32, now: Duration) {
        let entry = Entry { state: State::Starting, weight: weight.max(1), since: now };
        self.members.entry(member).or_insert(entry);
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: Member) -> bool {
        self.members.remove(&member).is_some()
    }

    /// Notes an event; the states before and after, if the member is there and its state has changed.
    pub fn note(&mut self, member: Member, event: Event, now: Duration) -> Option<(State, State)> {
        let entry = self.members.get_mut(&member)?;
        let (before, after) = (entry.state, entry.state.after(event));
        if before == after {
            return None;
        }
        (entry.state, entry.since) = (after, now);
        Some((before, after))
    }

    /// The state of a member; none where there is no such member.
    pub fn state(&self, member: Member) -> Option<State> {
        self.members.get(&member).map(|entry| entry.state)
    }

    /// Since when a member is in its state.
    pub fn since(&self, member: Member) -> Option<Duration> {
        self.members.get(&member).map(|entry| entry.since)
    }

    /// Each member with its state, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Member, State)> + '_ {
        self.members.iter().map(|(member, entry)| (*member, entry.state))
    }

    /// How many members are in a state.
    pub fn count(&self, state: State) -> usize {
        self.iter().filter(|(_, own)| *own == state).count()
    }

    /// The lowest number that no member has.
    pub fn free(&self) -> Member {
        let taken = self.members.keys().zip(0..).take_while(|(member, number)| member.0 == *number);
        Member(u16::try_from(taken.count()).unwrap_or(u16::MAX))
    }

    /// Members that get frames, with their weights: those that serve. If none does, those that are suspect, and then those that leave: a frame that a slow
    /// member may forward is better off there than in a drop counter.
    pub fn shares(&self) -> Shares {
        let of = |state: State| -> Shares {
            let own = self.members.iter().filter(|(_, entry)| entry.state == state);
            own.map(|(member, entry)| (*member, entry.weight)).collect()
        };
        let choices = [State::Serving, State::Suspect, State::Leaving].map(of);
        choices.into_iter().find(|shares| !shares.is_empty()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
