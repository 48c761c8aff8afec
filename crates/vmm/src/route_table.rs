//! Route tables in memory that guests map read-only: IPv4, and behind it IPv6 if the router has any; the same for each further
//! VRF, one behind the other and of equal size.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use fib::layout::{self, GROUP};
use fib::six::layout as layout6;
use fib::{CHOICES, Header, Memory, NextHop, Rib, Routes, Routes6, Table, six};

use crate::memory::SharedMemory;

/// Alignment of the table's size: the guests' page size.
const PAGE: usize = 2 << 20;

/// Room for IPv6 routes. Its pages are allocated when a route touches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room6 {
    /// Number of nodes, of 2 KiB each.
    pub nodes: usize,
    /// Words of lists of intervals.
    pub ranges: usize,
}

impl Default for Room6 {
    /// Room for more than 250,000 routes with the Internet's prefix lengths: 64 MiB of nodes, 32 MiB of lists.
    fn default() -> Self {
        Self { nodes: 32_768, ranges: 4 << 20 }
    }
}

/// Route tables and their writers. Guests map [`RouteTable::memory`]; its pages are allocated when a route
/// touches them.
pub struct RouteTable {
    // Declared before the memory that they refer to, hence dropped before it.
    /// At least one: that of NICs without a VRF; none if others write the memory.
    tables: Vec<Tables>,
    /// The tables that others write.
    view: Option<View>,
    /// Held while tables are changed; no other lock is taken while one of theirs is held.
    writing: Mutex<()>,
    memory: Arc<SharedMemory>,
}

/// Tables that another process writes, for reading.
#[derive(Clone, Copy)]
struct View {
    four: Table<'static>,
    six: Option<six::Table<'static>>,
}

/// The tables of one VRF.
struct Tables {
    four: Mutex<Rib<'static>>,
    six: Option<Mutex<six::Rib<'static>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RouteTable {
    /// Creates an empty IPv4 table with room for `groups` /24 networks that contain longer prefixes.
    pub fn new(groups: usize) -> Result<Self> {
        Self::with_six(groups, None)
    }

    /// Creates an empty IPv4 table, and an IPv6 table with this room.
    pub fn with_six(groups: usize, room: Option<Room6>) -> Result<Self> {
        Self::with_tables(1, groups, room)
    }

    /// Creates as many empty tables as there are VRFs, one of NICs without any included.
    pub fn with_tables(count: usize, groups: usize, room: Option<Room6>) -> Result<Self> {
        let six_at = layout::len(groups).next_multiple_of(PAGE);
        let six_len = room.map_or(0, |room| layout6::len(room.nodes, room.ranges).next_multiple_of(PAGE));
        let (count, each) = (count.max(1), six_at + six_len);
        let memory = Arc::new(SharedMemory::sparse("ringroad-fib", count * each)?);
        memory.seal_against_writers()?;
        let base = memory.as_ptr();
        // SAFETY: `count` times `each` zeroed octets, page aligned, are mapped there. The references last as long as
        // `tables`, which is dropped before `memory`, and never leave this module.
        let tables = (0..count).map(|number| unsafe { tables(base.add(number * each), six_at, room) });
        Ok(Self { tables: tables.collect(), view: None, writing: Mutex::default(), memory })
    }

    /// Looks at the tables of a single VRF that another process writes: they can be read here, and not be changed.
    ///
    /// # Errors
    /// The memory is too short for them, or there are none in it.
    pub fn view(memory: Arc<SharedMemory>) -> Result<Self> {
        ensure!(memory.len() >= layout::len(0), "{} octets are too few for a route table", memory.len());
        // SAFETY: the first page is mapped there, and consists of atomics.
        let six_at = unsafe { &*memory.as_ptr().cast::<Header>() }.six_at.load(Acquire) as usize;
        let end = if six_at == 0 { memory.len() } else { six_at };
        let is_inside = (layout::len(0)..=memory.len()).contains(&end);
        ensure!(is_inside, "an IPv6 table at octet {six_at} of {}", memory.len());
        // SAFETY: as many octets as `end` are mapped there, page aligned. The references last as long as `view`, which is
        // dropped before `memory`, and never leave this module.
        let parts = unsafe { four_parts(memory.as_ptr(), end) };
        ensure!(parts.header.is_valid(), "there is no route table in the memory that was handed over");
        let six = (six_at != 0).then(|| view_six(&memory, six_at)).transpose()?;
        let view = Some(View { four: Table::new(parts), six });
        Ok(Self { tables: Vec::new(), view, writing: Mutex::default(), memory })
    }

