//! Which epochs the readers of a table are in.
//!
//! Each reader has one word that its writer can read. While it looks routes up the word is the table's epoch, as the
//! reader saw it before its first lookup; it moves on between two lookups, never within one. A reader that sleeps is
//! offline, and holds nobody up:
//!
//! ```text
//! reader: word = epoch; fence(SeqCst); look up ...; word = OFFLINE; sleep
//! writer: remove; publish; fence(SeqCst); read the words; reuse what was removed before the oldest of them
//! ```
//!
//! A word may lie. Then that reader may take what was used again for what it was: packets of its own go astray, and
//! nobody else's.

/// The word of a reader that has looked nothing up since it wrote the word, and will write another one first.
pub const OFFLINE: u32 = 0;

/// The oldest epoch that a reader may be in, given the present one and the readers' words.
pub fn oldest(epoch: u32, readers: impl IntoIterator<Item = u32>) -> u32 {
    let behind = |word: u32| (epoch.wrapping_sub(word) as i32).max(0) as u32;
    let furthest = readers.into_iter().filter(|word| *word != OFFLINE).map(behind).max();
    epoch.wrapping_sub(furthest.unwrap_or(0))
}
