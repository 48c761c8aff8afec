//! Interrupts that a thread holds back while it has work, because it shares a CPU with the vCPU that they wake.
//!
//! A vCPU that is woken preempts the thread that has just handed it a burst, and gives the CPU back a burst later: two
//! context switches, a VM entry and an exit for each burst. (Seed paper 000, section 3.2: of all priorities of the two
//! threads on one core, the best are those by which neither preempts the other.) So the thread continues until it has
//! no work left, or until the first interrupt has waited for [`LONGEST`], and then sends them. The higher the load, the
//! more frames share an interrupt; under light load a single frame's interrupt is sent at once.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{DelayedInterrupts, Intx, Line};

/// Maximum time to hold an interrupt back; about as long as it takes to fill a ring of 1024 from a TAP.
pub const LONGEST: Duration = Duration::from_millis(1);

/// Interrupts held back by one thread.
#[derive(Default)]
struct Held {
    /// True if the thread holds interrupts back.
    holds: bool,
    lines: Vec<Arc<dyn Line>>,
    /// Devices with a pin, the causes of their interrupts, and how many frames they report.
    pins: Vec<(Arc<DelayedInterrupts<Intx>>, u32, u32)>,
    /// Time of the first of them.
    since: Option<Instant>,
}

thread_local! {
    static HELD: RefCell<Held> = RefCell::default();
}

/// Sets whether the calling thread holds its interrupts back; if not, sends those that wait. A thread that holds them
/// back calls [`release`] whenever it has no work, [`release_late`] while it has, and this function with false before
/// it ends.
pub fn hold(holds: bool) {
    HELD.with_borrow_mut(|held| held.holds = holds);
    if !holds {
        release();
    }
}

/// Sends the interrupts that the calling thread holds back.
pub fn release() {
    HELD.with_borrow_mut(|held| {
        held.since = None;
        held.lines.drain(..).for_each(|line| line.signal());
        held.pins.drain(..).for_each(|(intx, causes, frames)| raise(&intx, causes, frames));
    });
}

/// Sends the interrupts that the calling thread holds back, if the first has waited for [`LONGEST`].
#[inline]
pub fn release_late() {
    let is_late = |held: &Held| held.since.is_some_and(|since| since.elapsed() >= LONGEST);
    if HELD.with_borrow(is_late) {
        release();
    }
}

/// Interrupts by this line: at once, or later together with the others that the calling thread holds back.
pub(crate) fn signal(line: &Arc<dyn Line>) {
    if !HELD.with_borrow_mut(|held| held.keep(line)) {
        line.signal();
    }
}

/// Interrupts by the device's pin for these causes, reporting `frames` frames: at once or later, as [`signal`].
pub(crate) fn signal_pin(intx: &Arc<DelayedInterrupts<Intx>>, causes: u32, frames: u32) {
    if !HELD.with_borrow_mut(|held| held.keep_pin(intx, causes, frames)) {
        raise(intx, causes, frames);
    }
}

fn raise(intx: &DelayedInterrupts<Intx>, causes: u32, frames: u32) {
    intx.with(|intx, now| intx.interrupts.raise(causes, frames, now));
}

impl Held {
    /// Records an interrupt; returns false if it must not be held back.
    fn keep(&mut self, line: &Arc<dyn Line>) -> bool {
        if self.holds {
            self.since.get_or_insert_with(Instant::now);
            if !self.lines.iter().any(|other| Arc::ptr_eq(other, line)) {
                self.lines.push(line.clone());
            }
        }
        self.holds
    }

    fn keep_pin(&mut self, intx: &Arc<DelayedInterrupts<Intx>>, causes: u32, frames: u32) -> bool {
        if self.holds {
            self.since.get_or_insert_with(Instant::now);
            match self.pins.iter_mut().find(|(other, ..)| Arc::ptr_eq(other, intx)) {
                Some((_, all, sum)) => (*all, *sum) = (*all | causes, sum.saturating_add(frames)),
                None => self.pins.push((intx.clone(), causes, frames)),
            }
        }
        self.holds
    }
}

#[cfg(test)]
mod tests {
    use nic::e1000::Interrupts;
    use nic::moderation::Moderation;

    use super::super::counted::line;
    use super::super::{DelayableInterrupts, Pin};
    use super::*;

    #[test]
    fn who_does_not_hold_back_sends_at_once() {
        let (line, sent) = line();
        (0..3).for_each(|_| signal(&line));
        assert_eq!(sent.take(), 3);
        release();
        assert_eq!(sent.take(), 0);
    }

    #[test]
    fn what_is_held_back_is_sent_once_when_there_is_nothing_to_do() {
        let lines = [line(), line()];
        let sent = || lines.each_ref().map(|(_, sent)| sent.take());
        hold(true);
        (0..3).for_each(|_| lines.iter().for_each(|(line, _)| signal(line)));
        release_late();
        assert_eq!(sent(), [0, 0]);
        release();
        assert_eq!(sent(), [1, 1]);
        release();
        assert_eq!(sent(), [0, 0]);
        hold(false);
    }

    #[test]
    fn it_waits_no_longer_than_it_may() {
        let (line, sent) = line();
        hold(true);
        signal(&line);
        std::thread::sleep(LONGEST);
        signal(&line);
        release_late();
        assert_eq!(sent.take(), 1);
        signal(&line);
        release_late();
        assert_eq!(sent.take(), 0, "its time begins anew");
        hold(false);
        assert_eq!(sent.take(), 1, "nothing is left behind");
    }

    /// A pin that is not connected.
    struct Loose;

    impl Pin for Loose {
        fn set(&self, _: bool) {}
    }

    #[test]
    fn a_pin_is_raised_once_for_all_its_causes() {
        let intx = Intx::new(Interrupts::new(Moderation::Off), Arc::new(Loose));
        let intx = Arc::new(DelayedInterrupts::new(intx).expect("a timer"));
        // No cause is enabled, so each is counted as suppressed.
        let raised = || intx.with(|intx, _| intx.counts().suppressed);
        hold(true);
        (0..3).for_each(|cause| signal_pin(&intx, 1 << cause, 1));
        assert_eq!(raised(), 0);
        release();
        assert_eq!(raised(), 1);
        hold(false);
        (0..3).for_each(|cause| signal_pin(&intx, 1 << cause, 1));
        assert_eq!(raised(), 4);
    }

    #[test]
    fn another_thread_holds_nothing_back() {
        let (line, sent) = line();
        hold(true);
        std::thread::scope(|scope| scope.spawn(|| signal(&line)).join().expect("no panic"));
        assert_eq!(sent.take(), 1);
        hold(false);
    }
}
