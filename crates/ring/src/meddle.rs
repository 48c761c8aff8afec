//! Stores of another party between two of our reads, as a test or a fuzz target plans them: whoever reads a word twice, where
//! once is what he should, finds two different words. Not part of what is shipped.

extern crate std;

use core::cell::{Cell, RefCell};
use std::vec::Vec;

use crate::Bytes;

/// A store of two octets, and when it comes.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// How many words are read before it.
    pub after: u32,
    /// Where: anything that is shorter stays as it is.
    pub place: Bytes<'static>,
    /// What is stored.
    pub octets: [u8; 2],
}

std::thread_local! {
    /// The stores that are still to come; the next one is the last of them.
    static PLANNED: RefCell<Vec<Store>> = const { RefCell::new(Vec::new()) };
    /// How many reads come before the next store.
    static NEXT: Cell<u32> = const { Cell::new(u32::MAX) };
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// Plans stores for the reads of this thread from now on, in place of all earlier ones.
pub fn plan(mut stores: Vec<Store>) {
    stores.sort_by_key(|store| core::cmp::Reverse(store.after));
    READS.set(0);
    NEXT.set(stores.last().map_or(u32::MAX, |store| store.after));
    PLANNED.set(stores);
}

/// How many words this thread has read since [`plan`].
pub fn reads() -> u32 {
    READS.get()
}

/// Called before each read of a word that another party may change.
#[inline]
pub(crate) fn before_read() {
    let read = READS.get();
    if NEXT.get() <= read {
        carry_out(read);
    }
    READS.set(read.wrapping_add(1));
}

/// Carries out what is due after so many reads.
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
