use std::sync::Arc;
use std::thread;

use port::ClockHandle;

use super::*;

/// An interrupt that is due at a time, and the number of times it was sent.
#[derive(Default)]
struct Fake {
    due: Option<u64>,
    sent: u64,
    /// True if a thread keeps the time.
    kept: bool,
}

impl DelayableInterrupts for Fake {
    fn settle(&mut self, now: u64) -> Option<u64> {
        if self.due.is_some_and(|due| now >= due || !self.kept) {
            self.due = None;
            self.sent += 1;
        }
        self.due
    }

    fn set_timer_served(&mut self, kept: bool, _: u64) {
        self.kept = kept;
    }

    fn counts(&self) -> Counts {
        Counts { raised: self.sent, ..Counts::default() }
    }
}

const SHORT: u64 = 2_000_000;

fn timed() -> DelayedInterrupts<Fake> {
    let timed = DelayedInterrupts::new(Fake::default()).expect("a timer");
    timed.begin();
    timed
}

/// Creates one with a simulated clock.
fn moved() -> (DelayedInterrupts<Fake>, ClockHandle) {
    let (clock, hand) = Clock::by_hand();
    let timed = DelayedInterrupts::by(clock, Fake::default()).expect("a timer");
    timed.begin();
    (timed, hand)
}

/// Returns true if the timer is set.
fn is_set(timed: &DelayedInterrupts<Fake>) -> bool {
    timed.lock().set
}

fn rings(timed: &DelayedInterrupts<Fake>, ms: i32) -> bool {
    let mut bell = libc::pollfd { fd: timed.bell().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry with an open descriptor.
    unsafe { libc::poll(&raw mut bell, 1, ms) == 1 }
}

#[test]
fn who_polls_sends_what_is_due_and_not_earlier() {
    let (timed, hand) = moved();
    timed.with(|fake, now| fake.due = Some(now + SHORT));
    hand.advance(Duration::from_nanos(SHORT - 1));
    timed.serve();
    assert_eq!(timed.counts().raised, 0);
    hand.advance(Duration::from_nanos(1));
    timed.serve();
    assert_eq!(timed.counts().raised, 1);
    assert!(!rings(&timed, 0), "nobody sleeps");
}

#[test]
fn who_sleeps_is_rung_for_what_waited_before() {
    let timed = timed();
    timed.with(|fake, now| fake.due = Some(now + SHORT));
    timed.arm();
    assert!(rings(&timed, 60_000));
    timed.disarm();
    assert!(!rings(&timed, 0), "it is silent again");
    timed.serve();
    assert_eq!(timed.counts().raised, 1);
}

#[test]
fn who_sleeps_is_rung_for_what_comes_while_he_sleeps() {
    let timed = Arc::new(timed());
    timed.arm();
    let other = timed.clone();
    thread::spawn(move || other.with(|fake, now| fake.due = Some(now + SHORT))).join().expect("no panic");
    assert!(rings(&timed, 60_000));
    // An interrupt sent in between need not ring the timer.
    timed.with(|fake, now| fake.due = Some(now + SHORT));
    timed.with(|fake, _| fake.due = None);
    assert!(!is_set(&timed));
}

#[test]
fn what_is_due_when_the_thread_falls_asleep_is_sent_at_once() {
    let (timed, hand) = moved();
    timed.with(|fake, now| fake.due = Some(now + 1000));
    hand.advance(Duration::from_micros(1));
    timed.arm();
    assert_eq!(timed.counts().raised, 1);
    assert!(!is_set(&timed));
}

#[test]
fn what_waits_is_sent_when_the_last_one_who_keeps_the_time_goes() {
    let (timed, _hand) = moved();
    let wait = || timed.with(|fake, now| fake.due = Some(now + SHORT));
    timed.begin();
    timed.arm();
    wait();
    timed.end();
    assert_eq!((timed.counts().raised, is_set(&timed)), (0, true), "there is another one, who may sleep");
    timed.end();
    assert_eq!((timed.counts().raised, is_set(&timed)), (1, false));
    wait();
    assert_eq!(timed.counts().raised, 2, "nobody would send it");
    timed.begin();
    wait();
    assert_eq!(timed.counts().raised, 2);
}

#[test]
fn at_first_nobody_keeps_the_time() {
    let timed = DelayedInterrupts::new(Fake { kept: true, ..Fake::default() }).expect("a timer");
    timed.with(|fake, now| fake.due = Some(now + SHORT));
    assert_eq!(timed.counts().raised, 1);
}

/// The sending thread may have to wait for the kernel, or for a CPU.
#[test]
fn counts_are_told_while_an_interrupt_is_being_sent() {
    let (timed, _) = moved();
    timed.with(|fake, now| fake.due = Some(now));
    thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let sending = timed.lock();
        let timed = &timed;
        scope.spawn(move || tell.send(timed.counts().raised));
        let raised = told.recv_timeout(Duration::from_secs(60));
        drop(sending);
        assert_eq!(raised, Ok(1));
    });
}
