//! "Interrupt Moderation": ITR, RDTR, RADV, TIDV, TADV on a simulated clock.

use super::*;
use crate::e1000::cause;

/// Unit of the delay timers in nanoseconds.
const UNIT: u64 = 1024;

impl Slot {
    fn at(&mut self, now: u64) -> Line {
        self.now = now;
        self.line()
    }

    fn arrive(&mut self, now: u64) -> Line {
        self.interrupts.raise(cause::RXT0, 1, now);
        self.at(now)
    }
}

const UP: Line = Line { asserted: true, next: None };

const fn down(next: u64) -> Line {
    Line { asserted: false, next: Some(next) }
}

fn enabled() -> Slot {
    let mut slot = Slot::new();
    slot.write(r::IMS, cause::ALL);
    slot.now = 0;
    slot
}

#[test]
fn itr_is_the_least_time_from_rise_to_rise() {
    let mut slot = enabled();
    slot.write(r::ITR, 100);
    assert_eq!(slot.read(r::ITR), 100);
    assert_eq!(slot.arrive(1_000), UP, "the first is not held back");
    slot.now = 3_000;
    slot.read(r::ICR);
    assert_eq!(slot.line(), Line::default());
    assert_eq!(slot.arrive(5_000), down(26_000), "25 µs after it rose, not after it fell");
    assert_eq!(slot.at(25_999), down(26_000));
    assert_eq!(slot.at(26_000), UP);
}

#[test]
fn a_cause_that_waits_for_itr_is_in_icr_and_goes_with_an_earlier_look() {
    let mut slot = enabled();
    slot.write(r::ITR, 100);
    slot.arrive(0);
    slot.read(r::ICR);
    slot.arrive(1_000);
    assert_eq!(slot.read(r::ICR), cause::RXT0);
    assert_eq!(slot.at(30_000), Line::default());
    assert_eq!(slot.interrupts.counts().raised, 1);
}

#[test]
fn itr_holds_for_every_cause_and_for_ims() {
    let mut slot = enabled();
    slot.write(r::ITR, 4);
    slot.write(r::ICS, cause::LSC);
    assert_eq!(slot.at(0), UP);
    slot.write(r::IMC, u32::MAX);
    assert_eq!(slot.at(100), Line::default());
    slot.write(r::IMS, cause::LSC);
    assert_eq!(slot.at(200), down(1_000));
    slot.write(r::ITR, 0);
    assert_eq!(slot.at(201), UP, "no throttle, no wait");
}

#[test]
fn frames_wait_for_rdtr_after_the_last() {
    let mut slot = enabled();
    slot.write(r::RDTR, 10);
    assert_eq!(slot.read(r::RDTR), 10);
    assert_eq!(slot.arrive(0), down(10 * UNIT));
    assert_eq!(slot.arrive(5_000), down(5_000 + 10 * UNIT), "starts anew with each");
    assert_eq!(slot.read(r::ICR), 0, "not a cause yet");
    assert_eq!(slot.at(5_000 + 10 * UNIT), UP);
    assert_eq!(slot.read(r::ICR), cause::RXT0);
    assert_eq!(slot.at(100_000), Line::default(), "once");
}

#[test]
fn radv_bounds_the_wait_of_the_first() {
    let mut slot = enabled();
    slot.write(r::RDTR, 10);
    slot.write(r::RADV, 25);
    assert_eq!(slot.read(r::RADV), 25);
    for now in [0, 8_000, 16_000] {
        assert_eq!(slot.arrive(now), down((now + 10 * UNIT).min(25 * UNIT)));
    }
    assert_eq!(slot.arrive(24_000), down(25 * UNIT));
    assert_eq!(slot.at(25 * UNIT), UP);
    slot.read(r::ICR);
    assert_eq!(slot.arrive(100_000), down(100_000 + 10 * UNIT), "a new first");
}

#[test]
fn radv_alone_delays_nothing() {
    let mut slot = enabled();
    slot.write(r::RADV, 25);
    assert_eq!(slot.arrive(0), UP);
}

