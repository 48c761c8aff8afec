//! Test support: stores by another party between two of our reads, planned by a test or a fuzz target. Code that reads
//! a word twice where it must read it once then sees two different values. Not part of release builds.

extern crate std;

use core::cell::{Cell, RefCell};
use std::vec::Vec;

use crate::Bytes;

/// A store of two octets, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Number of words that are read before the store.
    pub after: u32,
    /// Address of the store; a place shorter than the store stays unchanged.
    pub place: Bytes<'static>,
    /// Octets to store.
    pub octets: [u8; 2],
}

std::thread_local! {
    /// Stores that are still to come, in reverse order: the next one is the last element.
    static PLANNED: RefCell<Vec<Store>> = const { RefCell::new(Vec::new()) };
    /// Number of reads before the next store.
    static NEXT: Cell<u32> = const { Cell::new(u32::MAX) };
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// Plans stores for the reads that this thread makes from now on; replaces all earlier plans.
pub fn plan(mut stores: Vec<Store>) {
    stores.sort_by_key(|store| core::cmp::Reverse(store.after));
    READS.set(0);
    NEXT.set(stores.last().map_or(u32::MAX, |store| store.after));
    PLANNED.set(stores);
}

/// Returns how many words this thread has read since [`plan`].
pub fn reads() -> u32 {
    READS.get()
}

/// Hook that runs before each read of a word that another party may change.
#[inline]
pub(crate) fn before_read() {
    let read = READS.get();
    if NEXT.get() <= read {
        carry_out(read);
    }
    READS.set(read.wrapping_add(1));
}

/// Executes the stores that are due after `read` reads.
#[cold]
fn carry_out(read: u32) {
    let next = PLANNED.with_borrow_mut(|stores| {
        while let Some(store) = stores.pop_if(|store| store.after <= read) {
            store.place.write(0, store.octets);
        }
        stores.last().map_or(u32::MAX, |store| store.after)
    });
    NEXT.set(next);
}
