//! Translation of the Rib's changes into changes of the data path's table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use fpm::{Change, GroupId, Key, Paths, Target};
use netlink::NextHop;

use crate::ports::{Port, Ports};

ledger::counters! {
    /// Translation of routes for a data path.
    pub struct ControlCounters {
        /// Routes written to the table, new or changed.
        routes_set,
        /// Routes removed from the table.
        routes_removed,
        /// Groups written to the table, new or changed.
        groups_set,
        /// Next hops left out because their interface is no port of the router.
        unknown_interface,
        /// Changes that the table has refused, and that were kept for later.
        refused,
        /// Batches published.
        batches,
    }
}

/// Next hop of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// Port.
    pub port: Port,
    /// Gateway, of either family; `None`: the destination itself.
    pub gateway: Option<IpAddr>,
    /// Relative weight: 1 to 256.
    pub weight: u16,
}

/// Where a group's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<'a> {
    /// To these next hops by weight; none: the sender is told that the destination is unreachable.
    Hops(&'a [Hop]),
    /// Nowhere, silently.
    Blackhole,
}

/// What happens to the packets of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They go the way of a group.
    Group(GroupId),
    /// They are for the router.
    Local,
    /// They are dropped silently.
    Blackhole,
    /// They are dropped; the sender is told that the host is unreachable.
    Unreachable,
    /// They are dropped; the sender is told that this is prohibited.
    Prohibit,
}

/// Reason why a table does not make a change at present. It is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its readers still use what would be needed.
    Waiting,
    /// It is full.
    Full,
}

/// Route table of a data path. Changes come into force together, by [`Table::publish`].
pub trait Table {
    /// Sets the way of a group, new or known.
    ///
    /// # Errors
    /// The table cannot at present.
    fn set_group(&mut self, group: GroupId, way: Way<'_>) -> Result<(), Refusal>;
    /// Removes a group that no route uses.
    fn remove_group(&mut self, group: GroupId);
    /// Sets a route, new or known. Its group is known.
    ///
    /// # Errors
    /// The table cannot at present.
    fn set_route(&mut self, key: Key, fate: Fate) -> Result<(), Refusal>;
    /// Removes a route, if it is there.
    fn remove_route(&mut self, key: Key);
    /// Brings all changes into force.
    fn publish(&mut self);
}

/// Translator between a Rib and a table.
#[derive(Debug, Default)]
pub struct Translator {
    /// Paths of each group as the Rib told them.
    groups: HashMap<GroupId, Told>,
    /// What the table has refused: routes with what they have to become, and groups.
    late_routes: BTreeMap<Key, Fate>,
    late_groups: BTreeSet<GroupId>,
    /// Refused routes of which the table may still have the former content.
    outdated: BTreeSet<Key>,
    counters: Arc<ControlCounters>,
    /// Hops of the group at hand.
    scratch: Vec<Hop>,
}

#[derive(Clone, Debug)]
enum Told {
    Hops(Vec<NextHop>),
    Blackhole,
}

impl Translator {
    /// Creates one that counts here, where others may read it.
    pub fn counted_by(counters: Arc<ControlCounters>) -> Self {
        Self { counters, ..Self::default() }
    }

    /// Makes a change in the table.
    pub fn take(&mut self, change: &Change<'_>, ports: &Ports, table: &mut dyn Table) {
        match change {
            Change::Group(group, paths) => {
                let told = match paths {
                    Paths::Hops(hops) => Told::Hops(hops.to_vec()),
                    Paths::Blackhole => Told::Blackhole,
                };
                self.groups.insert(*group, told);
                self.set_group(*group, ports, table);
            }
            Change::Route(key, target) => self.set_route(*key, fate(*target), table),
            Change::NoRoute(key) => {
                self.late_routes.remove(key);
                self.outdated.remove(key);
                table.remove_route(*key);
                self.counters.routes_removed.add(1);
            }
            Change::NoGroup(group) => self.remove_group(*group, table),
        }
    }

    /// Ends a batch: offers again what the table has refused, and publishes.
    pub fn publish(&mut self, ports: &Ports, table: &mut dyn Table) {
        for group in mem::take(&mut self.late_groups) {
            self.set_group(group, ports, table);
        }
        for (key, fate) in mem::take(&mut self.late_routes) {
            self.set_route(key, fate, table);
        }
        table.publish();
        self.counters.batches.add(1);
    }

    /// Translates all groups again: an index means another port, or none any more.
    pub fn ports_changed(&mut self, ports: &Ports, table: &mut dyn Table) {
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        groups.into_iter().for_each(|group| self.set_group(group, ports, table));
    }

    /// Number of changes that the table has refused so far: routes and groups that are not yet as they should be.
    pub fn late(&self) -> usize {
        self.late_routes.len() + self.late_groups.len()
    }

    /// Counters.
    pub fn counters(&self) -> &ControlCounters {
        &self.counters
    }

    fn remove_group(&mut self, group: GroupId, table: &mut dyn Table) {
        // Those that wait to leave the group cannot stay in the table without it.
        mem::take(&mut self.outdated).into_iter().for_each(|key| table.remove_route(key));
        self.groups.remove(&group);
        self.late_groups.remove(&group);
        table.remove_group(group);
    }

    fn set_group(&mut self, group: GroupId, ports: &Ports, table: &mut dyn Table) {
        let Some(told) = self.groups.get(&group) else { return };
        self.scratch.clear();
        let way = match told {
            Told::Blackhole => Way::Blackhole,
            Told::Hops(hops) => {
                self.scratch.extend(hops.iter().filter_map(|hop| translated(hop, ports)));
                self.counters.unknown_interface.add((hops.len() - self.scratch.len()) as u64);
                Way::Hops(&self.scratch)
            }
        };
        if table.set_group(group, way).is_ok() {
            self.late_groups.remove(&group);
            self.counters.groups_set.add(1);
        } else {
            self.late_groups.insert(group);
            self.counters.refused.add(1);
        }
    }

    fn set_route(&mut self, key: Key, fate: Fate, table: &mut dyn Table) {
        // A group that was refused is not in the table: its routes wait for it.
        let waits = matches!(fate, Fate::Group(group) if self.late_groups.contains(&group));
        if !waits && table.set_route(key, fate).is_ok() {
            self.late_routes.remove(&key);
            self.outdated.remove(&key);
            self.counters.routes_set.add(1);
        } else {
            self.late_routes.insert(key, fate);
            self.outdated.insert(key);
            self.counters.refused.add(1);
        }
    }
}

fn translated(hop: &NextHop, ports: &Ports) -> Option<Hop> {
    Some(Hop { port: ports.get(hop.index)?, gateway: hop.via, weight: hop.weight })
}

const fn fate(target: Target) -> Fate {
    match target {
        Target::Group(group) => Fate::Group(group),
        Target::Local => Fate::Local,
        Target::Blackhole => Fate::Blackhole,
        Target::Unreachable | Target::Refused(_) => Fate::Unreachable,
        Target::Prohibit => Fate::Prohibit,
    }
}

#[cfg(test)]
mod tests;
