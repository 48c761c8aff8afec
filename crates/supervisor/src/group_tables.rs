//! Tables that the members of a group have in common: routes, which this process alone writes; neighbours, which the data plane
//! writes, whichever it is; and a desk for each member.
//!
//! They outlive the data plane and the processes of members. A change of routes is made when a plan is prepared, and taken back
//! unless that becomes the plan that runs.

mod gateways;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bootinfo::Desk;
use config::forwarding::{self, Interface, RouteType, Tags};
use config::six::Address6;
use config::{Address, Group, Nic, Plan, Router};
use engine::{GroupRoutes, RouteEdit};
use link::SupplyKind;
use router::neighbours;
use serde_json::Value;
use vmm::{MemberDesk, SharedMemory};

use super::resources::Handover;

/// Looks, a second apart, for which a member may stay at an old epoch of the routes before its word is not believed any more. An
/// honest one that stays so long was ended long before ([`engine::watch`]).
const PATIENCE: usize = 30;

/// The tables of all groups of a run.
#[derive(Default)]
pub(crate) struct GroupTables {
    open: OpenTables,
    /// Changes of routes that are made already.
    edits: Vec<RouteEdit>,
}

/// Tables that are open, by group, and desks, by router.
#[derive(Clone, Default)]
pub(crate) struct OpenTables {
    groups: BTreeMap<String, Arc<Tables>>,
    desks: BTreeMap<String, Arc<MemberDesk>>,
}

/// The tables of one group.
struct Tables {
    shape: Shape,
    routes: Arc<GroupRoutes>,
    neighbours: SharedMemory,
    /// By which nobody can write `neighbours`.
    to_read: File,
    /// Epochs of the routes at the last looks.
    epochs: Mutex<VecDeque<u32>>,
}

/// What a group's tables are made for: with another one, members are started anew with other tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    /// NICs, and interfaces for VLANs, in the order of their numbers.
    links: Vec<(String, Vec<Address>, Vec<Address6>)>,
    /// Number of the NIC and tags of each of those interfaces: with others there are other neighbours.
    vlans: Vec<(usize, Tags)>,
    neighbours: u32,
    long_routes: Option<u32>,
    /// Whether it has a control plane, and with it an IPv6 table.
    learns: bool,
}

impl Shape {
    fn of(group: &Group) -> Self {
        let forwarding = &group.pattern.forwarding;
        let nic = |nic: &Nic| (nic.name.clone(), nic.addresses.clone(), nic.six.addresses.clone());
        let vlan = |own: &Interface| (own.name.clone(), own.addresses.clone(), own.six.addresses.clone());
        let links = group.pattern.nics.iter().map(nic).chain(forwarding.interfaces.iter().map(vlan));
        let vlans = forwarding.interfaces.iter().map(|own| (own.nic, own.tags)).collect();
        let (neighbours, long_routes) = (forwarding.neighbours, forwarding.long_routes);
        let learns = group.pattern.control.is_some();
        Self { links: links.collect(), vlans, neighbours, long_routes, learns }
    }

    /// Whether numbers of NICs and interfaces mean the same in both.
    fn has_links_of(&self, other: &Self) -> bool {
        self.links.iter().map(|link| &link.0).eq(other.links.iter().map(|link| &link.0))
    }
}

impl Tables {
    fn new(group: &Group, member: &Router) -> Result<Self> {
        let shape = Shape::of(group);
        let len = neighbours::shared_len(shape.neighbours as usize);
        let neighbours = SharedMemory::sparse("ringroad-neighbours", len)?;
        let to_read = neighbours.read_only()?;
        let routes = Arc::new(GroupRoutes::new(member)?);
        Ok(Self { shape, routes, neighbours, to_read, epochs: Mutex::default() })
    }

    /// Reclaims routes that no reader at these desks can have. A word that has been old for too long is not believed: who reads so
    /// misroutes its own packets, and makes nobody wait.
    fn reclaim(&self, desks: &[&Arc<MemberDesk>]) {
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.push_back(self.routes.epoch());
        let due = if epochs.len() > PATIENCE { epochs.pop_front() } else { None };
        let is_believed = move |word: &u32| due.is_none_or(|due| due.wrapping_sub(*word).cast_signed() <= 0);
        // The words are read where they are needed, after the removals: see `fib`.
        let words = desks.iter().flat_map(|desk| desk.epochs());
        self.routes.reclaim(words.filter(is_believed));
        self.routes.catch_up();
    }
}

