//! The route table that all firmware members of a group read, in memory that one process writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use config::Router;
use fib::{NextHop, Rib, six};
use vmm::{Room6, RouteTable, SharedMemory};

use crate::next_hops::gateway;
use crate::routes::{Hops, entries, entries_six, has_six, with_remedy};

/// Network and length of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Prefix {
    Four(u32, u8),
    Six(u128, u8),
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
/// A gateway, and the number of the NIC that it is behind.
type Gateway = (usize, Ipv4Addr);

/// The routes of a group, and their writer.
pub struct GroupRoutes {
    table: RouteTable,
    /// The table as its readers see it.
    view: RouteTable,
    /// What is in the table.
    known: Mutex<Known>,
    count: AtomicUsize,
    /// Gateways that do not answer.
    down: Mutex<BTreeSet<Gateway>>,
    /// The gateways of routes by several ones.
    ways: Mutex<BTreeSet<Gateway>>,
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
        let view = RouteTable::view(table.memory().clone())?;
        let (known, count) = (Mutex::default(), AtomicUsize::new(0));
        let group = Self { table, view, known, count, down: Mutex::default(), ways: Mutex::default() };
        let all = wanted.into_iter().map(|(prefix, hops)| (prefix, Some(hops))).collect();
        group.change(&all)?;
        Ok(group)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Makes changes; returns what takes them back.
    fn change(&self, delta: &Delta) -> Result<Delta> {
        let mut known = self.known();
        let written = self.write(&known, delta);
        // Next hops that are new, or were taken back, have no marks yet, and others were not marked meanwhile.
        self.mark();
        written?;
        let mut back = Delta::new();
        for (prefix, hops) in delta {
            let before = match hops {
                Some(hops) => known.insert(*prefix, hops.clone()),
                None => known.remove(prefix),
            };
            back.insert(*prefix, before);
        }
        self.count.store(known.len(), Relaxed);
        *self.lock_ways() = gateways_of(&known);
        Ok(back)
    }

    /// Writes changes into the tables of both families, or none of them.
    fn write(&self, known: &Known, delta: &Delta) -> Result<()> {
        let is_four = |(prefix, _): &(Prefix, Option<&Hops>)| matches!(prefix, Prefix::Four(..));
        let all = delta.iter().map(|(prefix, hops)| (*prefix, hops.as_ref()));
        let (four, six): (Changes<'_>, Changes<'_>) = all.partition(is_four);
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

    /// Has the flows of routes by several gateways avoid these, which do not answer, each by the number of its NIC, and no others. Returns
    /// those that were avoided before. This does not wait for a change of routes, which has flows avoid them when it is made.
    pub fn set_down(&self, gateways: BTreeSet<(usize, Ipv4Addr)>) -> BTreeSet<(usize, Ipv4Addr)> {
        let mut down = self.down();
        let before = std::mem::replace(&mut *down, gateways);
        self.table.try_set_down(|_, _, _, hop| is_among(&down, hop));
        before
    }

    fn lock_ways(&self) -> MutexGuard<'_, BTreeSet<Gateway>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the gateways of its routes by several ones, each by the number of its NIC, without waiting for a change.
    pub fn ways(&self) -> BTreeSet<(usize, Ipv4Addr)> {
        self.lock_ways().clone()
    }

    /// Has flows avoid the gateways that they avoid in another table.
    pub fn avoid_as(&self, other: &Self) {
        let down = other.down().clone();
        self.set_down(down);
    }

    /// Marks next hops, each by one word. The gateways stay locked meanwhile, so that none is told of that is not marked.
    fn mark(&self) {
        let down = self.down();
        self.table.set_down(|_, _, _, hop| is_among(&down, hop));
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
            // This cannot fail: the routes were there a moment ago, so there is room.
            let _ = self.group.change(&back);
        }
    }
}

impl std::fmt::Debug for RouteEdit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "a change of {:?} routes", self.counts)
    }
}

/// The IPv4 gateway that a next hop is.
fn four_of(hop: NextHop) -> Option<Gateway> {
    match gateway(hop)? {
        (nic, IpAddr::V4(ip)) => Some((nic, ip)),
        (_, IpAddr::V6(_)) => None,
    }
}

/// Whether a next hop is one of these gateways.
fn is_among(gateways: &BTreeSet<Gateway>, hop: NextHop) -> bool {
    four_of(hop).is_some_and(|gateway| gateways.contains(&gateway))
}

/// The gateways of those routes that have several.
fn gateways_of(known: &Known) -> BTreeSet<Gateway> {
    let several = known.values().filter_map(|hops| match hops {
        Hops::Several(ways) => Some(ways),
        Hops::One(_) => None,
    });
    several.flatten().filter_map(|way| four_of(way.next_hop)).collect()
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
        None => rib.remove(network, len),
    };
    done.map_err(with_remedy)
}

fn put_six(rib: &mut six::Rib<'_>, prefix: Prefix, hops: Option<&Hops>) -> Result<()> {
    let Prefix::Six(network, len) = prefix else { return Ok(()) };
    let done = match hops {
        Some(Hops::One(hop)) => rib.add(network, len, *hop),
        Some(Hops::Several(ways)) => rib.add_ways(network, len, ways),
        None => rib.remove(network, len),
    };
    Ok(done?)
}

#[cfg(test)]
mod tests;
