//! No order is lost at a lock: a thread that posts orders and one that takes the lock, in every order, on a memory that
//! reorders as much as the language allows; and the model fails, as it must, without the fence.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-ring --release --test hand_over_loom`
#![cfg(loom)]

mod word;

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use ring::hand_over::HandOver;

use word::Shared;

/// The guarded object. Its lock is a flag: locking and unlocking are as weak as a lock may be.
struct Slot<const FENCE: bool> {
    held: AtomicU32,
    link: Mutex<u32>,
    orders: HandOver<Shared<FENCE>>,
}

struct Guard<'s, const FENCE: bool>(&'s Slot<FENCE>);

impl<const FENCE: bool> Drop for Guard<'_, FENCE> {
    fn drop(&mut self) {
        self.0.held.store(0, Ordering::Release);
    }
}

impl<const FENCE: bool> Slot<FENCE> {
    fn new() -> Arc<Self> {
        let orders = HandOver::new(Shared::new());
        Arc::new(Self { held: AtomicU32::new(0), link: Mutex::new(0), orders })
    }

    fn try_lock(&self) -> Option<Guard<'_, FENCE>> {
        let free = self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        free.then(|| Guard(self))
    }

    fn set(guard: &Guard<'_, FENCE>, order: u32) {
        *guard.0.link.lock().expect("no panic") = order;
    }

    /// As in a register access: locks, acts, unlocks.
    fn access(&self) {
        let Some(guard) = self.try_lock() else { return };
        drop(guard);
        self.orders.settle(|| self.try_lock(), |guard, order| Self::set(guard, order));
    }

    fn post(&self, order: u32) {
        self.orders.post(order, || self.try_lock(), |guard, order| Self::set(guard, order));
    }
}

fn orders<const FENCE: bool>() {
    loom::model(|| {
        let slot = Slot::<FENCE>::new();
        let vcpu = thread::spawn({
            let slot = slot.clone();
            move || slot.access()
        });
        slot.post(1);
        slot.post(2);
        vcpu.join().expect("no panic");
        assert_eq!(*slot.link.lock().expect("no panic"), 2, "the last order was left behind");
    });
}

#[test]
fn the_last_order_is_carried_out() {
    orders::<true>();
}

#[test]
#[should_panic(expected = "the last order was left behind")]
fn without_the_fence_it_may_be_left_behind() {
    orders::<false>();
}