#[test]
fn other_causes_do_not_wait_for_rdtr() {
    let mut slot = enabled();
    slot.write(r::RDTR, 100);
    slot.interrupts.raise(cause::RXT0 | cause::RXDMT0, 1, 0);
    assert_eq!(slot.at(0), UP);
    assert_eq!(slot.read(r::ICR), cause::RXDMT0);
    assert_eq!(slot.line(), down(100 * UNIT), "the frame waits on");
}

#[test]
fn flushing_ends_the_wait() {
    let mut slot = enabled();
    slot.write(r::RDTR, 100);
    slot.write(r::RADV, 200);
    slot.arrive(0);
    slot.write(r::RDTR, r::FLUSH | 50);
    assert_eq!(slot.line(), UP);
    assert_eq!((slot.read(r::RDTR), slot.read(r::ICR)), (50, cause::RXT0));
    slot.write(r::RDTR, r::FLUSH | 50);
    assert_eq!(slot.line(), Line::default(), "nothing waits");
}

#[test]
fn only_descriptors_with_ide_wait_for_tidv_and_at_most_tadv() {
    let mut slot = enabled();
    slot.write(r::TIDV, 8);
    slot.write(r::TADV, 12);
    assert_eq!((slot.read(r::TIDV), slot.read(r::TADV)), (8, 12));
    slot.interrupts.raise(cause::TXDW_DELAYED, 0, 0);
    assert_eq!(slot.at(0), down(8 * UNIT));
    slot.interrupts.raise(cause::TXDW_DELAYED, 0, 6_000);
    assert_eq!(slot.at(6_000), down(12 * UNIT));
    assert_eq!(slot.at(12 * UNIT), UP);
    assert_eq!(slot.read(r::ICR), cause::TXDW);
    slot.interrupts.raise(cause::TXDW, 0, 20_000);
    assert_eq!(slot.at(20_000), UP, "without IDE");
    slot.read(r::ICR);
    slot.write(r::TIDV, 0);
    slot.interrupts.raise(cause::TXDW_DELAYED, 0, 30_000);
    assert_eq!(slot.at(30_000), UP, "no delay set");
    slot.read(r::ICR);
    slot.write(r::TIDV, 8);
    slot.interrupts.raise(cause::TXDW_DELAYED, 0, 40_000);
    slot.write(r::TIDV, r::FLUSH | 8);
    assert_eq!(slot.at(40_000), UP, "flushed");
}

#[test]
fn both_timers_and_itr_work_together() {
    let mut slot = enabled();
    slot.write(r::ITR, 200);
    slot.write(r::RDTR, 1);
    slot.write(r::TIDV, 2);
    slot.interrupts.raise(cause::LSC, 0, 0);
    slot.read(r::ICR);
    slot.interrupts.raise(cause::RXT0 | cause::TXDW_DELAYED, 1, 0);
    assert_eq!(slot.at(0), down(UNIT));
    assert_eq!(slot.at(UNIT), down(2 * UNIT), "ready, but throttled; the other timer runs");
    assert_eq!(slot.at(2 * UNIT), down(50_000));
    assert_eq!(slot.at(50_000), UP);
    assert_eq!(slot.read(r::ICR), cause::RXT0 | cause::TXDW);
}

#[test]
fn a_timer_of_a_disabled_cause_wakes_nobody_but_its_cause_is_read() {
    let mut slot = enabled();
    slot.write(r::RDTR, 10);
    slot.write(r::IMC, cause::RXT0);
    assert_eq!(slot.arrive(0), Line::default());
    slot.now = 20_000;
    assert_eq!(slot.read(r::ICR), cause::RXT0);
}

#[test]
fn the_host_s_moderation_adds_to_the_driver_s() {
    for (host, itr, due) in [(40, 0, 10_000), (40, 100, 25_000), (100, 40, 25_000)] {
        let mut slot = Slot::with(&moderated(Moderation::Every(host)));
        slot.write(r::IMS, cause::ALL);
        slot.write(r::ITR, itr);
        assert_eq!(slot.arrive(0), UP);
        slot.now = 100;
        slot.read(r::ICR);
        assert_eq!(slot.arrive(200), down(due), "{host} {itr}");
    }
}

