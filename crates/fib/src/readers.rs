//! Epochs of the readers of a table.
//!
//! Each reader has one word that its writer can read. While the reader looks routes up, the word is the table's epoch
//! as it was before the reader's first lookup; it changes between lookups, never during one. A reader that sleeps is
//! offline, and delays no reuse:
//!
//! ```text
//! reader: word = epoch; fence(SeqCst); look up ...; word = OFFLINE; sleep
//! writer: remove; publish; fence(SeqCst); read the words; reuse what was removed before the oldest of them
//! ```
//!
//! A reader can store a wrong word. Then it may use a reused entry in its old meaning: it misroutes its own packets,
//! and affects no other reader.

/// Word of a reader that has not looked up any route since it wrote the word, and will write another one before it
/// does.
pub const OFFLINE: u32 = 0;

/// Returns the oldest epoch that a reader may be in, given the current one and the readers' words.
pub fn oldest(epoch: u32, readers: impl IntoIterator<Item = u32>) -> u32 {
    let behind = |word: u32| (epoch.wrapping_sub(word) as i32).max(0) as u32;
    let furthest = readers.into_iter().filter(|word| *word != OFFLINE).map(behind).max();
    epoch.wrapping_sub(furthest.unwrap_or(0))
}
