//! Delegation of work from an owner thread to a helper thread, which returns to the owner when the helper has caught
//! up.
//!
//! ```text
//!   owner:   publish work; fence; is work delegated? ---- no: do it       yes: ring for the helper
//!   helper:  finds none; clear the word; fence; look again ---- none: later work is the owner's again
//!                                                      \-------- some: the word is set again
//! ```
//!
//! Work that the owner publishes while earlier work is delegated goes to the helper too, so that no work overtakes.
//! Either the owner finds that the delegation has ended, or the helper finds the new work: none is left behind
//! (`tests/left_over_loom.rs`).

use crate::combine::Word;

/// No work is delegated.
const NONE: u32 = 0;
/// Work is delegated.
const SOME: u32 = 1;

/// Shared word that says whether work is delegated to the helper.
#[derive(Debug, Default)]
pub struct DelegatedWork<W>(W);

impl<W: Word> DelegatedWork<W> {
    /// Creates the state from a word that holds 0: no work is delegated.
    pub const fn new(word: W) -> Self {
        Self(word)
    }

    /// For the owner, after publishing work: returns true if that work belongs to the helper, because earlier work is
    /// delegated.
    pub fn is_delegated(&self) -> bool {
        W::full_fence();
        self.0.read() != NONE
    }

    /// For the owner: delegates the published work to the helper.
    pub fn delegate(&self) {
        self.0.write(SOME);
        W::full_fence();
    }

    /// For the helper, when it looks for work: returns true if any is delegated. The owner rings for work that this
    /// misses.
    pub fn has_work(&self) -> bool {
        self.0.read() != NONE
    }

    /// For the helper, when it finds no more work: ends the delegation, unless `more` finds work published meanwhile.
    pub fn finish(&self, more: impl FnOnce() -> bool) {
        self.0.write(NONE);
        W::full_fence();
        if more() {
            self.delegate();
        }
    }
}