#[test]
fn a_reset_keeps_the_host_s_moderation() {
    let mut slot = Slot::with(&moderated(Moderation::Every(100)));
    slot.write(r::CTRL, ctrl::RST);
    slot.write(r::IMS, cause::ALL);
    assert_eq!(slot.arrive(0), UP);
    slot.read(r::ICR);
    assert_eq!(slot.arrive(1), down(25_000));
}

/// A guest that sends requests and waits for replies: one interrupt a transaction, none of them delayed.
#[test]
fn adaptive_moderation_delays_no_answer_and_saves_the_interrupt_for_the_question() {
    let mut slot = Slot::with(&moderated(Moderation::Adaptive));
    slot.write(r::IMS, cause::ALL);
    let mut now = 1_000_000;
    for n in 0..1_000_u64 {
        slot.interrupts.raise(cause::TXDW | cause::TXQE, 0, now);
        assert!(!slot.at(now).asserted, "that the question was sent can wait");
        now += 25_000 + n % 7 * 500;
        assert!(slot.arrive(now).asserted, "the answer cannot");
        now += 2_000;
        slot.now = now;
        assert_eq!(slot.read(r::ICR), cause::TXDW | cause::TXQE | cause::RXT0);
        assert!(!slot.asserted());
        now += 3_000;
    }
    assert_eq!(slot.interrupts.counts().raised, 1_000);
}

/// A guest that sends requests and waits, with ITR as in seed paper 001: each reply waits because of the interrupt for
/// the request.
#[test]
fn itr_delays_answers_by_up_to_its_interval() {
    let mut slot = enabled();
    slot.write(r::ITR, 100);
    let mut now = 1_000_000;
    let mut waited = 0;
    for _ in 0..100 {
        slot.interrupts.raise(cause::TXDW, 0, now);
        assert!(slot.at(now).asserted);
        slot.read(r::ICR);
        now += 10_000;
        let line = slot.arrive(now);
        let due = line.next.expect("held back");
        waited += due - now;
        now = due;
        assert!(slot.at(now).asserted);
        slot.read(r::ICR);
        now += 30_000;
    }
    assert_eq!(waited, 100 * 15_000);
}

#[test]
fn nothing_waits_while_nobody_looks_at_the_time() {
    let mut slot = enabled();
    slot.write(r::ITR, 100);
    slot.arrive(1_000);
    slot.read(r::ICR);
    assert_eq!(slot.arrive(2_000), down(26_000));
    slot.interrupts.set_timer_served(false, 3_000);
    assert_eq!(slot.at(3_000), UP, "what waited for ITR");
    slot.read(r::ICR);
    assert_eq!(slot.arrive(4_000), UP, "ITR holds nothing back");
    slot.read(r::ICR);
    slot.interrupts.set_timer_served(true, 5_000);
    assert_eq!(slot.arrive(6_000), down(29_000), "and does again");
    assert_eq!((slot.interrupts.counts().raised, slot.interrupts.counts().moderated), (3, 2));
}

#[test]
fn no_delay_timer_runs_while_nobody_looks_at_the_time() {
    let mut slot = enabled();
    slot.write(r::RDTR, 10);
    assert_eq!(slot.arrive(0), down(10 * UNIT));
    slot.interrupts.set_timer_served(false, 1_000);
    assert_eq!(slot.at(1_000), UP, "what waited for the timer");
    slot.read(r::ICR);
    assert_eq!(slot.arrive(2_000), UP, "none is started");
    slot.read(r::ICR);
    slot.interrupts.raise(cause::TXDW_DELAYED, 0, 3_000);
    assert_eq!(slot.at(3_000), UP);
    // As at power-on, except that still no thread keeps the time.
    slot.write(r::CTRL, 1 << 26);
    slot.write(r::IMS, cause::ALL);
    slot.read(r::ICR);
    slot.write(r::RDTR, 10);
    let at = slot.now + 1_000;
    assert_eq!(slot.arrive(at), UP);
}
