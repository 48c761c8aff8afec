//! Next-hop groups: what routes point at, so that a change of next hops touches the group alone.
//!
//! A group is found by zebra's number (a next-hop object), or by its next hops (a route without an object). It lives as long as
//! a route uses it, or zebra's number is bound to it. Numbers mean something only within one session of zebra: at a reconnect
//! the groups keep their next hops and lose their numbers. A number that comes back with the same next hops takes the old group
//! over, so that a restart of zebra changes no route.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::net::IpAddr;

use netlink::NextHop;

use crate::decode::{GroupContent, GroupMessage};
use crate::rib::Change;

/// Number of a group, small, and used again after the group is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// Where the packets of a group go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths<'a> {
    /// To these next hops by weight; if there are none, the destination is unreachable.
    Hops(&'a [NextHop]),
    /// Nowhere: they are dropped silently.
    Blackhole,
}

/// Paths with memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Flat {
    Hops(Vec<NextHop>),
    Blackhole,
}

impl Flat {
    fn paths(&self) -> Paths<'_> {
        match self {
            Self::Hops(hops) => Paths::Hops(hops),
            Self::Blackhole => Paths::Blackhole,
        }
    }
}

/// Content of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Not heard of yet: a route has come before its next-hop object.
    Unknown,
    /// Fixed paths.
    Flat(Flat),
    /// Other next-hop objects and their weights.
    Members(Vec<(u32, u16)>),
}

/// How a group is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    None,
    /// By zebra's number.
    Id(u32),
    /// By its number in the former session.
    Former(u32),
    /// By its next hops.
    Hops,
    /// The slot is free. (A group may be idle twice in a batch.)
    Free,
}

#[derive(Debug)]
struct Slot {
    content: Content,
    name: Name,
    /// Number of routes.
    users: u32,
    /// What the data path was told.
    told: Option<Flat>,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_id: HashMap<u32, u32>,
    by_former_id: HashMap<u32, u32>,
    by_hops: BTreeMap<Vec<NextHop>, u32>,
    /// Next hops that do not answer, by interface and gateway.
    dead: BTreeSet<(u32, IpAddr)>,
    /// Groups that got their first user in this batch.
    begun: Vec<u32>,
    /// Groups that lost their last user in this batch.
    idle: Vec<u32>,
    /// True if the next hops of any group may have changed.
    changed: bool,
    /// Next hops of the route at hand.
    scratch: Vec<NextHop>,
}

impl Groups {
    /// Sets the content of zebra's object.
    pub(crate) fn set(&mut self, message: &GroupMessage<'_>) {
        let content = match message.content {
            // Packets that would need a header of another kind are not sent without it.
            _ if message.refused.is_some() => Content::Flat(Flat::Hops(Vec::new())),
            GroupContent::Hop(hop) => Content::Flat(Flat::Hops(vec![hop])),
            GroupContent::Blackhole => Content::Flat(Flat::Blackhole),
            GroupContent::Members(_) => Content::Members(message.content.members().collect()),
        };
        let slot = self.bound(message.id);
        let slot = &mut self.slots[slot as usize];
        self.changed |= slot.content != content;
        slot.content = content;
    }

    /// Forgets zebra's number. Routes that still use the group keep its next hops.
    pub(crate) fn unset(&mut self, id: u32) {
        let Some(slot) = self.by_id.remove(&id) else { return };
        self.changed = true;
        self.freeze(slot);
        self.slots[slot as usize].name = Name::None;
        self.idle.push(slot);
    }

    /// Adds a user to zebra's object with this number.
    pub(crate) fn take(&mut self, id: u32) -> GroupId {
        let slot = self.bound(id);
        let slot = self.adopted(id, slot);
        self.add_user(slot)
    }

    /// Returns true if zebra has told the content of this object.
    pub(crate) fn is_known(&self, id: u32) -> bool {
        self.by_id.get(&id).is_some_and(|slot| self.slots[*slot as usize].content != Content::Unknown)
    }

