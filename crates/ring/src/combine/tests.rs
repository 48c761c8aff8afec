//! Tests with one party at a time; `tests/combine_loom.rs` has two parties.

use core::cell::RefCell;

use super::*;

/// A register that records the values written to it.
#[derive(Default)]
struct Register(RefCell<std::vec::Vec<u32>>);

impl Register {
    fn write(&self) -> impl FnMut(u32) {
        |tail| self.0.borrow_mut().push(tail)
    }

    fn written(&self) -> std::vec::Vec<u32> {
        self.0.borrow().clone()
    }
}

extern crate std;

#[test]
fn the_first_frame_goes_at_once_and_the_others_wait_for_the_interrupt() {
    let (combiner, tdt) = (Combiner::<AtomicU32>::default(), Register::default());
    assert_eq!(combiner.offer(1, tdt.write()), 1);
    for tail in 2..=9 {
        assert_eq!(combiner.offer(tail, tdt.write()), 0);
    }
    assert!(combiner.is_waiting());
    assert_eq!(combiner.interrupted(tdt.write()), 1);
    assert_eq!(tdt.written(), [1, 9]);
    assert!(!combiner.is_waiting());
    // The interrupt for those: no frame waits, and the next frame is written at once again.
    assert_eq!(combiner.interrupted(tdt.write()), 0);
    assert_eq!(combiner.offer(10, tdt.write()), 1);
    assert_eq!(tdt.written(), [1, 9, 10]);
}

#[test]
fn an_interrupt_that_comes_while_the_register_is_written_is_remembered() {
    let (combiner, tdt) = (Combiner::<AtomicU32>::default(), Register::default());
    let mut log = tdt.write();
    let first = combiner.offer(1, |tail| {
        log(tail);
        // A device that sends within the access interrupts before the access returns.
        assert_eq!(combiner.interrupted(|_| panic!("two parties write")), 0);
    });
    assert_eq!(first, 1);
    // No interrupt is outstanding any more.
    assert_eq!(combiner.offer(2, &mut log), 1);
    drop(log);
    assert_eq!(tdt.written(), [1, 2]);
}

#[test]
fn a_frame_offered_while_the_other_party_writes_is_not_forgotten() {
    let (combiner, tdt) = (Combiner::<AtomicU32>::default(), Register::default());
    combiner.offer(1, tdt.write());
    combiner.offer(2, tdt.write());
    let mut log = tdt.write();
    // In the interrupt: 2 is written; meanwhile 3 is offered, and the interrupt for 2 arrives.
    let writes = combiner.interrupted(|tail| {
        log(tail);
        if tail == 2 {
            assert_eq!(combiner.offer(3, |_| panic!("two parties write")), 0);
            assert_eq!(combiner.interrupted(|_| panic!("two parties write")), 0);
        }
    });
    assert_eq!(writes, 2);
    drop(log);
    assert_eq!(tdt.written(), [1, 2, 3]);
}

#[test]
fn a_flush_does_not_wait() {
    let (combiner, tdt) = (Combiner::<AtomicU32>::default(), Register::default());
    assert_eq!(combiner.flush(tdt.write()), 0, "nothing was offered");
    combiner.offer(1, tdt.write());
    combiner.offer(2, tdt.write());
    assert_eq!(combiner.flush(tdt.write()), 1);
    assert_eq!(combiner.flush(tdt.write()), 0, "nothing waits");
    assert_eq!(combiner.offer(3, tdt.write()), 0, "an interrupt is still to come");
    assert_eq!(combiner.interrupted(tdt.write()), 1);
    assert_eq!(tdt.written(), [1, 2, 3]);
    assert_eq!(combiner.written(), 3);
}

#[test]
fn an_interrupt_for_another_reason_writes_nothing() {
    let (combiner, tdt) = (Combiner::<AtomicU32>::default(), Register::default());
    assert_eq!(combiner.interrupted(tdt.write()), 0);
    combiner.offer(1, tdt.write());
    assert_eq!(combiner.interrupted(tdt.write()), 0);
    assert_eq!(combiner.interrupted(tdt.write()), 0);
    assert_eq!(tdt.written(), [1]);
}

/// A rate of one frame in 1000 ticks, and a clock that the test advances.
struct Clocked {
    onset: RateDetector,
    now: u64,
}

impl Clocked {
    /// Sends frames at this interval; returns for each whether it was fast.
    fn frames(&mut self, count: usize, ticks: u64) -> std::vec::Vec<bool> {
        let mut frame = || {
            self.now += ticks;
            self.onset.note(self.now)
        };
        (0..count).map(|_| frame()).collect()
    }
}

fn clocked() -> Clocked {
    // Starts later than time 0.
    Clocked { onset: RateDetector::new(1000), now: 1 << 40 }
}

#[test]
fn frames_at_the_rate_or_below_are_slow_for_ever() {
    for apart in [1000, 1001, 5000, 1 << 30] {
        assert!(!clocked().frames(10_000, apart).contains(&true), "{apart}");
    }
}

#[test]
fn a_few_frames_at_once_are_slow() {
    let mut clocked = clocked();
    for _ in 0..100 {
        assert_eq!(clocked.frames(8, 0), [false; 8]);
        clocked.now += 8000;
    }
}

#[test]
fn frames_above_the_rate_are_fast_once_the_tolerance_is_used_up_and_stay_so() {
    // At half the interval of the rate: each frame after the first gains half a frame.
    let fast = clocked().frames(1000, 500);
    assert_eq!(fast.iter().position(|fast| *fast), Some(15));
    assert!(fast[15..].iter().all(|fast| *fast));
    // A rate slightly above the threshold is enough.
    let fast = clocked().frames(1000, 900);
    assert_eq!(fast.iter().position(|fast| *fast), Some(71));
    assert!(fast[71..].iter().all(|fast| *fast));
}

#[test]
fn a_sender_that_was_fast_is_slow_again_after_a_pause_however_fast_it_was() {
    for many in [20, 100_000] {
        let mut clocked = clocked();
        assert!(clocked.frames(many, 1).last().unwrap());
        clocked.now += 16_000;
        assert_eq!(clocked.frames(1, 0), [false], "{many}");
        // The same if it continues below the rate: a frame in two periods reduces the lead of sixteen by one.
        let mut clocked = self::clocked();
        assert!(clocked.frames(many, 1).last().unwrap());
        let slow = clocked.frames(20, 2000);
        let turn = slow.iter().position(|fast| !fast).unwrap();
        assert!(turn <= 8 && !slow[turn..].contains(&true), "{many}: {slow:?}");
    }
}

#[test]
fn a_clock_that_stands_still_or_ends_harms_nobody() {
    let mut onset = RateDetector::new(u64::MAX / 4);
    assert!(!onset.note(u64::MAX) && !onset.note(0));
    let mut onset = RateDetector::new(0);
    assert!((0..100).all(|_| !onset.note(7)));
}
