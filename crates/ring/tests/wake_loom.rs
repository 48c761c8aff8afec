//! No wake-up is lost: every interleaving of a publisher and a sleeper, on a memory that reorders as much as the
//! language allows. The code under test is that of `split::notify` and `wake`, instantiated with the model's words; and
//! the model fails, as it must, without the second look or without either fence.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-ring --release --test wake_loom`
#![cfg(loom)]

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU16, Ordering, fence};
use loom::thread::{self, JoinHandle};
use ring::split::notify::{self, Suppression, Word};
use ring::wake::{Poller, RingServer, Turn};

/// State shared by one ring's two ends, and the eventfd of the sleeper.
struct Shared {
    index: AtomicU16,
    suppression: AtomicU16,
    bell: Arc<Bell>,
}

/// An eventfd.
type Bell = Mutex<bool>;

/// Reads an eventfd: returns true if it has rung since the last read.
fn take(bell: &Bell) -> bool {
    std::mem::take(&mut *bell.lock().unwrap())
}

/// The publishing thread as the sleeper sees it.
struct Publisher {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Sleeps until the bell rings. A sleeper that is woken at once and one that arrives after the bell has rung behave
    /// alike, so it suffices to check the bell at any moment, and, if it has not rung then, once more when no thread is
    /// left to ring it.
    fn sleep(&mut self) {
        if take(&self.bell) {
            return;
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        assert!(take(&self.bell), "a wake-up was lost");
    }
}

/// A shared word as one end sees it, with or without its fence.
struct View<'a, const FENCE: bool>(&'a AtomicU16);

impl<const FENCE: bool> Word for View<'_, FENCE> {
    fn read(&self) -> u16 {
        self.0.load(Ordering::Acquire)
    }

    fn write(&self, value: u16) {
        self.0.store(value, Ordering::Release);
    }

    fn full_fence() {
        if FENCE {
            fence(Ordering::SeqCst);
        }
    }
}

/// Way in which a sleeper requests a notification.
#[derive(Clone, Copy)]
enum By {
    Flag,
    Event,
}

impl By {
    fn suppression<'a, W>(self, word: &'a W) -> Suppression<'a, W> {
        match self {
            Self::Flag => Suppression::Flag(word),
            Self::Event => Suppression::Event(word),
        }
    }
}

fn publisher<const FENCE: bool>(shared: &Shared, by: By, first: u16, count: u16) {
    for i in 0..count {
        let (old, new) = (first.wrapping_add(i), first.wrapping_add(i + 1));
        let (index, suppression) = (View::<FENCE>(&shared.index), View::<FENCE>(&shared.suppression));
        if notify::publish(&index, &by.suppression(&suppression), old, new) {
            *shared.bell.lock().unwrap() = true;
        }
    }
}

/// Consumer of one ring.
struct Consumer<const FENCE: bool, const LOOK: bool> {
    shared: Arc<Shared>,
    by: By,
    seen: u16,
    /// The entry for which it requests a notification; `None`: the next one.
    last: Option<u16>,
}

impl<const FENCE: bool, const LOOK: bool> RingServer for Consumer<FENCE, LOOK> {
    fn poll(&mut self) -> bool {
        let index = View::<FENCE>(&self.shared.index).read();
        let moved = index != self.seen;
        self.seen = index;
        moved
    }

    fn arm(&mut self) -> bool {
        let (index, suppression) =
            (View::<FENCE>(&self.shared.index), View::<FENCE>(&self.shared.suppression));
        let news = match self.last {
            None => notify::arm(&index, &self.by.suppression(&suppression), self.seen),
            Some(last) => {
                let count = last.wrapping_sub(self.seen);
                notify::arm_after(&index, &self.by.suppression(&suppression), self.seen, count)
            }
        };
        news && LOOK
    }

    fn disarm(&mut self) {
        let suppression = View::<FENCE>(&self.shared.suppression);
        self.by.suppression(&suppression).disable(self.seen);
    }
}

/// Two rings served by one thread.
struct Both(Consumer<true, true>, Consumer<true, true>);

impl RingServer for Both {
    fn poll(&mut self) -> bool {
        self.0.poll() | self.1.poll()
    }

