//! One party at a time; for two see `tests/combine_loom.rs`.

use core::cell::RefCell;

use super::*;

/// A register that remembers what was written to it.
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
    // The interrupt for those: nothing waits, and the next frame goes at once again.
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
        // A device that sends within the access interrupts before it is over.
        assert_eq!(combiner.interrupted(|_| panic!("two parties write")), 0);
    });
    assert_eq!(first, 1);
    // No interrupt is to come any more.
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
    // In the interrupt: 2 is written; meanwhile 3 is offered, and the interrupt for 2 comes.
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
