//! Questions of one party to another one that does not trust it: a ring of words that the asker overwrites where it is not
//! heard in time.
//!
//! ```text
//!   asked: number of questions so far     words: [ number of the question mod 2^16 | question, 48 bits ] x PLACES
//! ```
//!
//! The asker writes a word, then how many questions there were. It never waits, and is told nothing by this ring: without an
//! answer it asks again. The other party reads when it likes, a bounded number of words, each of them once. A word has the
//! number of its question, so that one that was overwritten meanwhile counts as lost and is not taken for another one. So
//! each question is heard once or counted as lost (`tests/questions_loom.rs`). An asker that breaks the rules spoils its own
//! questions, and nothing else.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of words of [`Questions`].
const PLACES: usize = 64;
/// Bits of a word that hold the question.
const QUESTION: u64 = (1 << 48) - 1;

/// Words of a ring, each of which is written by the asker alone. A trait, because the loom model substitutes words of its
/// own.
pub trait Words {
    /// Number of words, a power of two up to 2^16.
    const PLACES: usize;

    /// Reads how many questions there were, modulo 2^32; their words are visible afterwards (acquire).
    fn asked(&self) -> u32;

    /// Writes how many questions there were, after their words (release).
    fn set_asked(&self, asked: u32);

    /// Reads the word in a place below [`Words::PLACES`].
    fn word(&self, place: usize) -> u64;

    /// Writes the word in a place.
    fn set_word(&self, place: usize, word: u64);
}

/// The ring of one asker. Zeroed memory is a ring in which nothing was asked.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Questions {
    asked: AtomicU32,
    words: [AtomicU64; PLACES],
}

impl Default for Questions {
    fn default() -> Self {
        Self { asked: AtomicU32::new(0), words: [const { AtomicU64::new(0) }; PLACES] }
    }
}

impl Words for Questions {
    const PLACES: usize = PLACES;

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Acquire)
    }

    fn set_asked(&self, asked: u32) {
        self.asked.store(asked, Ordering::Release);
    }

    fn word(&self, place: usize) -> u64 {
        self.words.get(place).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn set_word(&self, place: usize, word: u64) {
        if let Some(own) = self.words.get(place) {
            own.store(word, Ordering::Relaxed);
        }
    }
}

/// Asks a question of 48 bits. To be called by one party at a time.
pub fn ask<W: Words>(words: &W, question: u64) {
    let number = words.asked();
    words.set_word(place::<W>(number), u64::from(number as u16) << 48 | question & QUESTION);
    words.set_asked(number.wrapping_add(1));
}

const fn place<W: Words>(number: u32) -> usize {
    number as usize & (W::PLACES - 1)
}

/// What became of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Questions that were heard.
    pub taken: u32,
    /// Questions that were overwritten before; whatever the asker claims.
    pub lost: u32,
}

/// The other party's place in a ring, which the asker neither reads nor writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hearer {
    heard: u32,
}

impl Hearer {
    /// Begins with the questions that are still in the ring: those of an asker that was there first are heard, too.
    pub fn new<W: Words>(words: &W) -> Self {
        let asked = words.asked();
        Self { heard: asked - asked.min(W::PLACES as u32) }
    }

    /// Passes questions that were not heard yet to `each`, at most `most` of them; others stay until the next call, and are
    /// lost if they are overwritten before. Reads at most `most` words, and no more than there are.
    pub fn hear<W: Words>(&mut self, words: &W, most: usize, mut each: impl FnMut(u64)) -> Heard {
        let asked = words.asked();
        let (waiting, places) = (asked.wrapping_sub(self.heard), W::PLACES as u32);
        let mut heard = Heard { taken: 0, lost: waiting.saturating_sub(places) };
        self.heard = self.heard.wrapping_add(heard.lost);
        for _ in 0..most.min(waiting.min(places) as usize) {
            let word = words.word(place::<W>(self.heard));
            if word >> 48 == u64::from(self.heard as u16) {
                each(word & QUESTION);
                heard.taken += 1;
            } else {
                heard.lost = heard.lost.saturating_add(1);
            }
            self.heard = self.heard.wrapping_add(1);
        }
        heard
    }
}

#[cfg(test)]
mod tests;