    fn arm(&mut self) -> bool {
        self.0.arm() || self.1.arm()
    }

    fn disarm(&mut self) {
        self.0.disarm();
        self.1.disarm();
    }
}

fn ring(first: u16, bell: &Arc<Bell>) -> Arc<Shared> {
    Arc::new(Shared { index: AtomicU16::new(first), suppression: AtomicU16::new(0), bell: bell.clone() })
}

/// One publisher of `COUNT` entries and one sleeper, with the parts of the protocol that the parameters select.
fn model<const PUBLISHER_FENCE: bool, const SLEEPER_FENCE: bool, const LOOK: bool>(by: By) {
    model_of::<PUBLISHER_FENCE, SLEEPER_FENCE, LOOK>(by, false);
}

/// The model; with `late` the sleeper requests a notification for the last entry only.
fn model_of<const PUBLISHER_FENCE: bool, const SLEEPER_FENCE: bool, const LOOK: bool>(by: By, late: bool) {
    /// Across the wrap of the index.
    const FIRST: u16 = u16::MAX;
    const COUNT: u16 = 2;
    loom::model(move || {
        let bell = Arc::new(Mutex::new(false));
        let shared = ring(FIRST, &bell);
        let other = shared.clone();
        let thread = thread::spawn(move || publisher::<PUBLISHER_FENCE>(&other, by, FIRST, COUNT));
        let mut publisher = Publisher { bell, thread: Some(thread) };
        let last = late.then_some(FIRST.wrapping_add(COUNT));
        let mut consumer = Consumer::<SLEEPER_FENCE, LOOK> { shared, by, seen: FIRST, last };
        let mut poller = Poller::new(0);
        while consumer.seen != FIRST.wrapping_add(COUNT) {
            poller.turn(&mut consumer, |_| publisher.sleep());
        }
    });
}

#[test]
fn no_wake_up_is_lost_by_flag() {
    model::<true, true, true>(By::Flag);
}

#[test]
fn no_wake_up_is_lost_by_event() {
    model::<true, true, true>(By::Event);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_second_look_a_wake_up_is_lost_by_flag() {
    model::<true, true, false>(By::Flag);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_second_look_a_wake_up_is_lost_by_event() {
    model::<true, true, false>(By::Event);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_publishers_fence_a_wake_up_is_lost_by_flag() {
    model::<false, true, true>(By::Flag);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_publishers_fence_a_wake_up_is_lost_by_event() {
    model::<false, true, true>(By::Event);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_sleepers_fence_a_wake_up_is_lost_by_flag() {
    model::<true, false, true>(By::Flag);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_sleepers_fence_a_wake_up_is_lost_by_event() {
    model::<true, false, true>(By::Event);
}

#[test]
fn no_wake_up_is_lost_by_an_event_further_ahead() {
    model_of::<true, true, true>(By::Event, true);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_second_look_a_wake_up_is_lost_by_an_event_further_ahead() {
    model_of::<true, true, false>(By::Event, true);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_publishers_fence_a_wake_up_is_lost_by_an_event_further_ahead() {
    model_of::<false, true, true>(By::Event, true);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn without_the_sleepers_fence_a_wake_up_is_lost_by_an_event_further_ahead() {
    model_of::<true, false, true>(By::Event, true);
}

#[test]
fn a_thread_that_serves_two_rings_hears_of_both() {
    loom::model(|| {
        let bell = Arc::new(Mutex::new(false));
        let rings = [ring(0, &bell), ring(0, &bell)];
        let others = rings.clone();
        let thread = thread::spawn(move || {
            publisher::<true>(&others[0], By::Flag, 0, 1);
            publisher::<true>(&others[1], By::Event, 0, 1);
        });
        let [first, second] = rings;
        let mut publisher = Publisher { bell, thread: Some(thread) };
        let mut both = Both(
            Consumer { shared: first, by: By::Flag, seen: 0, last: None },
            Consumer { shared: second, by: By::Event, seen: 0, last: None },
        );
        let mut poller = Poller::new(0);
        while (both.0.seen, both.1.seen) != (1, 1) {
            let turn = poller.turn(&mut both, |_| publisher.sleep());
            assert_ne!(turn, Turn::Empty);
        }
    });
}
