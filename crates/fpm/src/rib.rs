//! All routes of a control namespace, and the differences between what the data path was told and what holds now.

use std::collections::{BTreeMap, btree_map};
use std::mem;
use std::net::IpAddr;
use std::ops::Bound;

use netlink::{Prefix, Route, RouteKind};

use crate::decode::{Message, Refused, RouteMessage, masked};
use crate::groups::{GroupId, Groups, Paths};
use crate::local::{LocalRoute, LocalRoutes};
use crate::room::Room;

/// Protocol of zebra itself (RTPROT_ZEBRA).
const ZEBRA: u8 = 11;
/// Protocols of FRR's daemons: RTPROT_BGP to RTPROT_SRTE of `zebra/rt_netlink.h`.
const DAEMONS: std::ops::RangeInclusive<u8> = 186..=198;
/// Last protocol number of the kernel and of `ip route` (RTPROT_STATIC).
const LAST_OF_KERNEL: u8 = 4;

/// Destination: a network in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Table number; `main` is 254.
    pub table: u32,
    /// Network, without bits after its length.
    pub to: Prefix,
}

/// Treatment of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Forwarded by a group.
    Group(GroupId),
    /// Delivered to the router itself.
    Local,
    /// Dropped silently.
    Blackhole,
    /// Dropped; the sender is told that the host is unreachable.
    Unreachable,
    /// Dropped; the sender is told that this is prohibited.
    Prohibit,
    /// Dropped like `Unreachable`: the data path cannot do what the route asks for.
    Refused(Refused),
}

/// Source of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// zebra, over FPM.
    Fpm,
    /// The kernel's table.
    Kernel,
}

/// Change that the data path has to make. A batch lists groups first, then routes, then groups that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A group is new, or has other paths now.
    Group(GroupId, Paths<'a>),
    /// A route is new, or has another target now.
    Route(Key, Target),
    /// A route is gone.
    NoRoute(Key),
    /// A group is gone; its number may be used again.
    NoGroup(GroupId),
}

/// Route as it is found and listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Destination.
    pub key: Key,
    /// Treatment of packets.
    pub target: Target,
    /// Paths, if the target is a group.
    pub paths: Option<Paths<'a>>,
    /// Source.
    pub origin: Origin,
    /// Protocol (RTPROT_*).
    pub protocol: u8,
    /// True if zebra has not sent it since it connected last.
    pub is_stale: bool,
}

/// Routes of a namespace.
#[derive(Debug, Default)]
pub struct Rib {
    /// In order, so that a long list can be shown page by page.
    routes: BTreeMap<Key, Entry>,
    groups: Groups,
    local: LocalRoutes,
    /// Destinations that may differ from what was told.
    touched: Vec<Key>,
    /// Number of the session of zebra.
    session: u32,
    /// Routes of zebra, and those of them that were sent in this session.
    of_zebra: usize,
    fresh: usize,
    room: Room,
}

#[derive(Debug, Default)]
struct Entry {
    /// Target by zebra's route.
    zebras: Option<Target>,
    /// Target that the data path was told.
    told: Option<Target>,
    /// Session in which zebra's route was sent last.
    session: u32,
    /// Protocol of zebra's route.
    protocol: u8,
    is_touched: bool,
    /// True if the dump that is under way has it.
    is_seen: bool,
}

impl Rib {
    /// One with room for so many routes of each table and family, and groups.
    #[cfg(test)]
    pub(crate) fn with_room(routes: usize, groups: usize) -> Self {
        Self { room: Room::of(routes, groups), ..Self::default() }
    }