impl GroupTables {
    /// Makes the tables that a plan needs and that are not held, and changes the routes of those that are to those of the plan.
    ///
    /// # Errors
    /// One line that names the group; then all are as they were.
    pub(crate) fn open(plan: &Plan, held: &OpenTables) -> Result<Self> {
        let mut opened = Self::default();
        for (group, members) in plan.sharing() {
            let Some(member) = members.first() else { continue };
            let name = || format!("group {}", group.name);
            match held.groups.get(&group.name).filter(|known| known.shape == Shape::of(group)) {
                Some(known) => {
                    let edit = known.routes.change_to(member).with_context(name)?;
                    opened.edits.extend(edit);
                }
                None => {
                    let tables = Tables::new(group, member).with_context(name)?;
                    let known = held.groups.get(&group.name);
                    if let Some(known) = known.filter(|known| known.shape.has_links_of(&tables.shape)) {
                        tables.routes.learn_as(&known.routes);
                    }
                    opened.open.groups.insert(group.name.clone(), Arc::new(tables));
                }
            }
            for member in members.iter().filter(|member| !held.desks.contains_key(&member.name)) {
                let memory = SharedMemory::sparse("ringroad-desk", Desk::LEN)?;
                opened.open.desks.insert(member.name.clone(), Arc::new(MemberDesk::new(Arc::new(memory))?));
            }
        }
        Ok(opened)
    }

    /// What is open.
    pub(crate) fn held(&self) -> OpenTables {
        self.open.clone()
    }

    /// Whether there is nothing to close or to take back.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.groups.is_empty() && self.open.desks.is_empty() && self.edits.is_empty()
    }

    /// Keeps what was opened and changed for a plan; returns what that no longer needs.
    pub(crate) fn adopt(&mut self, opened: Self, plan: &Plan) -> Self {
        opened.edits.into_iter().for_each(RouteEdit::keep);
        let mut gone = OpenTables::default();
        for (name, tables) in opened.open.groups {
            // What answers does so whatever table there is.
            let known = self.open.groups.get(&name);
            known.into_iter().for_each(|known| tables.routes.avoid_as(&known.routes));
            let old = self.open.groups.insert(name.clone(), tables);
            gone.groups.extend(old.map(|old| (name, old)));
        }
        self.open.desks.extend(opened.open.desks);
        let is_group = |name: &str| plan.sharing().any(|(group, _)| group.name == name);
        let is_member =
            |name: &str| plan.sharing().any(|(_, members)| members.iter().any(|member| member.name == name));
        let groups = std::mem::take(&mut self.open.groups).into_iter();
        let (kept, left): (BTreeMap<_, _>, BTreeMap<_, _>) = groups.partition(|(name, _)| is_group(name));
        self.open.groups = kept;
        gone.groups.extend(left);
        let desks = std::mem::take(&mut self.open.desks).into_iter();
        (self.open.desks, gone.desks) = desks.partition(|(name, _)| is_member(name));
        Self { open: gone, edits: Vec::new() }
    }

    /// Hands the data plane what it needs of all groups of a plan.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn hand_to_plane(&self, opened: &Self, plan: &Plan, given: &mut Handover) -> Result<()> {
        for (group, members) in plan.sharing() {
            let Some(tables) = self.tables(opened, &group.name) else { continue };
            given.add(
                SupplyKind::GroupRoutes,
                &group.name,
                (Value::Null, vec![file_of(tables.routes.memory())?.as_fd()]),
            )?;
            let both = vec![tables.to_read.as_fd(), file_of(&tables.neighbours)?.as_fd()];
            given.add(SupplyKind::GroupNeighbours, &group.name, (Value::Null, both))?;
            for member in members {
                self.hand_desk(opened, member, given)?;
            }
        }
        Ok(())
    }

    /// Hands the process of a member what it needs of its group.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn hand_to_member(&self, opened: &Self, member: &Router, given: &mut Handover) -> Result<()> {
        let Some((group, _)) = member.membership() else { return Ok(()) };
        let Some(tables) = self.tables(opened, group) else { return Ok(()) };
        given.add(
            SupplyKind::GroupRoutes,
            group,
            (Value::Null, vec![file_of(tables.routes.memory())?.as_fd()]),
        )?;
        given.add(SupplyKind::GroupNeighbours, group, (Value::Null, vec![tables.to_read.as_fd()]))?;
        self.hand_desk(opened, member, given)
    }

    fn hand_desk(&self, opened: &Self, member: &Router, given: &mut Handover) -> Result<()> {
        let desks = [&opened.open.desks, &self.open.desks];
        let Some(desk) = desks.iter().find_map(|desks| desks.get(&member.name)) else { return Ok(()) };
        given.add(SupplyKind::Desk, &member.name, (Value::Null, vec![file_of(desk.memory())?.as_fd()]))
    }

    /// The tables of a group: those that were just opened, or else those that are held.
    fn tables<'a>(&'a self, opened: &'a Self, group: &str) -> Option<&'a Arc<Tables>> {
        opened.open.groups.get(group).or_else(|| self.open.groups.get(group))
    }

    /// The routes of a group whose members have one table.
    pub(crate) fn routes_of(&self, group: &str) -> Option<Arc<GroupRoutes>> {
        self.open.groups.get(group).map(|tables| tables.routes.clone())
    }

    /// The process of a member has ended: it reads no routes.
    pub(crate) fn leave(&self, member: &str) {
        self.open.desks.get(member).into_iter().for_each(|desk| desk.leave());
    }

    /// Reclaims routes that were removed and no member can have any more; never waits. `is_gone` says which members have no process.
    pub(crate) fn reclaim(&self, is_gone: impl Fn(&str) -> bool) {
        for (group, tables) in &self.open.groups {
            let is_its = |name: &str| config::is_meant(name, group) && !is_gone(name);
            let desks = self.open.desks.iter().filter(|(name, _)| is_its(name)).map(|(_, desk)| desk);
            tables.reclaim(&desks.collect::<Vec<_>>());
        }
    }

    /// What `show` tells of the tables of a group: routes, octets of memory, and octets that its members would take more if each had
    /// tables of its own.
    pub(crate) fn shown(&self, group: &str) -> Vec<(String, api::Value)> {
        let Some(tables) = self.open.groups.get(group) else { return Vec::new() };
        let members = self.open.desks.keys().filter(|name| config::is_meant(name, group)).count() as u64;
        let octets = tables.routes.memory().resident() + tables.neighbours.resident();
        let value = |key: &str, value: u64| (key.to_owned(), api::Value::Number(value));
        vec![
            value("tables.routes", tables.routes.count() as u64),
            value("tables.octets", octets),
            value("tables.octets_saved", octets * members.saturating_sub(1)),
        ]
    }
}

