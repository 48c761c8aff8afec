//! Interrupts that may have to wait: for a least distance, or for a timer of the device.
//!
//! The thread that serves the transmit side of a NIC keeps the time of its interrupts. While the thread polls it looks at the
//! clock if something waits, also while its frames have no room where they go; before it sleeps it sets a timer, which is
//! one of its bells. Who makes an interrupt wait while that thread sleeps sets the timer itself. While nobody serves that
//! side nothing waits, because nobody would send it.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use anyhow::{Context, Result};
use port::Clock;
use vmm_sys_util::timerfd::TimerFd;

/// Interrupts, and what they wait for.
pub trait Waiting: Send {
    /// Sends what is due at `now` (nanoseconds); returns when to call again at the latest.
    fn settle(&mut self, now: u64) -> Option<u64>;

    /// Whether somebody looks when the time of what waits has come. While nobody does, nothing is to wait.
    fn keep_time(&mut self, kept: bool, now: u64);

    /// How often what happened to them.
    fn counts(&self) -> Counts;
}

/// How often what happened to interrupts, as `ledger::NicInterrupts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interrupts that were sent.
    pub raised: u64,
    /// Those that the driver had not asked for.
    pub suppressed: u64,
    /// Those that had to wait, and went with others.
    pub moderated: u64,
}

/// What the thread that keeps the time does.
pub trait Timekeeping: Send + Sync {
    /// Somebody keeps the time from now on.
    fn begin(&self);
    /// He does so no longer. If there is nobody else, what waits is sent, and nothing is put off any more.
    fn end(&self);
    /// Sends what is due; to be called in each pass.
    fn serve(&self);
    /// The thread is about to sleep: from now on the timer rings when something is due.
    fn arm(&self);
    /// The thread is awake.
    fn disarm(&self);
    /// What rings.
    fn bell(&self) -> BorrowedFd<'_>;
    /// How often what happened to the interrupts. It waits for nobody who sends one.
    fn counts(&self) -> Counts;
}

/// No time at all.
const NEVER: u64 = u64::MAX;

/// Interrupts with a clock and a timer.
pub struct Timed<W> {
    state: Mutex<State<W>>,
    /// When something is due; written under the lock, looked at by who polls.
    next: AtomicU64,
    counted: Published,
    timer: Mutex<TimerFd>,
    descriptor: i32,
    clock: Clock,
}

/// Counts for who reads them without the lock, under which whoever sends an interrupt waits for the kernel. They are written
/// under it.
#[derive(Default)]
struct Published {
    raised: AtomicU64,
    suppressed: AtomicU64,
    moderated: AtomicU64,
}

impl Published {
    fn write(&self, counts: Counts) {
        self.raised.store(counts.raised, Ordering::Relaxed);
        self.suppressed.store(counts.suppressed, Ordering::Relaxed);
        self.moderated.store(counts.moderated, Ordering::Relaxed);
    }

    fn read(&self) -> Counts {
        Counts {
            raised: self.raised.load(Ordering::Relaxed),
            suppressed: self.suppressed.load(Ordering::Relaxed),
            moderated: self.moderated.load(Ordering::Relaxed),
        }
    }
}

struct State<W> {
    interrupts: W,
    /// How many keep the time: sources of the NIC's frames that there are.
    keepers: usize,
    /// Whether the thread that keeps the time sleeps.
    asleep: bool,
    /// Whether the timer is set, or has rung.
    set: bool,
}

impl<W: Waiting> Timed<W> {
    /// Nothing is due, and nobody keeps the time.
    ///
    /// # Errors
    /// No timer can be had.
    pub fn new(interrupts: W) -> Result<Self> {
        Self::by(Clock::default(), interrupts)
    }

    /// Interrupts that go by this clock. The timer goes by the host's.
    pub(crate) fn by(clock: Clock, mut interrupts: W) -> Result<Self> {
        let timer = TimerFd::new().context("cannot make a timer (timerfd_create)")?;
        interrupts.keep_time(false, clock.now());
        Ok(Self {
            state: Mutex::new(State { interrupts, keepers: 0, asleep: false, set: false }),
            next: AtomicU64::new(NEVER),
            counted: Published::default(),
            descriptor: timer.as_raw_fd(),
            timer: Mutex::new(timer),
            clock,
        })
    }

    /// Does something to the interrupts, at a time in nanoseconds, then sends what is due.
    pub fn with<R>(&self, act: impl FnOnce(&mut W, u64) -> R) -> R {
        self.carry_out(self.lock(), act)
    }

    /// Does so unless somebody else does something to them at the moment; for who must not wait.
    pub fn try_with<R>(&self, act: impl FnOnce(&mut W, u64) -> R) -> Option<R> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.carry_out(state, act))
    }

    fn carry_out<R>(&self, mut state: MutexGuard<'_, State<W>>, act: impl FnOnce(&mut W, u64) -> R) -> R {
        let now = self.now();
        let result = act(&mut state.interrupts, now);
        self.settle(&mut state, now);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn settle(&self, state: &mut State<W>, now: u64) {
        let next = state.interrupts.settle(now).unwrap_or(NEVER);
        self.counted.write(state.interrupts.counts());
        if self.next.swap(next, Ordering::Relaxed) != next && state.asleep {
            self.set_timer(state, now);
        }
    }

    /// Lets the timer ring when something is due, or not at all if nothing is or nobody sleeps.
    fn set_timer(&self, state: &mut State<W>, now: u64) {
        let at = if state.asleep { self.next.load(Ordering::Relaxed) } else { NEVER };
        if !std::mem::replace(&mut state.set, at != NEVER) && at == NEVER {
            return;
        }
        let mut timer = self.timer.lock().unwrap_or_else(PoisonError::into_inner);
        // A timer that is there can be set: errors are for what is none, and times that are none.
        let _ = match at {
            NEVER => timer.clear(),
            // Zero would take it back.
            _ => timer.reset(Duration::from_nanos(at.saturating_sub(now).max(1)), None),
        };
    }
}

impl<W: Waiting> Timekeeping for Timed<W> {
    fn begin(&self) {
        let mut state = self.lock();
        state.keepers += 1;
        if state.keepers == 1 {
            let now = self.now();
            state.interrupts.keep_time(true, now);
        }
    }

    fn end(&self) {
        let mut state = self.lock();
        state.keepers = state.keepers.saturating_sub(1);
        if state.keepers == 0 {
            let now = self.now();
            state.asleep = false;
            state.interrupts.keep_time(false, now);
            self.settle(&mut state, now);
            self.set_timer(&mut state, now);
        }
    }

    #[inline]
    fn serve(&self) {
        let next = self.next.load(Ordering::Relaxed);
        if next != NEVER && self.now() >= next {
            self.with(|_, _| ());
        }
    }

    fn arm(&self) {
        let mut state = self.lock();
        let now = self.now();
        state.asleep = true;
        self.settle(&mut state, now);
        self.set_timer(&mut state, now);
    }

    fn disarm(&self) {
        let mut state = self.lock();
        if std::mem::take(&mut state.asleep) {
            self.set_timer(&mut state, 0);
        }
    }

    fn bell(&self) -> BorrowedFd<'_> {
        // SAFETY: the timer is open for as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }

    fn counts(&self) -> Counts {
        self.counted.read()
    }
}

#[cfg(test)]
mod tests;
