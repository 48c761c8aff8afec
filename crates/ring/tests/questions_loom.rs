//! No question is lost without being counted, and none is heard twice or in another's place: an asker and a hearer, in
//! every order, on a memory that reorders as much as the language allows; and the model fails, as it must, where the number
//! of questions is told without order.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-ring --release --test questions_loom`
#![cfg(loom)]

use std::cell::Cell;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use ring::questions::{Hearer, Words, ask};

/// A ring of two words, whose number of questions is told with or without order.
struct Ring<const ORDERED: bool> {
    asked: AtomicU32,
    words: [AtomicU64; 2],
}

impl<const ORDERED: bool> Words for Ring<ORDERED> {
    const PLACES: usize = 2;

    fn asked(&self) -> u32 {
        self.asked.load(if ORDERED { Ordering::Acquire } else { Ordering::Relaxed })
    }

    fn set_asked(&self, asked: u32) {
        self.asked.store(asked, if ORDERED { Ordering::Release } else { Ordering::Relaxed });
    }

    fn word(&self, place: usize) -> u64 {
        self.words[place].load(Ordering::Relaxed)
    }

    fn set_word(&self, place: usize, word: u64) {
        self.words[place].store(word, Ordering::Relaxed);
    }
}

/// The asker's end, which knows the number of its questions by itself: loom compares an access with the last one to the same
/// variable alone, and where that is the asker's own it tries no other order.
struct Asker<const ORDERED: bool> {
    ring: Arc<Ring<ORDERED>>,
    asked: Cell<u32>,
}

impl<const ORDERED: bool> Words for Asker<ORDERED> {
    const PLACES: usize = 2;

    fn asked(&self) -> u32 {
        self.asked.get()
    }

    fn set_asked(&self, asked: u32) {
        self.asked.set(asked);
        self.ring.set_asked(asked);
    }

    fn word(&self, place: usize) -> u64 {
        self.ring.word(place)
    }

    fn set_word(&self, place: usize, word: u64) {
        self.ring.set_word(place, word);
    }
}

/// Asks so many questions, the first of which is 10, while they are heard twice, and once more afterwards. Returns what was
/// heard, and how many were lost.
fn play<const ORDERED: bool>(questions: u64) -> (Vec<u64>, u32) {
    // The number of no question is that of an unwritten word.
    let words = [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)];
    let ring = Arc::new(Ring::<ORDERED> { asked: AtomicU32::new(0), words });
    let asker = Asker { ring: ring.clone(), asked: Cell::new(0) };
    let asking = thread::spawn(move || (0..questions).for_each(|number| ask(&asker, 10 + number)));
    let (mut hearer, mut heard, mut lost) = (Hearer::default(), Vec::new(), 0);
    for _ in 0..2 {
        lost += hearer.hear(&*ring, 2, |question| heard.push(question)).lost;
    }
    asking.join().unwrap();
    lost += hearer.hear(&*ring, 2, |question| heard.push(question)).lost;
    (heard, lost)
}

#[test]
fn questions_that_fit_are_all_heard_in_their_order() {
    loom::model(|| assert_eq!(play::<true>(2), (vec![10, 11], 0)));
}

#[test]
fn of_more_than_fit_each_is_heard_once_or_counted_as_lost() {
    loom::model(|| {
        let (heard, lost) = play::<true>(4);
        assert_eq!(heard.len() + lost as usize, 4, "{heard:?}");
        assert!(heard.is_sorted_by(|one, next| one < next), "{heard:?}");
        assert!(heard.iter().all(|question| (10..14).contains(question)), "{heard:?}");
        assert_eq!(heard.last(), Some(&13), "the last one is never overwritten");
    });
}

#[test]
#[should_panic(expected = "lost without reason")]
fn without_order_a_question_is_missed() {
    loom::model(|| assert_eq!(play::<false>(2).1, 0, "lost without reason"));
}
