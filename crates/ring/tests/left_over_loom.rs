//! No frame is lost between an access that delegates frames and the thread that polls for them: both, in every order,
//! on a memory that reorders as much as the language allows; and the model fails, as it must, without the fence.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-ring --release --test left_over_loom`
#![cfg(loom)]

mod word;

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use ring::delegated_work::DelegatedWork;

use word::Shared;

/// A transmit ring whose frames are sent within accesses.
struct Nic<const FENCE: bool> {
    /// Frames that the driver has published.
    published: AtomicU32,
    /// Frames that were sent; the lock is that of the sink.
    sent: Mutex<u32>,
    left: DelegatedWork<Shared<FENCE>>,
    rung: AtomicU32,
}

impl<const FENCE: bool> Nic<FENCE> {
    fn send(&self, sent: &mut u32) -> bool {
        let published = self.published.load(Ordering::Acquire);
        let some = *sent < published;
        *sent = published;
        some
    }

    /// As a register access that publishes one more frame (`NicQueues::send_within`).
    fn access(&self, published: u32) {
        self.published.store(published, Ordering::Release);
        if self.left.is_delegated() {
            return self.rung.store(1, Ordering::Release);
        }
        self.send(&mut self.sent.lock().expect("no panic"));
    }

    /// As the polling thread in a pass (`NicQueues::send_rest`).
    fn poll(&self) {
        if !self.left.has_work() {
            return;
        }
        let mut sent = self.sent.lock().expect("no panic");
        if !self.send(&mut sent) {
            self.left.finish(|| *sent < self.published.load(Ordering::Acquire));
        }
    }
}

fn frames<const FENCE: bool>() {
    loom::model(|| {
        let nic = Arc::new(Nic::<FENCE> {
            published: AtomicU32::new(0),
            sent: Mutex::new(0),
            left: DelegatedWork::new(Shared::new()),
            rung: AtomicU32::new(0),
        });
        nic.left.delegate();
        let poller = thread::spawn({
            let nic = nic.clone();
            move || {
                nic.poll();
                nic.poll();
            }
        });
        nic.access(1);
        nic.access(2);
        poller.join().expect("no panic");
        // A thread that was rung polls once more.
        if nic.rung.load(Ordering::Acquire) == 1 {
            nic.poll();
        }
        assert_eq!(*nic.sent.lock().expect("no panic"), 2, "a frame was left behind");
    });
}

#[test]
fn each_frame_is_sent() {
    frames::<true>();
}

#[test]
#[should_panic(expected = "a frame was left behind")]
fn without_the_fence_one_may_be_left_behind() {
    frames::<false>();
}
