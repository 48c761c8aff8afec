//! Table with groups over a data path that knows prefixes alone: each route has the first next hop of its group. A change of a
//! group rewrites its routes one by one: right, and slow for a group of a million routes.

use std::collections::{BTreeMap, BTreeSet};

use fpm::{GroupId, Key};

use crate::translator::{Fate, Hop, Refusal, Table, Way};

/// What happens to the packets of a prefix.
pub trait Prefixes {
    /// Sets a prefix, new or known: its next hop, or else its fate, which is never a group.
    ///
    /// # Errors
    /// The data path cannot at present; the prefix is as it was.
    fn set(&mut self, key: Key, way: Result<Hop, Fate>) -> Result<(), Refusal>;
    /// Removes a prefix that is there.
    fn remove(&mut self, key: Key);
    /// Brings all changes into force.
    fn publish(&mut self);
}

/// Groups over prefixes.
#[derive(Debug)]
pub struct Flat<P> {
    prefixes: P,
    groups: BTreeMap<GroupId, Group>,
    routes: BTreeMap<Key, Fate>,
}

#[derive(Debug)]
struct Group {
    way: Result<Hop, Fate>,
    routes: BTreeSet<Key>,
}

impl<P: Prefixes> Flat<P> {
    /// Creates a table without routes over prefixes, of which there are none yet.
    pub const fn new(prefixes: P) -> Self {
        Self { prefixes, groups: BTreeMap::new(), routes: BTreeMap::new() }
    }

    /// The data path's prefixes.
    pub const fn prefixes(&self) -> &P {
        &self.prefixes
    }

    /// The data path's prefixes, for what it does with them itself.
    pub const fn prefixes_mut(&mut self) -> &mut P {
        &mut self.prefixes
    }

    /// Passes on all prefixes, in order, with what they are to be.
    pub fn each(&self, tell: &mut dyn FnMut(Key, Result<Hop, Fate>)) {
        self.routes.iter().for_each(|(key, fate)| tell(*key, self.way(*fate)));
    }

    /// What the prefix of a route with this fate becomes.
    fn way(&self, fate: Fate) -> Result<Hop, Fate> {
        match fate {
            Fate::Group(group) => self.groups.get(&group).map_or(Err(Fate::Unreachable), |group| group.way),
            other => Err(other),
        }
    }

    fn leave(&mut self, key: Key) {
        if let Some(Fate::Group(group)) = self.routes.remove(&key)
            && let Some(group) = self.groups.get_mut(&group)
        {
            group.routes.remove(&key);
        }
    }
}

impl<P: Prefixes> Table for Flat<P> {
    fn set_group(&mut self, group: GroupId, way: Way<'_>) -> Result<(), Refusal> {
        let way = match way {
            Way::Hops(hops) => hops.first().copied().ok_or(Fate::Unreachable),
            Way::Blackhole => Err(Fate::Blackhole),
        };
        let known = self.groups.entry(group).or_insert(Group { way, routes: BTreeSet::new() });
        // Those that are refused are tried again with the whole group: it is remembered as it was.
        known.routes.iter().filter(|_| known.way != way).try_for_each(|key| self.prefixes.set(*key, way))?;
        known.way = way;
        Ok(())
    }

    fn remove_group(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }

    fn set_route(&mut self, key: Key, fate: Fate) -> Result<(), Refusal> {
        let way = self.way(fate);
        self.prefixes.set(key, way)?;
        self.leave(key);
        self.routes.insert(key, fate);
        if let Fate::Group(group) = fate
            && let Some(group) = self.groups.get_mut(&group)
        {
            group.routes.insert(key);
        }
        Ok(())
    }

    fn remove_route(&mut self, key: Key) {
        if self.routes.contains_key(&key) {
            self.leave(key);
            self.prefixes.remove(key);
        }
    }

    fn publish(&mut self) {
        self.prefixes.publish();
    }
}

#[cfg(test)]
mod tests;