    /// Returns true if there is a group for zebra's object with this number.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Returns true if there is a group with exactly these next hops.
    pub(crate) fn has_hops(&self, hops: impl Iterator<Item = NextHop>) -> bool {
        self.by_hops.contains_key(hops.collect::<Vec<_>>().as_slice())
    }

    /// Number of groups that can be found. Those of the former session, which lost their numbers, last only as long as routes use them.
    pub(crate) fn named(&self) -> usize {
        self.by_id.len() + self.by_hops.len()
    }

    /// Adds a user to the group with exactly these next hops.
    pub(crate) fn take_hops(&mut self, hops: impl Iterator<Item = NextHop>) -> GroupId {
        self.scratch.clear();
        self.scratch.extend(hops);
        let slot = match self.by_hops.get(self.scratch.as_slice()) {
            Some(slot) => *slot,
            None => {
                let hops = self.scratch.clone();
                let slot = self.new_slot(Content::Flat(Flat::Hops(hops.clone())), Name::Hops);
                self.by_hops.insert(hops, slot);
                slot
            }
        };
        self.add_user(slot)
    }

    /// Removes a user.
    pub(crate) fn give(&mut self, GroupId(slot): GroupId) {
        let users = &mut self.slots[slot as usize].users;
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.idle.push(slot);
        }
    }

    /// Begins a new session: numbers lose their meaning.
    pub(crate) fn mark(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            self.freeze(slot);
        }
        for slot in mem::take(&mut self.by_former_id).into_values() {
            self.slots[slot as usize].name = Name::None;
            self.idle.push(slot);
        }
        for (id, slot) in mem::take(&mut self.by_id) {
            self.slots[slot as usize].name = Name::Former(id);
            self.by_former_id.insert(id, slot);
            self.idle.push(slot);
        }
    }

    /// Notes whether a next hop answers. Returns true if that is new.
    pub(crate) fn judge(&mut self, index: u32, via: IpAddr, is_alive: bool) -> bool {
        let is_new = if is_alive { self.dead.remove(&(index, via)) } else { self.dead.insert((index, via)) };
        self.changed |= is_new;
        is_new
    }

    /// Takes all next hops to answer. Returns true if that is new.
    pub(crate) fn forget_verdicts(&mut self) -> bool {
        let is_new = !mem::take(&mut self.dead).is_empty();
        self.changed |= is_new;
        is_new
    }

    /// Paths of a group, without next hops that do not answer.
    pub(crate) fn paths(&self, GroupId(slot): GroupId) -> Option<Paths<'_>> {
        Some(self.slots.get(slot as usize)?.told.as_ref()?.paths())
    }

    /// Number of groups that routes use.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.users > 0).count()
    }

    /// Reports groups that are new or have other paths than the data path was told.
    pub(crate) fn tell(&mut self, tell: &mut dyn FnMut(Change<'_>)) {
        let begun = mem::take(&mut self.begun);
        if mem::take(&mut self.changed) {
            (0..self.slots.len() as u32).for_each(|slot| self.tell_one(slot, tell));
        } else {
            begun.iter().for_each(|slot| self.tell_one(*slot, tell));
        }
        self.begun = begun;
        self.begun.clear();
    }

    /// Reports groups without users to be gone, after the routes of the batch, and frees those that nothing refers to.
    pub(crate) fn tell_gone(&mut self, tell: &mut dyn FnMut(Change<'_>)) {
        let mut idle = mem::take(&mut self.idle);
        for slot in idle.drain(..) {
            let at = &mut self.slots[slot as usize];
            if at.users > 0 {
                continue;
            }
            if at.told.take().is_some() {
                tell(Change::NoGroup(GroupId(slot)));
            }
            self.release(slot);
        }
        self.idle = idle;
    }

    fn tell_one(&mut self, slot: u32, tell: &mut dyn FnMut(Change<'_>)) {
        let at = &self.slots[slot as usize];
        if at.users == 0 {
            return;
        }
        let mut flat = self.flat(&at.content);
        if let Flat::Hops(hops) = &mut flat {
            hops.retain(|hop| hop.via.is_none_or(|via| !self.dead.contains(&(hop.index, via))));
        }
        if at.told.as_ref() != Some(&flat) {
            tell(Change::Group(GroupId(slot), flat.paths()));
            self.slots[slot as usize].told = Some(flat);
        }
    }

    /// Slot bound to zebra's number, new if necessary.
    fn bound(&mut self, id: u32) -> u32 {
        match self.by_id.get(&id) {
            Some(slot) => *slot,
            None => {
                let slot = self.new_slot(Content::Unknown, Name::Id(id));
                self.by_id.insert(id, slot);
                slot
            }
        }
    }

    /// The group that had this number in the former session, if it has the same paths as the one that has it now, which takes
    /// its place; otherwise the present one.
    fn adopted(&mut self, id: u32, slot: u32) -> u32 {
        if self.by_former_id.is_empty() || self.slots[slot as usize].users > 0 {
            return slot;
        }
        let Some(former) = self.by_former_id.get(&id).copied() else { return slot };
        let now = &self.slots[slot as usize].content;
        if *now == Content::Unknown || self.flat(now) != self.flat(&self.slots[former as usize].content) {
            return slot;
        }
        self.by_former_id.remove(&id);
        let at = &mut self.slots[slot as usize];
        at.name = Name::None;
        let content = mem::replace(&mut at.content, Content::Unknown);
        self.idle.push(slot);
        self.by_id.insert(id, former);
        let at = &mut self.slots[former as usize];
        (at.name, at.content) = (Name::Id(id), content);
        former
    }

    fn new_slot(&mut self, content: Content, name: Name) -> u32 {
        let slot = Slot { content, name, users: 0, told: None };
        if let Some(free) = self.free.pop() {
            self.slots[free as usize] = slot;
            return free;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    fn add_user(&mut self, slot: u32) -> GroupId {
        let at = &mut self.slots[slot as usize];
        at.users += 1;
        if at.users == 1 {
            self.begun.push(slot);
        }
        GroupId(slot)
    }

    /// Gives a group fixed paths, so that it no longer depends on numbers.
    fn freeze(&mut self, slot: u32) {
        let content = &self.slots[slot as usize].content;
        if matches!(content, Content::Members(_)) {
            let flat = self.flat(content);
            self.slots[slot as usize].content = Content::Flat(flat);
        }
    }

    /// Frees a slot without users, unless zebra's present number is bound to it.
    fn release(&mut self, slot: u32) {
        let at = &mut self.slots[slot as usize];
        match at.name {
            Name::Id(_) | Name::Free => return,
            Name::Former(id) => {
                self.by_former_id.remove(&id);
            }
            Name::Hops => {
                if let Content::Flat(Flat::Hops(hops)) = &at.content {
                    self.by_hops.remove(hops);
                }
            }
            Name::None => {}
        }
        at.name = Name::Free;
        at.content = Content::Unknown;
        self.free.push(slot);
    }

    /// Paths of a content; members that zebra has not told of are left out.
    fn flat(&self, content: &Content) -> Flat {
        match content {
            Content::Unknown => Flat::Hops(Vec::new()),
            Content::Flat(flat) => flat.clone(),
            Content::Members(members) => {
                Flat::Hops(members.iter().filter_map(|(id, weight)| self.member(*id, *weight)).collect())
            }
        }
    }

    /// Next hop of a member. Groups in groups do not exist in the kernel, and are left out.
    fn member(&self, id: u32, weight: u16) -> Option<NextHop> {
        let slot = self.by_id.get(&id)?;
        match &self.slots[*slot as usize].content {
            Content::Flat(Flat::Hops(hops)) => hops.first().map(|hop| NextHop { weight, ..*hop }),
            _ => None,
        }
    }
}
