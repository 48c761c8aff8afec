//! Send combining loses no frame: a vCPU that sends and one that serves interrupts, in every order, on a memory that
//! reorders as much as the language allows; and the model fails, as it must, without the fences.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringroad-ring --release --test combine_loom`
#![cfg(loom)]

mod word;

use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;
use ring::combine::Combiner;

use word::Shared;

/// A device that sends within the access.
#[derive(Default)]
struct Device {
    tail: u32,
    interrupts: u32,
}

struct Machine<const FENCE: bool> {
    combiner: Combiner<Shared<FENCE>>,
    device: Mutex<Device>,
}

impl<const FENCE: bool> Machine<FENCE> {
    fn new() -> Arc<Self> {
        let combiner = Combiner::new([Shared::new(), Shared::new(), Shared::new()]);
        Arc::new(Self { combiner, device: Mutex::new(Device::default()) })
    }

    fn write(&self) -> impl FnMut(u32) {
        |tail| {
            let mut device = self.device.lock().unwrap();
            assert!(tail > device.tail, "the register went from {} to {tail}", device.tail);
            device.tail = tail;
            device.interrupts += 1;
        }
    }

    /// Serves an interrupt, if one is pending.
    fn serve(&self) -> bool {
        let came = {
            let mut device = self.device.lock().unwrap();
            let came = device.interrupts > 0;
            // Causes that are pending together make one interrupt.
            device.interrupts = 0;
            came
        };
        if came {
            self.combiner.interrupted(self.write());
        }
        came
    }
}

/// Sends `frames` while the other vCPU serves up to `looks` interrupts, the first of which may be unrelated (`stray`).
fn model<const FENCE: bool>(frames: u32, looks: u32, stray: bool, flush: bool) {
    loom::model(move || {
        let machine = Machine::<FENCE>::new();
        let other = machine.clone();
        let server = thread::spawn(move || {
            if stray {
                other.combiner.interrupted(other.write());
            }
            for _ in 0..looks {
                other.serve();
            }
        });
        for tail in 1..=frames {
            machine.combiner.offer(tail, machine.write());
        }
        if flush {
            machine.combiner.flush(machine.write());
        }
        server.join().unwrap();
        // Serves all outstanding interrupts; afterwards there are none.
        while machine.serve() {}
        assert_eq!(machine.device.lock().unwrap().tail, frames, "a frame was left behind");
    });
}

#[test]
fn no_frame_is_left_behind() {
    model::<true>(2, 2, false, false);
}

#[test]
fn nor_with_an_interrupt_for_another_reason() {
    model::<true>(2, 1, true, false);
}

#[test]
fn nor_with_a_flush() {
    model::<true>(2, 1, false, true);
    model::<true>(2, 0, true, true);
}

#[test]
#[should_panic(expected = "a frame was left behind")]
fn without_the_fences_a_frame_is_left_behind() {
    model::<false>(2, 1, false, false);
}
