//! The route table that all firmware members of a group read, in memory that one process writes.
//!
//! ```text
//! file: plans  --> known   --.
//!                             > table: of two routes to one network the learned one counts
//! control plane --> learned --'
//! ```
//!
//! The control plane has the routes of the plan in its namespace, and teaches them as well. When it withdraws one, e.g. because a link has
//! no carrier, that is not taken, whatever the plan says.
//!
//! Locks are taken in this order: `known`, `learned`, `down`, `silent`, those of the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use config::Router;
use config::learned::Lesson;
use config::way::{Way, WayQuestion};
use fib::{NextHop, Rib, six};
use vmm::{Room6, RouteTable, SharedMemory};

use crate::control::{LearnedRoutes, Network};
use crate::next_hops::gateway;
use crate::routes::{Hops, entries, entries_six, has_six, with_remedy};
use crate::tracing::way_in;

/// Network and length of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Prefix {
    Four(u32, u8),
    Six(u128, u8),
}

impl Prefix {
    const fn of((to, len): &Network) -> Self {
        match to {
            IpAddr::V4(to) => Self::Four(to.to_bits(), *len),
            IpAddr::V6(to) => Self::Six(to.to_bits(), *len),
        }
    }

    const fn network(self) -> Network {
        match self {
            Self::Four(network, len) => (IpAddr::V4(Ipv4Addr::from_bits(network)), len),
            Self::Six(network, len) => (IpAddr::V6(Ipv6Addr::from_bits(network)), len),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Four(network, len) => write!(out, "{}/{len}", Ipv4Addr::from_bits(network)),
            Self::Six(network, len) => write!(out, "{}/{len}", Ipv6Addr::from_bits(network)),
        }
    }
}

/// Routes with their next hops.
type Known = BTreeMap<Prefix, Hops>;
/// What routes are to become: their next hops, or nothing.
type Delta = BTreeMap<Prefix, Option<Hops>>;
/// What routes of one family are to become.
type Changes<'h> = BTreeMap<Prefix, Option<&'h Hops>>;
/// A gateway, and the number of the NIC or interface that it is behind.
type Gateway = (usize, IpAddr);

/// The routes of a group, and their writer.
pub struct GroupRoutes {
    table: Arc<RouteTable>,
    /// The table as its readers see it.
    view: RouteTable,
    /// Routes of the plan, which are in the table where none was learned.
    known: Mutex<Known>,
    /// Routes that a control plane has found.
    learned: Mutex<LearnedRoutes>,
    /// Number of NICs and interfaces.
    links: usize,
    count: AtomicUsize,
    /// Gateways that do not answer.
    down: Mutex<BTreeSet<Gateway>>,
    /// Gateways of which the control plane says that they do not answer.
    silent: Mutex<BTreeSet<Gateway>>,
    /// The gateways of routes by several ones.
    ways: Mutex<Ways>,
}

/// Gateways of routes by several ones.
#[derive(Default)]
struct Ways {
    of_plan: BTreeSet<Gateway>,
    learned: BTreeSet<Gateway>,
}

