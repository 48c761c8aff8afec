//! Route table in memory that guests map read-only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use fib::layout::{self, GROUP};
use fib::{Header, Memory, Rib};

use crate::memory::SharedMemory;

/// Alignment of the table's size: the guests' page size.
const PAGE: usize = 2 << 20;

/// A route table and its writer. Guests map [`RouteTable::memory`]; its pages are allocated when a route
/// touches them.
pub struct RouteTable {
    // Declared before the memory that it refers to, hence dropped before it.
    rib: Mutex<Rib<'static>>,
    memory: Arc<SharedMemory>,
}

impl RouteTable {
    /// Creates an empty table with room for `groups` /24 networks that contain longer prefixes.
    pub fn new(groups: usize) -> Result<Self> {
        let len = layout::len(groups).next_multiple_of(PAGE);
        let memory = Arc::new(SharedMemory::sparse("ringroad-fib", len)?);
        memory.seal_against_writers()?;
        let base = memory.as_ptr();
        // SAFETY: `len` zeroed octets, page aligned, hold all parts at the offsets of `fib::layout`, which are
        // nothing but atomics. The references last as long as `rib`, which is dropped before `memory`, and never
        // leave this module.
        let parts = unsafe {
            Memory {
                header: &*base.cast::<Header>(),
                next_hops: &*base.add(layout::NEXT_HOPS_AT).cast(),
                tbl24: &*base.add(layout::TBL24_AT).cast(),
                tbl8: std::slice::from_raw_parts(
                    base.add(layout::TBL8_AT).cast(),
                    layout::groups(len) * GROUP,
                ),
            }
        };
        Ok(Self { rib: Mutex::new(Rib::new(parts)), memory })
    }

    /// Returns the routes, to be changed.
    pub fn routes(&self) -> MutexGuard<'_, Rib<'static>> {
        self.rib.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the memory that guests map.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }
}