    /// Returns the epoch of the table.
    pub fn epoch(&self) -> u32 {
        self.view.map_or_else(|| self.routes().epoch(), |view| view.four.epoch())
    }

    /// Returns the IPv4 routes of NICs without a VRF, to be changed.
    ///
    /// # Panics
    /// Another process writes them ([`RouteTable::view`]).
    pub fn routes(&self) -> MutexGuard<'_, Rib<'static>> {
        lock(&self.tables[0].four)
    }

    /// Changes the IPv4 routes of a table, and publishes the change. `None` if there is no such table.
    pub fn change<T>(&self, table: usize, change: impl FnOnce(&mut Rib<'static>) -> T) -> Option<T> {
        let _writing = lock(&self.writing);
        let four = &self.tables.get(table)?.four;
        let epoch = self.routes().epoch();
        self.agree(epoch);
        let result = change(&mut lock(four));
        self.publish_all();
        Some(result)
    }

    /// Changes the IPv6 routes of a table, and publishes the change. `None` if there is no such table.
    pub fn change_six<T>(&self, table: usize, change: impl FnOnce(&mut six::Rib<'static>) -> T) -> Option<T> {
        let _writing = lock(&self.writing);
        let six = self.tables.get(table)?.six.as_ref()?;
        let epoch = self.routes().epoch();
        self.agree(epoch);
        let result = change(&mut lock(six));
        self.publish_all();
        Some(result)
    }

    /// Publishes changes, in an epoch that all tables have in common: a reader has only one word for its epoch. The first
    /// table comes last, because a reader tells the epoch of that one.
    fn publish_all(&self) {
        let next = self.routes().next_epoch();
        self.agree(next);
        self.routes().publish();
    }

    /// Has all tables but the first have this epoch.
    fn agree(&self, epoch: u32) {
        self.tables.iter().skip(1).for_each(|tables| lock(&tables.four).follow(epoch));
        self.tables.iter().filter_map(|tables| tables.six.as_ref()).for_each(|six| lock(six).follow(epoch));
    }

    /// Sets for each next hop of a group whether it is down, in all tables: `is_down` is told the table, whether it is of the
    /// IPv6 one, its number and itself. Returns the number of changes.
    pub fn set_down(&self, is_down: impl Fn(usize, bool, u32, NextHop) -> bool) -> usize {
        let _writing = lock(&self.writing);
        self.set_all_down(is_down)
    }

    /// Sets as [`RouteTable::set_down`] does, unless the table is being changed: who calls this does not wait. Returns whether it was
    /// done.
    pub fn try_set_down(&self, is_down: impl Fn(usize, bool, u32, NextHop) -> bool) -> bool {
        let Ok(_writing) = self.writing.try_lock() else { return false };
        self.set_all_down(is_down);
        true
    }

    /// The caller holds the lock of writers.
    fn set_all_down(&self, is_down: impl Fn(usize, bool, u32, NextHop) -> bool) -> usize {
        let of = |(table, tables): (usize, &Tables)| {
            let four = lock(&tables.four).set_down(|number, hop| is_down(table, false, number, hop));
            let six = tables
                .six
                .as_ref()
                .map_or(0, |six| lock(six).set_down(|number, hop| is_down(table, true, number, hop)));
            four + six
        };
        self.tables.iter().enumerate().map(of).sum()
    }

    /// Returns the next hops by which packets of a flow, by the hash that its router has for it, leave at present: the one that
    /// they take, then those that they take if it does not answer.
    pub fn choices(&self, table: usize, destination: IpAddr, flow: u32) -> Vec<NextHop> {
        if let (Some(view), 0) = (self.view, table) {
            return match destination {
                IpAddr::V4(ip) => choices_of(&view.four, ip, flow),
                IpAddr::V6(ip) => view.six.map_or_else(Vec::new, |six| choices_of_six(&six, ip, flow)),
            };
        }
        let Some(tables) = self.tables.get(table) else { return Vec::new() };
        match destination {
            IpAddr::V4(ip) => choices_of(&lock(&tables.four).reader(), ip, flow),
            IpAddr::V6(ip) => {
                let six = tables.six.as_ref();
                six.map_or_else(Vec::new, |six| choices_of_six(&lock(six).reader(), ip, flow))
            }
        }
    }

    /// Returns the network and the length of the longest route of a table that has an address. `None`: there is none, or another
    /// process has the list of routes ([`RouteTable::view`]).
    pub fn route_of(&self, table: usize, ip: IpAddr) -> Option<(IpAddr, u8)> {
        let tables = self.tables.get(table)?;
        match ip {
            IpAddr::V4(ip) => {
                let route = lock(&tables.four).route_of(ip.to_bits());
                route.map(|(network, len)| (Ipv4Addr::from_bits(network).into(), len))
            }
            IpAddr::V6(ip) => {
                let route = lock(tables.six.as_ref()?).route_of(ip.to_bits());
                route.map(|(network, len)| (Ipv6Addr::from_bits(network).into(), len))
            }
        }
    }

    /// Finds a route as [`RouteTable::route_of`] does, unless the table is being changed: who calls this does not wait.
    pub fn try_route_of(&self, table: usize, ip: IpAddr) -> Option<(IpAddr, u8)> {
        let _writing = self.writing.try_lock().ok()?;
        self.route_of(table, ip)
    }

    /// Returns true if others write it, and have the list of routes ([`RouteTable::view`]).
    pub const fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// Reclaims what was removed and no reader can have any more; see [`Rib::reclaim_for`].
    pub fn reclaim_for(&self, readers: impl IntoIterator<Item = u32> + Clone) {
        let _writing = lock(&self.writing);
        self.reclaim(readers);
    }

    /// Reclaims as [`RouteTable::reclaim_for`] does, unless the table is being changed: who calls this does not wait.
    pub fn try_reclaim_for(&self, readers: impl IntoIterator<Item = u32> + Clone) {
        if let Ok(_writing) = self.writing.try_lock() {
            self.reclaim(readers);
        }
    }

    /// The caller holds the lock of writers.
    fn reclaim(&self, readers: impl IntoIterator<Item = u32> + Clone) {
        if self.tables.is_empty() {
            return;
        }
        let epoch = self.routes().epoch();
        self.agree(epoch);
        for tables in &self.tables {
            let mut four = lock(&tables.four);
            if four.retired() > 0 {
                four.reclaim_for(readers.clone());
            }
            drop(four);
            let Some(mut six) = tables.six.as_ref().map(lock) else { continue };
            if six.retired() > 0 {
                six.reclaim_for(readers.clone());
            }
        }
    }

    /// Returns the memory that guests map.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }
}

fn choices_of(table: &Table<'_>, destination: Ipv4Addr, flow: u32) -> Vec<NextHop> {
    let numbers = table.members(table.lookup(destination.to_bits()), flow);
    leading_on(numbers, |number| table.next_hop(number))
}

fn choices_of_six(table: &six::Table<'_>, destination: Ipv6Addr, flow: u32) -> Vec<NextHop> {
    let numbers = table.members(table.lookup(destination.to_bits()), flow);
    leading_on(numbers, |number| table.next_hop(number))
}

/// Returns those of some next hops by which packets are sent on.
fn leading_on(numbers: [u32; CHOICES], next_hop: impl Fn(u32) -> NextHop) -> Vec<NextHop> {
    numbers.into_iter().map(next_hop).filter(|hop| hop.leads_on()).collect()
}

/// Looks at the IPv6 table at this octet of a memory.
fn view_six(memory: &SharedMemory, at: usize) -> Result<six::Table<'static>> {
    let is_inside = |end: Option<usize>| end.is_some_and(|end| end <= memory.len());
    let has_header = at.is_multiple_of(align_of::<six::Header>());
    ensure!(has_header && is_inside(at.checked_add(layout6::NODES_AT)), "an IPv6 table at octet {at}");
    // SAFETY: its header lies inside the memory, aligned, and consists of atomics.
    let header = unsafe { &*memory.as_ptr().add(at).cast::<six::Header>() };
    let room =
        Room6 { nodes: header.nodes.load(Acquire) as usize, ranges: header.ranges.load(Acquire) as usize };
    let is_whole = is_inside(at.checked_add(layout6::len(room.nodes, room.ranges)));
    ensure!(header.is_valid() && is_whole, "no IPv6 table at octet {at}");
    // SAFETY: all parts lie inside the memory, and consist of atomics. The references last as long as the view of whoever
    // calls this, which is dropped before the memory.
    Ok(six::Table::new(unsafe { six_parts(memory.as_ptr().add(at), room) }))
}

/// Creates the tables of a VRF.
///
/// # Safety
/// From `base` on, page aligned, `six_at` zeroed octets, at least [`layout::len`] of no groups, and behind them those of an
/// IPv6 table with this room are mapped for as long as the result is used.
unsafe fn tables(base: *mut u8, six_at: usize, room: Option<Room6>) -> Tables {
    // SAFETY: they are mapped there (the caller's promise).
    let parts = unsafe { four_parts(base, six_at) };
    let six = room.map(|room| {
        // SAFETY: they follow, page aligned (the caller's promise).
        let parts = unsafe { six_parts(base.add(six_at), room) };
        Mutex::new(six::Rib::new(parts))
    });
    let four = Rib::new(parts);
    if six.is_some() {
        four.announce_six(six_at as u64);
    }
    Tables { four: Mutex::new(four), six }
}

/// Returns the parts of an IPv4 table.
///
/// # Safety
/// From `base` on, page aligned, `len` octets, at least [`layout::len`] of no groups, are mapped for as long as the result is
/// used, and hold zeros or a table.
unsafe fn four_parts(base: *mut u8, len: usize) -> Memory<'static> {
    // SAFETY: the offsets of `fib::layout` lie inside (the caller's promise), and all parts are nothing but atomics.
    unsafe {
        Memory {
            header: &*base.cast::<Header>(),
            next_hops: &*base.add(layout::NEXT_HOPS_AT).cast(),
            buckets: &*base.add(layout::BUCKETS_AT).cast(),
            tbl24: &*base.add(layout::TBL24_AT).cast(),
            tbl8: std::slice::from_raw_parts(base.add(layout::TBL8_AT).cast(), layout::groups(len) * GROUP),
        }
    }
}

/// Returns the parts of an IPv6 table.
///
/// # Safety
/// From `base` on, page aligned, [`layout6::len`] octets are mapped for as long as the result is used, and hold zeros or a table.
unsafe fn six_parts(base: *mut u8, room: Room6) -> six::Memory<'static> {
    // SAFETY: the offsets of `fib::six::layout` lie inside, and all parts are nothing but atomics.
    unsafe {
        let nodes = base.add(layout6::NODES_AT);
        six::Memory {
            header: &*base.cast::<six::Header>(),
            next_hops: &*base.add(layout6::NEXT_HOPS_AT).cast(),
            buckets: &*base.add(layout6::BUCKETS_AT).cast(),
            root: &*base.add(layout6::ROOT_AT).cast(),
            nodes: std::slice::from_raw_parts(nodes.cast(), room.nodes * layout6::NODE),
            ranges: std::slice::from_raw_parts(nodes.add(8 * layout6::NODE * room.nodes).cast(), room.ranges),
        }
    }
}

#[cfg(test)]
mod tests;
