//! A doorbell that rings only for sleepers loses no wake-up: a vCPU that moves the end of a ring by register accesses
//! and the thread that serves it, in every order, on a memory that reorders as much as the language allows. The code
//! under test is that of `wake::sleep_flag`; and the model deadlocks, as it must, without the second look or without the
//! fence of either side.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-ring --release --test doze_loom`
#![cfg(loom)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU16, Ordering, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use ring::wake::sleep_flag::{Flag, SleepFlag};

/// Number of accesses that move the end of the ring.
const ACCESSES: u16 = 2;

/// Bound of preemptions in one run: without a bound there are too many orders. The removed parts are already missed
/// with two.
const PREEMPTIONS: usize = 4;

/// State shared by both sides.
#[derive(Default)]
struct Shared {
    /// The register, as the device model stores it for the serving thread.
    tail: AtomicU16,
    asleep: AtomicBool,
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Shared {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.rings.notify_one();
    }

    /// Sleeps until it rings; returns at once if it has.
    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.rings.wait(rung).unwrap();
        }
    }

    fn hush(&self) {
        *self.rung.lock().unwrap() = false;
    }
}

/// The word as one side sees it, with or without its fence.
struct View<'a, const FENCE: bool>(&'a AtomicBool);

impl<const FENCE: bool> Flag for View<'_, FENCE> {
    fn set(&self, asleep: bool) {
        self.0.store(asleep, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn full_fence() {
        if FENCE {
            fence(Ordering::SeqCst);
        }
    }
}

/// The vCPU: performs one access after the other.
fn write_registers<const FENCE: bool>(shared: &Shared) {
    for tail in 1..=ACCESSES {
        shared.tail.store(tail, Ordering::Release);
        if SleepFlag::new(View::<FENCE>(&shared.asleep)).must_ring() {
            shared.ring();
        }
    }
}

/// Serves the ring until all accesses have been seen.
fn serve<const FENCE: bool>(shared: &Shared, looks: bool) {
    let doze = SleepFlag::new(View::<FENCE>(&shared.asleep));
    let mut head = 0;
    while head != ACCESSES {
        let tail = shared.tail.load(Ordering::Acquire);
        if std::mem::replace(&mut head, tail) != tail {
            continue;
        }
        doze.fall_asleep();
        if !looks || shared.tail.load(Ordering::Acquire) == head {
            shared.sleep();
        }
        // As in the real code: wakes first, then clears the doorbell.
        doze.wake();
        shared.hush();
    }
}

fn model<const ACCESS: bool, const SERVER: bool>(looks: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        let shared = Arc::new(Shared::default());
        let vcpu = {
            let shared = shared.clone();
            thread::spawn(move || write_registers::<ACCESS>(&shared))
        };
        serve::<SERVER>(&shared, looks);
        vcpu.join().unwrap();
    });
}

#[test]
fn no_access_is_slept_over() {
    model::<true, true>(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_second_look_an_access_is_slept_over() {
    model::<true, true>(false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_the_access_it_is_slept_over() {
    model::<false, true>(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_who_falls_asleep_an_access_is_slept_over() {
    model::<true, false>(true);
}
