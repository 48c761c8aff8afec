//! How many routes and groups of zebra are taken: BGP neighbours can announce any number.

use std::collections::{BTreeMap, BTreeSet};

use crate::rib::Key;

/// Most routes of zebra in a table, of each family: twice as many as a data path with a full IPv4 table has room for.
pub const MOST_ROUTES: usize = 2_000_000;
/// Most groups that zebra may add to: twice as many as the next hops that a data path has room for.
pub const MOST_GROUPS: usize = 131_072;

/// A family in a table: true for IPv4.
type Part = (u32, bool);

/// Numbers of routes, and what was refused in this session.
#[derive(Debug)]
pub(crate) struct Room {
    most_routes: usize,
    most_groups: usize,
    /// Routes of zebra in each part that has any.
    sizes: BTreeMap<Part, usize>,
    /// Parts of which routes were refused.
    short: BTreeSet<Part>,
    /// True if a group was refused.
    lacks_groups: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self::of(MOST_ROUTES, MOST_GROUPS)
    }
}

impl Room {
    /// Creates room for so many routes of each part, and groups.
    pub(crate) fn of(most_routes: usize, most_groups: usize) -> Self {
        let (sizes, short) = Default::default();
        Self { most_routes, most_groups, sizes, short, lacks_groups: false }
    }

    /// Returns true if there is room for one more route like this.
    pub(crate) fn has_more(&self, key: Key) -> bool {
        self.size(part(key)) < self.most_routes
    }

    /// Returns true if there is room for one more group beside so many.
    pub(crate) const fn has_more_groups(&self, groups: usize) -> bool {
        groups < self.most_groups
    }

    /// Notes that a route was refused.
    pub(crate) fn refuse(&mut self, key: Key) {
        self.short.insert(part(key));
    }

    /// Notes that a group was refused.
    pub(crate) const fn refuse_group(&mut self) {
        self.lacks_groups = true;
    }

    /// Counts a new route.
    pub(crate) fn add(&mut self, key: Key) {
        *self.sizes.entry(part(key)).or_default() += 1;
    }

    /// Counts a route that is gone.
    pub(crate) fn remove(&mut self, key: Key) {
        let size = self.sizes.entry(part(key)).or_default();
        *size = size.saturating_sub(1);
        if *size == 0 {
            self.sizes.remove(&part(key));
        }
    }

    /// Begins a new session: everything is sent again.
    pub(crate) fn mark(&mut self) {
        self.short.clear();
        self.lacks_groups = false;
    }

    /// Returns true if anything was refused in this session.
    pub(crate) fn is_short(&self) -> bool {
        self.lacks_groups || !self.short.is_empty()
    }

    /// Returns true if an eighth of what was full is free by now, where there are so many groups: not for each single route is everything
    /// sent again.
    pub(crate) fn is_back(&self, groups: usize) -> bool {
        let has_room = |size: usize, most: usize| size < most - most / 8;
        let has_groups = self.lacks_groups && has_room(groups, self.most_groups);
        has_groups || self.short.iter().any(|part| has_room(self.size(*part), self.most_routes))
    }

    fn size(&self, part: Part) -> usize {
        self.sizes.get(&part).copied().unwrap_or(0)
    }
}

const fn part(key: Key) -> Part {
    (key.table, key.to.ip.is_ipv4())
}

#[cfg(test)]
mod tests {
    use netlink::Prefix;

    use super::*;

    #[test]
    fn each_family_of_a_table_has_its_own_room() {
        let four = Prefix::new([10_u8, 0, 0, 0], 8).expect("a prefix");
        let six = Prefix::new([0x2001_u16, 0xdb8, 0, 0, 0, 0, 0, 0], 32).expect("a prefix");
        let [full, other, table] = [(254, four), (254, six), (7, four)].map(|(table, to)| Key { table, to });
        let mut room = Room::default();
        (0..MOST_ROUTES).for_each(|_| room.add(full));
        assert_eq!([full, other, table].map(|key| room.has_more(key)), [false, true, true]);
        room.refuse(full);
        (0..=MOST_ROUTES / 8).for_each(|_| room.remove(other));
        assert!(room.is_short() && !room.is_back(0), "none of them is gone");
        (0..MOST_ROUTES / 8).for_each(|_| room.remove(full));
        assert!(room.has_more(full) && !room.is_back(0));
        room.remove(full);
        assert!(room.is_back(0));
        room.mark();
        assert!(!room.is_short() && !room.is_back(0));
        room.refuse_group();
        assert!(room.is_short());
        assert_eq!([MOST_GROUPS - MOST_GROUPS / 8, 0].map(|groups| room.is_back(groups)), [false, true]);
        assert!(room.has_more_groups(MOST_GROUPS - 1) && !room.has_more_groups(MOST_GROUPS));
    }
}
