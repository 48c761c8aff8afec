//! An e1000's status block loses no wake-up: a driver and a device that both go to sleep, in every order, on a memory
//! that reorders as much as the language allows. The driver sleeps when the ring is full until frames were sent, the
//! device when there is no frame to send; a receive ring is equivalent, with buffers in place of frames. The code under
//! test is that of `split::notify` and `wake`, as `e1000` uses it on positions; and the model deadlocks, as it must,
//! without the second look or without any of the fences, on either side.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-ring --release --test csb_loom`
#![cfg(loom)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicU16, Ordering, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use ring::split::notify::{self, Suppression, Word};
use ring::wake::{Poller, RingServer};

/// Number of positions of the ring: it holds one frame, so that each end has to wait for the other, and its positions
/// wrap.
const ENTRIES: u16 = 2;
/// Number of frames that pass.
const FRAMES: u16 = 2;

/// Bound of preemptions in one run: without a bound there are too many orders. The removed parts are already missed
/// with two.
const PREEMPTIONS: usize = 4;

/// State shared by both ends: the block's words for one ring.
#[derive(Default)]
struct Block {
    tail: AtomicU16,
    head: AtomicU16,
    no_interrupt: AtomicU16,
    no_kick: AtomicU16,
    interrupt: Bell,
    kick: Bell,
}

/// An eventfd, or a halted vCPU.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.rings.notify_one();
    }

    /// Sleeps until it rings; returns at once if it has.
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.rings.wait(rung).unwrap();
        }
        *rung = false;
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

/// Parts of the protocol that an end performs: its fence when it publishes, its fence when it arms, and the second
/// look.
#[derive(Clone, Copy)]
struct Habits {
    publishes: bool,
    arms: bool,
    looks: bool,
}

const RIGHT: Habits = Habits { publishes: true, arms: true, looks: true };

impl Habits {
    /// Publishes a position; returns true if the other end wants a notification.
    fn publish(self, word: &AtomicU16, suppression: &AtomicU16, old: u16, new: u16) -> bool {
        if self.publishes {
            notify::publish(&View::<true>(word), &Suppression::Flag(&View::<true>(suppression)), old, new)
        } else {
            notify::publish(&View::<false>(word), &Suppression::Flag(&View::<false>(suppression)), old, new)
        }
    }

    /// Arms; returns true if there is work already.
    fn arm(self, word: &AtomicU16, suppression: &AtomicU16, seen: u16) -> bool {
        let news = if self.arms {
            notify::arm(&View::<true>(word), &Suppression::Flag(&View::<true>(suppression)), seen)
        } else {
            notify::arm(&View::<false>(word), &Suppression::Flag(&View::<false>(suppression)), seen)
        };
        news && self.looks
    }
}

fn after(position: u16) -> u16 {
    (position + 1) % ENTRIES
}

/// Sends frames, one after the other.
struct Driver {
    block: Arc<Block>,
    habits: Habits,
    sent: u16,
    /// Positions of the next descriptor, and of the first that has not come back.
    next: u16,
    first: u16,
}

impl Driver {
    fn send(&mut self) {
        if self.sent == FRAMES || after(self.next) == self.first {
            return;
        }
        let old = self.next;
        self.next = after(old);
        self.sent += 1;
        if self.habits.publish(&self.block.tail, &self.block.no_kick, old, self.next) {
            self.block.kick.ring();
        }
    }

    fn is_done(&self) -> bool {
        self.sent == FRAMES && self.first == self.next
    }
}

impl RingServer for Driver {
    fn poll(&mut self) -> bool {
        let head = View::<true>(&self.block.head).read();
        let moved = head != self.first;
        self.first = head;
        self.send();
        moved
    }

    fn arm(&mut self) -> bool {
        self.habits.arm(&self.block.head, &self.block.no_interrupt, self.first)
    }

    fn disarm(&mut self) {
        Suppression::Flag(&View::<true>(&self.block.no_interrupt)).disable(self.first);
    }
}

/// Takes one frame at a time.
struct Device {
    block: Arc<Block>,
    habits: Habits,
    taken: u16,
    next: u16,
}

impl RingServer for Device {
    fn poll(&mut self) -> bool {
        if View::<true>(&self.block.tail).read() == self.next {
            return false;
        }
        let old = self.next;
        self.next = after(old);
        self.taken += 1;
        if self.habits.publish(&self.block.head, &self.block.no_interrupt, old, self.next) {
            self.block.interrupt.ring();
        }
        true
    }

    fn arm(&mut self) -> bool {
        self.habits.arm(&self.block.tail, &self.block.no_kick, self.next)
    }

    fn disarm(&mut self) {
        Suppression::Flag(&View::<true>(&self.block.no_kick)).disable(self.next);
    }
}

fn model(driver: Habits, device: Habits) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        let block = Arc::new(Block::default());
        let mut device = Device { block: block.clone(), habits: device, taken: 0, next: 0 };
        let served = thread::spawn(move || {
            let mut poller = Poller::new(0);
            while device.taken != FRAMES {
                poller.turn(&mut device, |device| device.block.kick.wait());
            }
        });
        let mut driver = Driver { block, habits: driver, sent: 0, next: 0, first: 0 };
        let mut poller = Poller::new(0);
        while !driver.is_done() {
            poller.turn(&mut driver, |driver| driver.block.interrupt.wait());
        }
        served.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost_in_either_direction() {
    model(RIGHT, RIGHT);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_drivers_second_look_the_ring_stands_still() {
    model(Habits { looks: false, ..RIGHT }, RIGHT);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_devices_second_look_the_ring_stands_still() {
    model(RIGHT, Habits { looks: false, ..RIGHT });
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_a_driver_that_publishes_the_ring_stands_still() {
    model(Habits { publishes: false, ..RIGHT }, RIGHT);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_a_device_that_publishes_the_ring_stands_still() {
    model(RIGHT, Habits { publishes: false, ..RIGHT });
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_a_driver_that_arms_the_ring_stands_still() {
    model(Habits { arms: false, ..RIGHT }, RIGHT);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_a_device_that_arms_the_ring_stands_still() {
    model(RIGHT, Habits { arms: false, ..RIGHT });
}
