//! The route table that all firmware members of a group read, in memory that one process writes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use config::Router;
use fib::{NextHop, Rib, six};
use vmm::{Room6, RouteTable, SharedMemory};

use crate::routes::{Hops, entries, entries_six, has_six};

/// Room for networks with prefixes longer than /24 beyond those that the file has, as the table cannot move while members read
/// it: unused room costs nothing.
const SPARE_GROUPS: usize = 32_768;

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

/// Routes, each with its only next hop.
type Known = BTreeMap<Prefix, NextHop>;
/// What routes are to become: their next hops, or nothing.
type Delta = BTreeMap<Prefix, Option<NextHop>>;

/// The routes of a group, and their writer.
pub struct GroupRoutes {
    table: RouteTable,
    /// The table as its readers see it.
    view: RouteTable,
    /// What is in the table.
    known: Mutex<Known>,
    count: AtomicUsize,
}

impl GroupRoutes {
    /// Creates a table with the routes of a member, which are those of all.
    ///
    /// # Errors
    /// One line: a route has several next hops, there is no room, or no memory.
    pub fn new(member: &Router) -> Result<Self> {
        let wanted = wanted(member)?;
        let is_long = |prefix: &&Prefix| matches!(prefix, Prefix::Four(_, len) if *len > 24);
        let long = wanted.keys().filter(is_long).count();
        let room = has_six(member).then(Room6::default);
        let table = RouteTable::with_six(2 * long + SPARE_GROUPS, room)?;
        let view = RouteTable::view(table.memory().clone())?;
        let group = Self { table, view, known: Mutex::default(), count: AtomicUsize::new(0) };
        let all = wanted.into_iter().map(|(prefix, hop)| (prefix, Some(hop))).collect();
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
        let delta = self.delta_to(&wanted(member)?);
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
        let changed = wanted.iter().filter(|(prefix, hop)| known.get(*prefix) != Some(*hop));
        gone.chain(changed.map(|(prefix, hop)| (*prefix, Some(*hop)))).collect()
    }

    /// Makes changes; returns what takes them back.
    fn change(&self, delta: &Delta) -> Result<Delta> {
        let mut known = self.known();
        self.write(&known, delta)?;
        let mut back = Delta::new();
        for (prefix, hop) in delta {
            let before = match hop {
                Some(hop) => known.insert(*prefix, *hop),
                None => known.remove(prefix),
            };
            back.insert(*prefix, before);
        }
        self.count.store(known.len(), Relaxed);
        Ok(back)
    }

    /// Writes changes into the tables of both families, or none of them.
    fn write(&self, known: &Known, delta: &Delta) -> Result<()> {
        let is_four = |prefix: &Prefix| matches!(prefix, Prefix::Four(..));
        let of = |four: bool| -> Delta {
            let own = delta.iter().filter(|(prefix, _)| is_four(prefix) == four);
            own.map(|(prefix, hop)| (*prefix, *hop)).collect()
        };
        let (four, six) = (of(true), of(false));
        self.write_four(known, &four)?;
        let written = self.write_six(known, &six);
        if written.is_err() {
            let back = four.keys().map(|prefix| (*prefix, known.get(prefix).copied())).collect();
            // This cannot fail: the routes were there a moment ago, so there is room.
            let _ = self.write_four(known, &back);
        }
        written
    }

    fn write_four(&self, known: &Known, delta: &Delta) -> Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        let made =
            self.table.change(0, |rib| change_all(&mut |prefix, hop| put(rib, prefix, hop), known, delta));
        made.context("a group without a route table")?
    }

    fn write_six(&self, known: &Known, delta: &Delta) -> Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        let made = self
            .table
            .change_six(0, |rib| change_all(&mut |prefix, hop| put_six(rib, prefix, hop), known, delta));
        made.context("a group without an IPv6 route table")?
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

fn counts(delta: &Delta) -> (usize, usize) {
    let changed = delta.values().flatten().count();
    (changed, delta.len() - changed)
}

/// Returns the routes of a member, each with its only next hop.
fn wanted(member: &Router) -> Result<Known> {
    let four = entries(member, 0).map(|(network, len, hops)| (Prefix::Four(network, len), hops));
    let six = entries_six(member, 0).map(|(network, len, hops)| (Prefix::Six(network, len), hops));
    let mut wanted = Known::new();
    for (prefix, hops) in four.chain(six) {
        let Hops::One(hop) = hops else {
            bail!("a group has no common table with routes by several gateways")
        };
        wanted.insert(prefix, hop);
    }
    Ok(wanted)
}

/// Makes all changes by `put`, or none: new routes become visible before old ones are removed. What was there before is `known`.
fn change_all(
    put: &mut dyn FnMut(Prefix, Option<NextHop>) -> Result<()>,
    known: &Known,
    delta: &Delta,
) -> Result<()> {
    let (added, removed): (Vec<_>, Vec<_>) = delta.iter().partition(|(_, hop)| hop.is_some());
    let order: Vec<(&Prefix, &Option<NextHop>)> = added.into_iter().chain(removed).collect();
    for (done, (prefix, hop)) in order.iter().enumerate() {
        if let Err(error) = put(**prefix, **hop) {
            for (prefix, _) in order[..done].iter().rev() {
                // This cannot fail: the route was there a moment ago, so there is room.
                let _ = put(**prefix, known.get(*prefix).copied());
            }
            return Err(error.context(format!("route {prefix}")));
        }
    }
    Ok(())
}

fn put(rib: &mut Rib<'_>, prefix: Prefix, hop: Option<NextHop>) -> Result<()> {
    let Prefix::Four(network, len) = prefix else { return Ok(()) };
    match hop {
        Some(hop) => rib.add(network, len, hop)?,
        None => rib.remove(network, len)?,
    }
    Ok(())
}

fn put_six(rib: &mut six::Rib<'_>, prefix: Prefix, hop: Option<NextHop>) -> Result<()> {
    let Prefix::Six(network, len) = prefix else { return Ok(()) };
    match hop {
        Some(hop) => rib.add(network, len, hop)?,
        None => rib.remove(network, len)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
