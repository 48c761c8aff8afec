//! Route tables in memory that guests map read-only: IPv4, and behind it IPv6 if the router has any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use fib::layout::{self, GROUP};
use fib::six::layout as layout6;
use fib::{Header, Memory, Rib, six};

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
    rib: Mutex<Rib<'static>>,
    six: Option<Mutex<six::Rib<'static>>>,
    memory: Arc<SharedMemory>,
}

impl RouteTable {
    /// Creates an empty IPv4 table with room for `groups` /24 networks that contain longer prefixes.
    pub fn new(groups: usize) -> Result<Self> {
        Self::with_six(groups, None)
    }

    /// Creates an empty IPv4 table, and an IPv6 table with this room.
    pub fn with_six(groups: usize, room: Option<Room6>) -> Result<Self> {
        let six_at = layout::len(groups).next_multiple_of(PAGE);
        let six_len = room.map_or(0, |room| layout6::len(room.nodes, room.ranges).next_multiple_of(PAGE));
        let memory = Arc::new(SharedMemory::sparse("ringroad-fib", six_at + six_len)?);
        memory.seal_against_writers()?;
        let base = memory.as_ptr();
        // SAFETY: `six_at` zeroed octets, page aligned, hold all parts at the offsets of `fib::layout`, which are
        // nothing but atomics. The references last as long as `rib`, which is dropped before `memory`, and never
        // leave this module.
        let parts = unsafe {
            Memory {
                header: &*base.cast::<Header>(),
                next_hops: &*base.add(layout::NEXT_HOPS_AT).cast(),
                tbl24: &*base.add(layout::TBL24_AT).cast(),
                tbl8: std::slice::from_raw_parts(
                    base.add(layout::TBL8_AT).cast(),
                    layout::groups(six_at) * GROUP,
                ),
            }
        };
        let six = room.map(|room| {
            // SAFETY: `six_len` zeroed octets follow, page aligned, which hold all parts of this room; otherwise as
            // above.
            let parts = unsafe { six_parts(base.add(six_at), room) };
            Mutex::new(six::Rib::new(parts))
        });
        let rib = Rib::new(parts);
        if six.is_some() {
            rib.announce_six(six_at as u64);
        }
        Ok(Self { rib: Mutex::new(rib), six, memory })
    }

    /// Returns the IPv4 routes, to be changed.
    pub fn routes(&self) -> MutexGuard<'_, Rib<'static>> {
        self.rib.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the IPv6 routes and publishes the change, in an epoch that both tables have in common: a reader has only one
    /// word for its epoch. `None` if there is no IPv6 table.
    pub fn change_six<T>(&self, change: impl FnOnce(&mut six::Rib<'static>) -> T) -> Option<T> {
        let mut six = self.six.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let mut routes = self.routes();
        six.follow(routes.epoch());
        let result = change(&mut six);
        six.follow(routes.publish());
        Some(result)
    }

    /// Reclaims what was removed from the IPv6 table and no reader can have any more; see [`six::Rib::reclaim_for`].
    pub fn reclaim_six(&self, readers: impl IntoIterator<Item = u32>) {
        let Some(six) = &self.six else { return };
        let mut six = six.lock().unwrap_or_else(PoisonError::into_inner);
        if six.retired() > 0 {
            six.follow(self.routes().epoch());
            six.reclaim_for(readers);
        }
    }

    /// Returns the memory that guests map.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }
}

/// Returns the parts of an IPv6 table.
///
/// # Safety
/// From `base` on, page aligned, [`layout6::len`] zeroed octets are mapped for as long as the result is used.
unsafe fn six_parts(base: *mut u8, room: Room6) -> six::Memory<'static> {
    // SAFETY: the offsets of `fib::six::layout` lie inside, and all parts are nothing but atomics.
    unsafe {
        let nodes = base.add(layout6::NODES_AT);
        six::Memory {
            header: &*base.cast::<six::Header>(),
            next_hops: &*base.add(layout6::NEXT_HOPS_AT).cast(),
            root: &*base.add(layout6::ROOT_AT).cast(),
            nodes: std::slice::from_raw_parts(nodes.cast(), room.nodes * layout6::NODE),
            ranges: std::slice::from_raw_parts(nodes.add(8 * layout6::NODE * room.nodes).cast(), room.ranges),
        }
    }
}

#[cfg(test)]
mod tests;