    /// Takes a message of zebra.
    ///
    /// # Errors
    /// The data path cannot do what a route asks for. Its destination is unreachable then: neither an older route to it nor a
    /// less specific one is used in its place. One more route than there is room for is not taken at all.
    pub fn take(&mut self, message: &Message<'_>) -> Result<(), Refused> {
        match message {
            Message::Route(route) if route.protocol > LAST_OF_KERNEL => return self.add(route),
            Message::NoRoute(route) if route.protocol > LAST_OF_KERNEL => self.remove(route),
            // zebra reports those of the kernel only at the start of a session: the kernel itself reports all changes.
            Message::Route(_) | Message::NoRoute(_) => {}
            Message::Group(group) => {
                if !self.admits_group(|groups| groups.has(group.id)) {
                    return Err(Refused::Room);
                }
                self.groups.set(group);
                return group.refused.map_or(Ok(()), Err);
            }
            Message::NoGroup(id) => self.groups.unset(*id),
            Message::Other(_) => {}
        }
        Ok(())
    }

    /// Returns true if a route uses a next-hop object that zebra has not told of.
    pub fn lacks_group(&self, route: &RouteMessage<'_>) -> bool {
        route.group.is_some_and(|id| !self.groups.is_known(id))
    }

    /// Begins a new session of zebra: all its routes are stale until they are sent again.
    pub fn mark(&mut self) {
        self.session = self.session.wrapping_add(1);
        self.fresh = 0;
        self.groups.mark();
        self.room.mark();
    }

    /// Returns true if there was no room for some of what zebra has sent in this session.
    pub fn is_short(&self) -> bool {
        self.room.is_short()
    }

    /// Returns true if there is room by now for more of what was refused in this session: zebra should send it again.
    pub fn has_room_again(&self) -> bool {
        self.room.is_back(self.groups.named())
    }

    /// Notes that a netlink dump contains a route.
    pub fn seen_in_kernel(&mut self, route: &Route) {
        if let Some(to) = masked(route.id.to.ip, route.id.to.len).filter(|_| is_zebras(route)) {
            self.seen(Key { table: route.id.table, to });
        }
    }

    /// Notes that a netlink dump contains zebra's route to a destination.
    pub fn seen(&mut self, key: Key) {
        if let Some(entry) = self.routes.get_mut(&key) {
            entry.is_seen = true;
        }
    }

    /// Ends a dump. If it is `whole`, stale routes that it lacks are removed; returns their number.
    pub fn sweep(&mut self, whole: bool) -> usize {
        let mut gone = Vec::new();
        for (key, entry) in &mut self.routes {
            let is_seen = mem::take(&mut entry.is_seen);
            if whole && !is_seen && entry.zebras.is_some() && entry.session != self.session {
                gone.push(*key);
            }
        }
        gone.iter().for_each(|key| self.set(*key, None, 0));
        gone.len()
    }

    /// Adds a route that the kernel reports, unless it is zebra's.
    pub fn add_local(&mut self, route: &Route) {
        if !is_zebras(route) {
            self.add_any(route);
        }
    }

    /// Adds a route that the kernel reports, whoever has put it there: where the kernel forwards, and zebra tells nobody else.
    pub fn add_any(&mut self, route: &Route) {
        let Some((key, local)) = self.local_route(route) else { return };
        if !self.local.add(key, local) {
            self.give(Some(local.target));
        }
        self.touch(key);
    }

    /// Removes a route that the kernel reports to be gone, unless it was zebra's.
    pub fn remove_local(&mut self, route: &Route) {
        if is_zebras(route) {
            return;
        }
        let Some((key, local)) = self.local_route(route) else { return };
        if self.local.remove(key, local) {
            self.give(Some(local.target));
            self.touch(key);
        }
        self.give(Some(local.target));
    }

    /// Notes whether a next hop, given by its interface and address, answers; groups leave out those that do not. Returns true
    /// if that is new: then [`Rib::changes`] reports the groups concerned.
    pub fn judge(&mut self, index: u32, via: IpAddr, is_alive: bool) -> bool {
        self.groups.judge(index, via, is_alive)
    }

    /// Nobody judges next hops any more: all are taken to answer. Returns true if that is new.
    pub fn forget_verdicts(&mut self) -> bool {
        self.groups.forget_verdicts()
    }

