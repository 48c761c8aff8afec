//! Which member has which place: a bucket of a balancer's table, or a queue of a link.
//!
//! A frame's place follows from its flow and never changes; its member follows from the place. Each member has as many places as its
//! weight is worth, rounded down or up. When members come, go or change their weight, as few places change hands as that allows, and of
//! those that could, the ones with the least load: a flow without frames at the moment cannot be reordered.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::member::{Member, Shares};

/// Buckets of a balancer's table: enough for 64 members, whose shares then differ by a quarter at most.
pub const BUCKETS: usize = 256;

/// Which member has each place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    owners: Vec<Option<Member>>,
}

/// A place that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Number of the place.
    pub place: usize,
    /// Former owner; `None`: it had none.
    pub from: Option<Member>,
    /// New owner; `None`: it has none.
    pub to: Option<Member>,
}

impl Assignment {
    /// So many places that nobody has.
    pub fn new(places: usize) -> Self {
        Self { owners: vec![None; places] }
    }

    /// The owner of each place, by number.
    pub fn owners(&self) -> &[Option<Member>] {
        &self.owners
    }

    /// The owner of a place; none: there is no such place, or nobody has it.
    pub fn owner(&self, place: usize) -> Option<Member> {
        self.owners.get(place).copied().flatten()
    }

    /// How many places a member has.
    pub fn held(&self, member: Member) -> usize {
        self.owners.iter().filter(|owner| **owner == Some(member)).count()
    }

    /// The places as they are to be dealt out to these members; `load` tells how much passes each place, in any unit.
    #[must_use]
    pub fn dealt(&self, shares: &Shares, load: impl Fn(usize) -> u64) -> Self {
        let mut due = self.due(shares);
        let mut owners = self.kept(&mut due, load);
        for owner in owners.iter_mut().filter(|owner| owner.is_none()) {
            // In turn to the one that lacks most, so that neighbouring places go to different members.
            let Some((member, lacks)) =
                due.iter_mut().max_by_key(|(member, lacks)| (**lacks, Reverse(**member)))
            else {
                break;
            };
            *lacks = lacks.saturating_sub(1);
            *owner = Some(*member);
        }
        Self { owners }
    }

    /// What changes hands from this assignment to another one of as many places.
    pub fn moves_to(&self, other: &Self) -> Vec<Move> {
        let pairs = self.owners.iter().zip(&other.owners).enumerate();
        let moved = pairs.filter(|(_, (from, to))| from != to);
        moved.map(|(place, (from, to))| Move { place, from: *from, to: *to }).collect()
    }

    /// How many places each member is due: its share, rounded down, and one more for as many as places are left. That one goes to who
    /// has it already, then to whose share was cut most.
    fn due(&self, shares: &Shares) -> BTreeMap<Member, usize> {
        let places = self.owners.len() as u64;
        let total: u64 = shares.values().map(|weight| weight_of(*weight)).sum();
        let mut due = BTreeMap::new();
        let mut cut = Vec::new();
        for (&member, &weight) in shares {
            let (whole, rest) = (places * weight_of(weight) / total, places * weight_of(weight) % total);
            let whole = whole as usize;
            due.insert(member, whole);
            if rest > 0 {
                cut.push((Reverse(self.held(member) > whole), Reverse(rest), member));
            }
        }
        cut.sort_unstable();
        let left = self.owners.len() - due.values().sum::<usize>();
        for (_, _, member) in cut.into_iter().take(left) {
            *due.entry(member).or_default() += 1;
        }
        due
    }

    /// What stays where it is, the busiest places first; what a member lacks after that is left in `due`.
    fn kept(&self, due: &mut BTreeMap<Member, usize>, load: impl Fn(usize) -> u64) -> Vec<Option<Member>> {
        let mut order: Vec<usize> = (0..self.owners.len()).collect();
        order.sort_by_key(|&place| Reverse(load(place)));
        let mut owners = vec![None; self.owners.len()];
        for place in order {
            let Some(owner) = self.owners[place] else { continue };
            if let Some(due) = due.get_mut(&owner).filter(|due| **due > 0) {
                *due -= 1;
                owners[place] = Some(owner);
            }
        }
        owners
    }
}

/// A weight as it counts.
fn weight_of(weight: u32) -> u64 {
    u64::from(weight.max(1))
}

#[cfg(test)]
mod tests;
