//! Hands an order to the holder of a lock, from a thread that must not wait for the lock.
//!
//! ```text
//!   poster:  write the order; fence; try the lock ---- free: execute it ----> unlock, look again
//!                                                  \--- held: return
//!   holder:  ... unlock; fence; look for an order --- there is one: as the poster
//! ```
//!
//! Either the poster finds the lock free, or its holder finds the order after unlocking: no order is lost, and of
//! several orders the last one counts (`tests/hand_over_loom.rs`).

use crate::combine::Word;

/// No order.
const NONE: u32 = 0;

/// Place for one order, which is any number but 0.
#[derive(Debug, Default)]
pub struct HandOver<W>(W);

impl<W: Word> HandOver<W> {
    /// Creates a place from a word that holds 0.
    pub const fn new(word: W) -> Self {
        Self(word)
    }

    /// Posts an order: the calling thread executes it if the lock is free, else the lock's holder does. Replaces an
    /// order that was not executed yet.
    pub fn post<G>(
        &self,
        order: u32,
        try_lock: impl FnMut() -> Option<G>,
        carry_out: impl FnMut(&mut G, u32),
    ) {
        while !self.0.exchange(self.0.read(), order) {}
        self.settle(try_lock, carry_out);
    }

    /// Executes an order that was posted while the lock was held. Every thread calls this after it has unlocked.
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