    /// Closes a batch: reports what differs from what was told before.
    pub fn changes(&mut self, tell: &mut dyn FnMut(Change<'_>)) {
        self.groups.tell(tell);
        let mut touched = mem::take(&mut self.touched);
        touched.drain(..).for_each(|key| self.tell_route(key, tell));
        self.touched = touched;
        self.groups.tell_gone(tell);
    }

    /// Returns the number of routes of zebra.
    pub const fn len(&self) -> usize {
        self.of_zebra
    }

    /// Returns true if zebra has no route.
    pub const fn is_empty(&self) -> bool {
        self.of_zebra == 0
    }

    /// Returns the number of stale routes.
    pub const fn stale(&self) -> usize {
        self.of_zebra - self.fresh
    }

    /// Returns the number of groups in use.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Lists all routes in order, as the data path was told at the end of the last batch.
    pub fn iter(&self) -> impl Iterator<Item = Found<'_>> {
        self.routes.iter().filter_map(move |(key, entry)| self.found(*key, entry))
    }

    /// Looks up the longest match for an address in a table.
    pub fn find(&self, table: u32, ip: IpAddr) -> Option<Found<'_>> {
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        (0..=longest).rev().find_map(|len| self.get(Key { table, to: masked(ip, len)? }))
    }

    /// Lists the routes of a table to a network and to its parts, in order; those behind `after`, if it is given: a list can be
    /// taken page by page.
    pub fn within(&self, table: u32, net: Prefix, after: Option<Prefix>) -> impl Iterator<Item = Found<'_>> {
        let key = |to| Key { table, to };
        let start = match after {
            Some(after) if after >= net => Bound::Excluded(key(after)),
            _ => Bound::Included(key(net)),
        };
        let is_part = move |key: &Key| {
            let network = masked(key.to.ip, net.len).map(|network| network.ip);
            key.table == table && network == Some(net.ip)
        };
        let parts = self.routes.range((start, Bound::Unbounded)).take_while(move |(key, _)| is_part(key));
        parts.filter_map(move |(key, entry)| self.found(*key, entry))
    }

    /// Returns the route to exactly this destination.
    pub fn get(&self, key: Key) -> Option<Found<'_>> {
        self.found(key, self.routes.get(&key)?)
    }

    fn found(&self, key: Key, entry: &Entry) -> Option<Found<'_>> {
        let target = entry.told?;
        let paths = if let Target::Group(group) = target { self.groups.paths(group) } else { None };
        let (origin, protocol) = match self.local.get(key) {
            Some(local) => (Origin::Kernel, local.protocol),
            None => (Origin::Fpm, entry.protocol),
        };
        let is_stale = origin == Origin::Fpm && entry.session != self.session;
        Some(Found { key, target, paths, origin, protocol, is_stale })
    }

    fn add(&mut self, route: &RouteMessage<'_>) -> Result<(), Refused> {
        let key = Key { table: route.table, to: route.to };
        if !self.admits(key) {
            return Err(Refused::Room);
        }
        let Some(target) = self.target(route) else {
            self.remove(route);
            return Ok(());
        };
        self.set(key, Some(target), route.protocol);
        if let Target::Refused(why) = target { Err(why) } else { Ok(()) }
    }

    /// Returns true if zebra may have a route to a destination: it has one already, or there is room for one more.
    fn admits(&mut self, key: Key) -> bool {
        let is_there = |entry: &Entry| entry.zebras.is_some();
        let is_admitted = self.room.has_more(key) || self.routes.get(&key).is_some_and(is_there);
        if !is_admitted {
            self.room.refuse(key);
        }
        is_admitted
    }

    /// Returns true if zebra may use a group: it is there, or there is room for one more.
    fn admits_group(&mut self, is_there: impl FnOnce(&Groups) -> bool) -> bool {
        let is_admitted = self.room.has_more_groups(self.groups.named()) || is_there(&self.groups);
        if !is_admitted {
            self.room.refuse_group();
        }
        is_admitted
    }

    fn remove(&mut self, route: &RouteMessage<'_>) {
        let key = Key { table: route.table, to: route.to };
        if self.routes.contains_key(&key) {
            self.set(key, None, 0);
        }
    }

    /// Target of zebra's route, with a user added to its group.
    fn target(&mut self, route: &RouteMessage<'_>) -> Option<Target> {
        match (route.refused, route.kind) {
            (Some(why), _) => Some(Target::Refused(why)),
            (None, RouteKind::Unicast) => {
                Some(self.group(route).map_or(Target::Refused(Refused::Room), Target::Group))
            }
            (None, kind) => fate(kind),
        }
    }

    /// Group of zebra's route, with a user added; `None`: there is no room for it.
    fn group(&mut self, route: &RouteMessage<'_>) -> Option<GroupId> {
        match (route.group, route.hops) {
            (Some(id), _) => self.admits_group(|groups| groups.has(id)).then(|| self.groups.take(id)),
            (None, hops) => {
                let is_admitted = self.admits_group(|groups| groups.has_hops(hops.iter()));
                is_admitted.then(|| self.groups.take_hops(hops.iter()))
            }
        }
    }

    fn local_route(&mut self, route: &Route) -> Option<(Key, LocalRoute)> {
        if route.id.tos != 0 {
            return None;
        }
        let key = Key { table: route.id.table, to: masked(route.id.to.ip, route.id.to.len)? };
        let target = match route.kind {
            RouteKind::Unicast => Target::Group(self.groups.take_hops(route.next_hops.iter().copied())),
            kind => fate(kind)?,
        };
        Some((key, LocalRoute { metric: route.id.metric, protocol: route.protocol, target }))
    }

    /// Sets zebra's route to a destination.
    fn set(&mut self, key: Key, target: Option<Target>, protocol: u8) {
        let session = self.session;
        let entry = self.routes.entry(key).or_default();
        let before = mem::replace(&mut entry.zebras, target);
        if before.is_some() {
            self.of_zebra -= 1;
            self.fresh -= usize::from(entry.session == session);
            self.room.remove(key);
        }
        if target.is_some() {
            self.of_zebra += 1;
            self.fresh += 1;
            self.room.add(key);
            entry.session = session;
            entry.protocol = protocol;
        }
        if !mem::replace(&mut entry.is_touched, true) {
            self.touched.push(key);
        }
        self.give(before);
    }

    fn touch(&mut self, key: Key) {
        let entry = self.routes.entry(key).or_default();
        if !mem::replace(&mut entry.is_touched, true) {
            self.touched.push(key);
        }
    }

    fn tell_route(&mut self, key: Key, tell: &mut dyn FnMut(Change<'_>)) {
        let btree_map::Entry::Occupied(mut place) = self.routes.entry(key) else { return };
        let entry = place.get_mut();
        entry.is_touched = false;
        let now = self.local.get(key).map(|local| local.target).or(entry.zebras);
        if now != entry.told {
            entry.told = now;
            tell(now.map_or(Change::NoRoute(key), |target| Change::Route(key, target)));
        }
        if now.is_none() {
            place.remove();
        }
    }

    fn give(&mut self, target: Option<Target>) {
        if let Some(Target::Group(group)) = target {
            self.groups.give(group);
        }
    }
}

/// Returns true if zebra, or a daemon for which it writes, has put a route into the kernel. A mirror of the kernel's tables need
/// not keep it: FPM brings it.
pub fn is_zebras(route: &Route) -> bool {
    route.protocol == ZEBRA || DAEMONS.contains(&route.protocol)
}

/// Target of a route that needs no next hop; `None` if the look-up goes on without it.
const fn fate(kind: RouteKind) -> Option<Target> {
    match kind {
        RouteKind::Local => Some(Target::Local),
        RouteKind::Blackhole => Some(Target::Blackhole),
        RouteKind::Unreachable => Some(Target::Unreachable),
        RouteKind::Prohibit => Some(Target::Prohibit),
        RouteKind::Unicast | RouteKind::Throw | RouteKind::Other(_) => None,
    }
}

#[cfg(test)]
mod tests;
