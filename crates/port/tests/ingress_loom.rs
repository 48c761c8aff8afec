//! The protocol of the ingress queue under every interleaving of two senders and a consumer, on a memory that reorders
//! as much as the language allows: no frame is lost or shown twice, each sender's frames stay in order, no slot has two
//! owners, and no wake-up is lost.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-port --release --test ingress_loom`
#![cfg(loom)]

use frame::offload::Offload;
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};
use port::ingress::leases::{Filled, Leases};

struct Model {
    leases: Leases,
    /// An eventfd.
    bell: Mutex<bool>,
    /// Number of the frame in each slot.
    slots: [Mutex<u32>; 3],
}

impl Model {
    fn new(slots: u32) -> Arc<Self> {
        let bell = Mutex::new(false);
        Arc::new(Self { leases: Leases::new(slots), bell, slots: [0; 3].map(Mutex::new) })
    }

    /// Sends frames numbered from `first`; returns how many found a slot.
    fn send(&self, first: u32, count: u32) -> u32 {
        let lease = self.leases.lease(count as usize);
        let mut filled = Vec::new();
        for (&slot, number) in lease.iter().zip(first..) {
            // No other thread may use this slot now.
            let mut content = self.slots[slot as usize].try_lock().expect("two owners of a slot");
            assert_eq!(*content, 0, "a sender got a slot that was not given back");
            *content = number;
            filled.push(Filled { slot, len: number, offload: Offload::NONE });
        }
        if self.leases.publish(&filled) {
            *self.bell.lock().unwrap() = true;
        }
        filled.len() as u32
    }

    /// Shows up to two frames; returns their numbers.
    fn drain(&self) -> Vec<u32> {
        let taken = self.leases.take(2);
        let numbers = taken.iter().map(|filled| {
            let mut content = self.slots[filled.slot as usize].try_lock().expect("two owners of a slot");
            assert_eq!(*content, filled.len, "the slot was filled again before it was shown");
            std::mem::take(&mut *content)
        });
        let numbers = numbers.collect();
        self.leases.give_back(taken.iter().map(|filled| filled.slot));
        numbers
    }

    /// Reads the bell: returns true if it has rung since the last read.
    fn heard(&self) -> bool {
        std::mem::take(&mut *self.bell.lock().unwrap())
    }

    /// Sleeps until the bell rings. A sleeper that is woken at once and one that arrives after the bell has rung behave
    /// alike, so it suffices to check now, and, if it has not rung, once more when no thread is left to ring it.
    fn sleep(&self, senders: &mut Vec<JoinHandle<()>>) {
        if !self.heard() {
            senders.drain(..).for_each(|sender| sender.join().unwrap());
            assert!(self.heard(), "a wake-up was lost");
        }
    }

    /// Polls, and sleeps by the protocol, until it has seen `count` frames.
    fn consume(&self, count: usize, mut senders: Vec<JoinHandle<()>>) -> Vec<u32> {
        let mut seen = Vec::new();
        loop {
            seen.extend(self.drain());
            if seen.len() >= count {
                senders.drain(..).for_each(|sender| sender.join().unwrap());
                return seen;
            }
            if !self.leases.arm() {
                self.sleep(&mut senders);
            }
            self.leases.disarm();
        }
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn sender(model: &Arc<Model>, bursts: &'static [(u32, u32)]) -> JoinHandle<()> {
    let model = model.clone();
    thread::spawn(move || {
        for &(first, count) in bursts {
            assert_eq!(model.send(first, count), count);
        }
    })
}

#[test]
fn a_sleeping_consumer_is_woken_and_sees_every_frame_once_in_order() {
    check(|| {
        let model = Model::new(3);
        let senders = vec![sender(&model, &[(1, 1), (2, 1)])];
        assert_eq!(model.consume(2, senders), [1, 2]);
        assert_eq!(model.leases.free(), 3);
    });
}

#[test]
fn two_senders_lose_nothing() {
    check(|| {
        let model = Model::new(3);
        let senders = vec![sender(&model, &[(10, 2)]), sender(&model, &[(20, 1)])];
        let seen = model.consume(3, senders);
        let place = |number| seen.iter().position(|&n| n == number).expect("a frame was lost");
        assert!(place(10) < place(11), "a sender's frames changed places");
        assert!(place(20) < 3);
        assert_eq!(model.leases.free(), 3);
    });
}

#[test]
fn slots_circulate_between_senders_and_consumer() {
    check(|| {
        let model = Model::new(1);
        let sender = {
            let model = model.clone();
            thread::spawn(move || model.send(1, 1) + model.send(2, 1))
        };
        let mut seen = model.drain();
        let sent = sender.join().unwrap();
        seen.extend(model.drain());
        assert_eq!(seen.len() as u32, sent, "what was taken in comes out, once");
        assert_eq!(model.leases.free(), 1);
    });
}