impl GroupRoutes {
    /// Creates a table with the routes of a member, which are those of all.
    ///
    /// # Errors
    /// One line: there is no room, or no memory.
    pub fn new(member: &Router) -> Result<Self> {
        let wanted = wanted(member);
        let is_long = |prefix: &&Prefix| matches!(prefix, Prefix::Four(_, len) if *len > 24);
        let long = wanted.keys().filter(is_long).count();
        let room = has_six(member).then(Room6::default);
        // The table cannot move while members read it; unused room costs nothing.
        let table = RouteTable::with_six(2 * long + member.long_routes() as usize, room)?;
        let links = member.nics.len() + member.forwarding.interfaces.len();
        let table = Arc::new(table);
        let view = RouteTable::view(table.memory().clone())?;
        let mut learned = LearnedRoutes::default();
        learned.adopt(&table, links, &|_: &Network| None);
        let group = Self {
            table,
            view,
            known: Mutex::default(),
            learned: Mutex::new(learned),
            links,
            count: AtomicUsize::new(0),
            down: Mutex::default(),
            silent: Mutex::default(),
            ways: Mutex::default(),
        };
        let all = wanted.into_iter().map(|(prefix, hops)| (prefix, Some(hops))).collect();
        group.change(&all)?;
        Ok(group)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learned(&self) -> MutexGuard<'_, LearnedRoutes> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a control plane says. Returns how many networks are not in the table as they should be, because it is full.
    pub fn learn(&self, lesson: &Lesson) -> usize {
        let known = self.known();
        let mut learned = self.learned();
        if let Some(down) = &lesson.down {
            *self.silent() = down.iter().map(|gateway| (gateway.link.into(), gateway.ip)).collect();
        }
        let late = learned.take(lesson, &below(&known));
        self.mark();
        self.note(&known, &learned);
        late
    }

    /// Finds the way of a packet that a member has sent on, without waiting for a change: while there is one, the route is not named.
    pub fn find_way(&self, asked: &WayQuestion) -> Option<Way> {
        way_in(&self.view, asked, self.table.try_route_of(asked.table.into(), asked.destination))
    }

    /// Takes over what another table of the group has learned.
    pub fn learn_as(&self, other: &Self) {
        // It belongs to nobody else yet, so nobody takes both locks the other way round.
        let known = self.known();
        let mut learned = self.learned();
        learned.learn_as(&other.learned(), &below(&known));
        self.silent().clone_from(&other.silent());
        self.mark();
        self.note(&known, &learned);
    }

    /// Tries again what did not fit, unless the table is being changed: this never waits.
    pub fn catch_up(&self) {
        let Ok(known) = self.known.try_lock() else { return };
        let Ok(mut learned) = self.learned.try_lock() else { return };
        if learned.catch_up(&below(&known)) {
            self.mark();
        }
    }

    /// Notes for those who ask how many routes there are, and which gateways of routes by several ones.
    fn note(&self, known: &Known, learned: &LearnedRoutes) {
        let networks = learned.networks();
        let both = if known.len() < networks.len() {
            known.keys().filter(|prefix| learned.has(&prefix.network())).count()
        } else {
            networks.filter(|network| known.contains_key(&Prefix::of(network))).count()
        };
        let all = known.len() + learned.networks().len() - both - learned.hidden();
        self.count.store(all, Relaxed);
        self.lock_ways().learned = learned.gateways(self.links);
    }

    /// Returns the memory that members map; nobody else can map it to write.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        self.table.memory()
    }

    /// Returns the epoch of the table, without waiting for a change.
    pub fn epoch(&self) -> u32 {
        self.view.epoch()
    }

    /// Returns the number of routes, without waiting for a change.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Changes the routes to those of a member in another plan, in one epoch for each family; readers see the old or the new next hop
    /// of each destination. `None`: nothing differs.
    ///
    /// # Errors
    /// One line: the table has no room for a route; then all are as they were.
    pub fn change_to(self: &Arc<Self>, member: &Router) -> Result<Option<RouteEdit>> {
        let delta = self.delta_to(&wanted(member));
        if delta.is_empty() {
            return Ok(None);
        }
        let back = self.change(&delta)?;
        Ok(Some(RouteEdit { group: self.clone(), back: Some(back), counts: counts(&delta) }))
    }

    /// Returns what has to change so that these are the routes.
    fn delta_to(&self, wanted: &Known) -> Delta {
        let known = self.known();
        let gone = known.keys().filter(|prefix| !wanted.contains_key(*prefix)).map(|prefix| (*prefix, None));
        let changed = wanted.iter().filter(|(prefix, hops)| known.get(*prefix) != Some(*hops));
        gone.chain(changed.map(|(prefix, hops)| (*prefix, Some(hops.clone())))).collect()
    }

    /// Makes changes; returns what takes them back. Where a route was learned the table stays as it is.
    fn change(&self, delta: &Delta) -> Result<Delta> {
        let mut known = self.known();
        let mut learned = self.learned();
        let is_seen = |(prefix, _): &(&Prefix, &Option<Hops>)| !learned.has(&prefix.network());
        let seen = delta.iter().filter(is_seen).map(|(prefix, hops)| (*prefix, hops.as_ref()));
        let written = self.write(&known, seen);
        if written.is_err() {
            // What was taken back may be of routes that the control plane has withdrawn.
            learned.rewrite(delta.keys().map(|prefix| prefix.network()).collect(), &below(&known));
        }
        // Next hops that are new, or were taken back, have no marks yet, and others were not marked meanwhile.
        self.mark();
        written?;
        let back = exchange((&mut *known, &mut *learned), delta);
        self.lock_ways().of_plan = gateways_of(&known);
        self.note(&known, &learned);
        Ok(back)
    }

