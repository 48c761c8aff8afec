//! Work that one thread has left to another, and gets back when that has done it.
//!
//! ```text
//!   owner:   publish work; fence; was something left? ---- no: do it       yes: ring for the helper
//!   helper:  finds none; nothing is left; fence; look again ---- none: it is the owner's from here on
//!                                                      \-------- some: that is left as well
//! ```
//!
//! Whatever the owner publishes while something is left is the helper's too, so that nothing overtakes. Either the owner finds that
//! nothing is left any more, or the helper finds the work: none stays behind (`tests/left_over_loom.rs`).

use crate::combine::Word;

/// Nothing is left.
const NONE: u32 = 0;
/// Something is.
const SOME: u32 = 1;

/// Whether work is left to the helper.
#[derive(Debug, Default)]
pub struct LeftOver<W>(W);

impl<W: Word> LeftOver<W> {
    /// A place with a word that is 0: nothing is left.
    pub const fn new(word: W) -> Self {
        Self(word)
    }

    /// For the owner, who has published work: whether that is left, because other work is.
    pub fn is_left(&self) -> bool {
        W::full_fence();
        self.0.read() != NONE
    }

    /// For the owner: what is published is left.
    pub fn leave(&self) {
        self.0.write(SOME);
        W::full_fence();
    }

    /// For the helper, who looks for work: whether any is left. What is not seen yet is rung for.
    pub fn is_any(&self) -> bool {
        self.0.read() != NONE
    }

    /// For the helper, who has found no more work: nothing is left, unless `more` has been published meanwhile.
    pub fn settle(&self, more: impl FnOnce() -> bool) {
        self.0.write(NONE);
        W::full_fence();
        if more() {
            self.leave();
        }
    }
}
