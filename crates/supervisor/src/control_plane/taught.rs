//! What the data plane is taught: the groups and routes that it is to have, and which of them it was not told yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use config::learned::{LearnedFate, LearnedGroup, LearnedHop, LearnedRoute, LearnedWay};
use control::{Fate, Hop, Refusal, Table, Way};
use fpm::{GroupId, Key};
use netlink::Prefix;

/// Most routes, and most next hops of groups, of a lesson: it is not to hold up the data plane's other orders.
pub(super) const MOST: usize = 2000;
/// Table of the routes that packets follow.
pub(super) const MAIN: u32 = 254;

/// Table of the data plane as it is to be.
#[derive(Debug, Default)]
pub(super) struct Taught {
    /// Numbers of groups in lessons. None is used twice, as routes that were not told yet may still follow a group that is gone.
    numbers: HashMap<GroupId, u64>,
    last_number: u64,
    groups: BTreeMap<u64, LearnedWay>,
    routes: BTreeMap<Prefix, LearnedFate>,
    untold: Untold,
}

/// What was not told yet.
#[derive(Debug, Default)]
struct Untold {
    groups: BTreeSet<u64>,
    routes: BTreeSet<Prefix>,
    /// Groups that are gone. They are told when no route is left that may leave them.
    gone: BTreeSet<u64>,
}

impl Taught {
    /// Number of routes, and of groups.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.routes.len(), self.groups.len())
    }

    /// Returns true if everything was told.
    pub(super) fn is_told(&self) -> bool {
        let Untold { groups, routes, gone } = &self.untold;
        groups.is_empty() && routes.is_empty() && gone.is_empty()
    }

    /// Has everything told once more, to a data plane that knows nothing.
    pub(super) fn tell_anew(&mut self) {
        self.untold = Untold {
            groups: self.groups.keys().copied().collect(),
            routes: self.routes.keys().copied().collect(),
            gone: BTreeSet::new(),
        };
    }

    /// Takes what is to be told next: groups before the routes that follow them, and those that are gone after all routes.
    pub(super) fn take(&mut self) -> (Vec<LearnedGroup>, Vec<LearnedRoute>) {
        let mut groups = self.take_groups();
        let routes = if self.untold.groups.is_empty() { self.take_routes() } else { Vec::new() };
        if self.untold.groups.is_empty() && self.untold.routes.is_empty() {
            let gone = (0..MOST).map_while(|_| self.untold.gone.pop_first());
            groups.extend(gone.map(|number| LearnedGroup { number, way: None }));
        }
        (groups, routes)
    }

    fn take_groups(&mut self) -> Vec<LearnedGroup> {
        let (mut taken, mut room) = (Vec::new(), MOST);
        while room > 0
            && let Some(number) = self.untold.groups.pop_first()
        {
            let Some(way) = self.groups.get(&number) else { continue };
            room = room.saturating_sub(size(way));
            taken.push(LearnedGroup { number, way: Some(way.clone()) });
        }
        taken
    }

    fn take_routes(&mut self) -> Vec<LearnedRoute> {
        let next = |_| {
            let prefix = self.untold.routes.pop_first()?;
            let fate = self.routes.get(&prefix).copied();
            Some(LearnedRoute { to: prefix.ip, len: prefix.len, fate })
        };
        (0..MOST).map_while(next).collect()
    }

    /// Number of a group in lessons, new if necessary.
    fn number(&mut self, group: GroupId) -> u64 {
        *self.numbers.entry(group).or_insert_with(|| {
            self.last_number += 1;
            self.last_number
        })
    }

    fn learned_fate(&self, fate: Fate) -> LearnedFate {
        match fate {
            Fate::Group(group) => {
                let number = self.numbers.get(&group).copied();
                number.map_or(LearnedFate::Unreachable, LearnedFate::Group)
            }
            Fate::Local => LearnedFate::Local,
            Fate::Blackhole => LearnedFate::Blackhole,
            Fate::Unreachable => LearnedFate::Unreachable,
            Fate::Prohibit => LearnedFate::Prohibit,
        }
    }
}

impl Table for Taught {
    fn set_group(&mut self, group: GroupId, way: Way<'_>) -> Result<(), Refusal> {
        let (number, way) = (self.number(group), learned_way(way));
        if self.groups.get(&number) != Some(&way) {
            self.groups.insert(number, way);
            self.untold.groups.insert(number);
        }
        Ok(())
    }

    fn remove_group(&mut self, group: GroupId) {
        if let Some(number) = self.numbers.remove(&group) {
            self.groups.remove(&number);
            self.untold.groups.remove(&number);
            self.untold.gone.insert(number);
        }
    }

    fn set_route(&mut self, key: Key, fate: Fate) -> Result<(), Refusal> {
        let fate = self.learned_fate(fate);
        if key.table == MAIN && self.routes.insert(key.to, fate) != Some(fate) {
            self.untold.routes.insert(key.to);
        }
        Ok(())
    }

    fn remove_route(&mut self, key: Key) {
        if key.table == MAIN && self.routes.remove(&key.to).is_some() {
            self.untold.routes.insert(key.to);
        }
    }

    fn publish(&mut self) {}
}

/// Part of a lesson that a group takes.
const fn size(way: &LearnedWay) -> usize {
    match way {
        LearnedWay::Hops(hops) => 1 + hops.len(),
        LearnedWay::Blackhole => 1,
    }
}

fn learned_way(way: Way<'_>) -> LearnedWay {
    match way {
        Way::Hops(hops) => LearnedWay::Hops(hops.iter().map(learned_hop).collect()),
        Way::Blackhole => LearnedWay::Blackhole,
    }
}

fn learned_hop(hop: &Hop) -> LearnedHop {
    // FRR's largest weight, 256, is one more than the largest of the table.
    let weight = u8::try_from(hop.weight.max(1)).unwrap_or(u8::MAX);
    LearnedHop { link: hop.port.nic, via: hop.gateway, weight }
}

#[cfg(test)]
mod tests;
