//! An order for what is behind a lock, from a thread that must not wait for the lock.
//!
//! ```text
//!   poster:  write the order; fence; try the lock ---- free: carry it out ----> let go, look again
//!                                          \---------- held: go on
//!   holder:  ... let go of the lock; fence; look for an order --- there: as the poster
//! ```
//!
//! Either the poster finds the lock free, or its holder finds the order when it lets go: no order is left behind, and of several the
//! last one counts (`tests/hand_over_loom.rs`).

use crate::combine::Word;

/// No order.
const NONE: u32 = 0;

/// The place of an order: any number but 0.
#[derive(Debug, Default)]
pub struct HandOver<W>(W);

impl<W: Word> HandOver<W> {
    /// A place with a word that is 0.
    pub const fn new(word: W) -> Self {
        Self(word)
    }

    /// Gives an order: it is carried out now if the lock is free, else by its holder. An order that was not carried out yet is
    /// replaced.
    pub fn post<G>(
        &self,
        order: u32,
        try_lock: impl FnMut() -> Option<G>,
        carry_out: impl FnMut(&mut G, u32),
    ) {
        while !self.0.exchange(self.0.read(), order) {}
        self.settle(try_lock, carry_out);
    }

    /// Carries out what was ordered while the lock was held; for everybody who has let go of it.
    pub fn settle<G>(&self, mut try_lock: impl FnMut() -> Option<G>, mut carry_out: impl FnMut(&mut G, u32)) {
        loop {
            W::full_fence();
            if self.0.read() == NONE {
                return;
            }
            let Some(mut held) = try_lock() else { return };
            let order = self.0.read();
            if order != NONE && self.0.exchange(order, NONE) {
                carry_out(&mut held, order);
            }
        }
    }
}