    /// Takes changes back. What was learned meanwhile may have taken the room: what has none is tried again as learned routes are.
    fn take_back(&self, back: &Delta) {
        let mut known = self.known();
        let mut learned = self.learned();
        exchange((&mut *known, &mut *learned), back);
        let (there, gone): (Vec<_>, Vec<_>) = back.iter().partition(|(_, hops)| hops.is_some());
        for part in [there, gone] {
            let networks = part.into_iter().map(|(prefix, _)| prefix.network()).collect();
            learned.rewrite(networks, &below(&known));
        }
        self.mark();
        self.lock_ways().of_plan = gateways_of(&known);
        self.note(&known, &learned);
    }

    /// Writes changes into the tables of both families, or none of them.
    fn write<'h>(
        &self,
        known: &Known,
        changes: impl Iterator<Item = (Prefix, Option<&'h Hops>)>,
    ) -> Result<()> {
        let is_four = |(prefix, _): &(Prefix, Option<&Hops>)| matches!(prefix, Prefix::Four(..));
        let (four, six): (Changes<'_>, Changes<'_>) = changes.partition(is_four);
        self.write_four(known, &four)?;
        let written = self.write_six(known, &six);
        if written.is_err() {
            let back: Changes<'_> = four.keys().map(|prefix| (*prefix, known.get(prefix))).collect();
            // This cannot fail: the routes were there a moment ago, so there is room.
            let _ = self.write_four(known, &back);
        }
        written
    }

    fn write_four(&self, known: &Known, changes: &Changes<'_>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let made = self
            .table
            .change(0, |rib| change_all(&mut |prefix, hops| put(rib, prefix, hops), known, changes));
        made.context("a group without a route table")?
    }

    fn write_six(&self, known: &Known, changes: &Changes<'_>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let made = self
            .table
            .change_six(0, |rib| change_all(&mut |prefix, hops| put_six(rib, prefix, hops), known, changes));
        made.context("a group without an IPv6 route table")?
    }

    fn down(&self) -> MutexGuard<'_, BTreeSet<Gateway>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, BTreeSet<Gateway>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the flows of routes by several gateways avoid these, which do not answer, each by the number of its NIC or interface, and no
    /// others. Returns those that were avoided before. This does not wait for a change of routes, which has flows avoid them when it is
    /// made.
    pub fn set_down(&self, gateways: BTreeSet<(usize, IpAddr)>) -> BTreeSet<(usize, IpAddr)> {
        let mut down = self.down();
        let before = std::mem::replace(&mut *down, gateways);
        let silent = self.silent();
        self.table.try_set_down(|_, _, _, hop| is_among([&*down, &*silent], hop));
        before
    }

    fn lock_ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the gateways of its routes by several ones, each by the number of its NIC or interface, without waiting for a change.
    pub fn ways(&self) -> BTreeSet<(usize, IpAddr)> {
        let ways = self.lock_ways();
        &ways.of_plan | &ways.learned
    }

    /// Returns those of them that learned routes have.
    pub fn learned_ways(&self) -> BTreeSet<(usize, IpAddr)> {
        self.lock_ways().learned.clone()
    }

    /// Has flows avoid the gateways that they avoid in another table.
    pub fn avoid_as(&self, other: &Self) {
        let down = other.down().clone();
        self.set_down(down);
    }

    /// Marks next hops, each by one word. The gateways stay locked meanwhile, so that none is told of that is not marked.
    fn mark(&self) {
        let down = self.down();
        let silent = self.silent();
        self.table.set_down(|_, _, _, hop| is_among([&*down, &*silent], hop));
    }

    /// Returns how many numbers and entries are out of use but may still be read.
    pub fn retired(&self) -> usize {
        self.table.routes().retired()
    }

    /// Reclaims what was removed and none of these readers can have any more, unless the table is being changed: this never
    /// waits.
    pub fn reclaim(&self, readers: impl IntoIterator<Item = u32> + Clone) {
        self.table.try_reclaim_for(readers);
    }
}

/// A change of a group's routes, which is taken back when this is dropped, unless it is kept.
pub struct RouteEdit {
    group: Arc<GroupRoutes>,
    back: Option<Delta>,
    counts: (usize, usize),
}