/// What a plan changes of the routes of groups whose tables stay, in words.
pub(crate) fn changes(from: &Plan, to: &Plan) -> Vec<api::Change> {
    let told = |(group, _): (&Group, Vec<&Router>)| {
        let old = from
            .group(&group.name)
            .filter(|old| old.shares_tables() && Shape::of(old) == Shape::of(group))?;
        let (changed, removed) = differing(&old.pattern, &group.pattern)?;
        let what = format!("group {}: {changed} routes added or turned, {removed} removed", group.name);
        Some(api::Change { hitless: true, what, why: None })
    };
    to.sharing().filter_map(told).collect()
}

/// How many routes of a group are new or different, and how many gone; `None`: none.
fn differing(old: &Router, new: &Router) -> Option<(usize, usize)> {
    let (before, after) = (&old.forwarding, &new.forwarding);
    let known = (&old.routes, &before.routes6, &before.refused, &before.spread);
    if known == (&new.routes, &after.routes6, &after.refused, &after.spread) {
        return None;
    }
    let (old, new) = (by_destination(old), by_destination(new));
    let changed = new.iter().filter(|(to, way)| old.get(*to) != Some(*way)).count();
    let removed = old.keys().filter(|to| !new.contains_key(*to)).count();
    (changed + removed > 0).then_some((changed, removed))
}

/// The way of a route.
#[derive(PartialEq, Eq)]
enum Way<'r> {
    /// By a gateway, or none, and a NIC.
    One(Option<IpAddr>, usize),
    /// By several gateways.
    Several(&'r [forwarding::Way]),
    /// The type of one by which nothing is forwarded.
    Refused(RouteType),
}

fn by_destination(router: &Router) -> BTreeMap<String, Way<'_>> {
    let more = &router.forwarding;
    let single = router.single_routes().map(|(to, via, nic)| (to.to_string(), Way::One(via, nic)));
    let several = more.spread.iter().map(|route| (route.to.to_string(), Way::Several(&route.ways)));
    let refused = more.refused.iter().map(|route| (route.to.to_string(), Way::Refused(route.kind)));
    single.chain(several).chain(refused).collect()
}

fn file_of(memory: &SharedMemory) -> Result<&File> {
    memory.file().context("shared memory without a file")
}

impl fmt::Debug for GroupTables {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("GroupTables").field("open", &self.open).field("edits", &self.edits).finish()
    }
}

impl fmt::Debug for OpenTables {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.groups.keys()).entries(self.desks.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