impl RouteEdit {
    /// Keeps the change.
    pub fn keep(mut self) {
        self.back = None;
    }

    /// Returns how many routes were added or given another next hop, and how many removed.
    pub const fn counts(&self) -> (usize, usize) {
        self.counts
    }
}

impl Drop for RouteEdit {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            self.group.take_back(&back);
        }
    }
}

impl std::fmt::Debug for RouteEdit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "a change of {:?} routes", self.counts)
    }
}

/// Whether a next hop is one of these gateways.
fn is_among(gateways: [&BTreeSet<Gateway>; 2], hop: NextHop) -> bool {
    gateway(hop).is_some_and(|gateway| gateways.iter().any(|some| some.contains(&gateway)))
}

/// The next hops that the plan has for a network.
fn below(known: &Known) -> impl Fn(&Network) -> Option<Hops> {
    move |network: &Network| known.get(&Prefix::of(network)).cloned()
}

/// Makes changes of what the plan has; returns what takes them back.
fn exchange((known, learned): (&mut Known, &mut LearnedRoutes), delta: &Delta) -> Delta {
    let mut back = Delta::new();
    for (prefix, hops) in delta {
        learned.allow(&prefix.network());
        let before = match hops {
            Some(hops) => known.insert(*prefix, hops.clone()),
            None => known.remove(prefix),
        };
        back.insert(*prefix, before);
    }
    back
}

/// The gateways of those routes that have several.
fn gateways_of(known: &Known) -> BTreeSet<Gateway> {
    let several = known.values().filter_map(|hops| match hops {
        Hops::Several(ways) => Some(ways),
        Hops::One(_) => None,
    });
    several.flatten().filter_map(|way| gateway(way.next_hop)).collect()
}

fn counts(delta: &Delta) -> (usize, usize) {
    let changed = delta.values().flatten().count();
    (changed, delta.len() - changed)
}

/// Returns the routes of a member with their next hops.
fn wanted(member: &Router) -> Known {
    let four = entries(member, 0).map(|(network, len, hops)| (Prefix::Four(network, len), hops));
    let six = entries_six(member, 0).map(|(network, len, hops)| (Prefix::Six(network, len), hops));
    four.chain(six).collect()
}

/// Makes all changes by `put`, or none: new routes become visible before old ones are removed. What was there before is `known`.
fn change_all(
    put: &mut dyn FnMut(Prefix, Option<&Hops>) -> Result<()>,
    known: &Known,
    changes: &Changes<'_>,
) -> Result<()> {
    let (added, removed): (Vec<_>, Vec<_>) = changes.iter().partition(|(_, hops)| hops.is_some());
    let order: Vec<(&Prefix, &Option<&Hops>)> = added.into_iter().chain(removed).collect();
    for (done, (prefix, hops)) in order.iter().enumerate() {
        if let Err(error) = put(**prefix, **hops) {
            for (prefix, _) in order[..done].iter().rev() {
                // This cannot fail: the route was there a moment ago, so there is room.
                let _ = put(**prefix, known.get(*prefix));
            }
            return Err(error.context(format!("route {prefix}")));
        }
    }
    Ok(())
}

fn put(rib: &mut Rib<'_>, prefix: Prefix, hops: Option<&Hops>) -> Result<()> {
    let Prefix::Four(network, len) = prefix else { return Ok(()) };
    let done = match hops {
        Some(Hops::One(hop)) => rib.add(network, len, *hop),
        Some(Hops::Several(ways)) => rib.add_ways(network, len, ways),
        None => removed(rib.remove(network, len)),
    };
    done.map_err(with_remedy)
}

fn put_six(rib: &mut six::Rib<'_>, prefix: Prefix, hops: Option<&Hops>) -> Result<()> {
    let Prefix::Six(network, len) = prefix else { return Ok(()) };
    let done = match hops {
        Some(Hops::One(hop)) => rib.add(network, len, *hop),
        Some(Hops::Several(ways)) => rib.add_ways(network, len, ways),
        None => removed(rib.remove(network, len)),
    };
    Ok(done?)
}

/// A route that came back when a learned one went may not have fitted, and is no fault then.
const fn removed(outcome: Result<(), fib::Error>) -> Result<(), fib::Error> {
    match outcome {
        Err(fib::Error::Absent) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests;
