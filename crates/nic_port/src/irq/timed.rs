//! Interrupts that may be delayed: for a minimum interval, or by a timer of the device.
//!
//! The thread that serves the transmit side of a NIC keeps the time of its interrupts. While it polls it checks the
//! clock if an interrupt waits, even while its frames have no room at their sink; before it sleeps it sets a timer,
//! which is one of its bells. A thread that delays an interrupt while that thread sleeps sets the timer itself. While
//! no thread serves the transmit side no interrupt is delayed, because none would be sent later.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use anyhow::{Context, Result};
use port::Clock;
use vmm_sys_util::timerfd::TimerFd;

/// Interrupts, and the events that they wait for.
pub trait DelayableInterrupts: Send {
    /// Sends the interrupts that are due at `now` (nanoseconds); returns when to call again at the latest.
    fn settle(&mut self, now: u64) -> Option<u64>;

    /// Sets whether a thread checks when a waiting interrupt is due. While none does, no interrupt may be delayed.
    fn set_timer_served(&mut self, kept: bool, now: u64);

    /// Returns the counters of interrupts.
    fn counts(&self) -> Counts;
}

/// Counters of interrupts, as in `ledger::NicInterrupts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interrupts that were sent.
    pub raised: u64,
    /// Interrupts that the driver had suppressed.
    pub suppressed: u64,
    /// Interrupts that were delayed, and sent together with others.
    pub moderated: u64,
}

/// Operations of the thread that keeps the time.
pub trait InterruptTimer: Send + Sync {
    /// A thread starts to keep the time.
    fn begin(&self);
    /// It stops. If there is no other one, waiting interrupts are sent, and no interrupt is delayed any more.
    fn end(&self);
    /// Sends interrupts that are due; must be called in each pass.
    fn serve(&self);
    /// The thread is about to sleep: from now on the timer rings when an interrupt is due.
    fn arm(&self);
    /// The thread is awake.
    fn disarm(&self);
    /// Returns the descriptor that becomes readable when the timer expires.
    fn bell(&self) -> BorrowedFd<'_>;
    /// Returns the counters of interrupts. Does not wait for a thread that is sending one.
    fn counts(&self) -> Counts;
}

/// Value for "no time".
const NEVER: u64 = u64::MAX;

/// Interrupts with a clock and a timer.
pub struct DelayedInterrupts<W> {
    state: Mutex<State<W>>,
    /// Time when an interrupt is due; written under the lock, read by the polling thread.
    next: AtomicU64,
    counted: Published,
    timer: Mutex<TimerFd>,
    descriptor: i32,
    clock: Clock,
}

/// Counters for threads that read them without the lock, because a thread that sends an interrupt waits for the kernel
/// while it holds the lock. They are written under it.
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
    /// Number of threads that keep the time: one for each source of the NIC's frames.
    keepers: usize,
    /// True if the thread that keeps the time sleeps.
    asleep: bool,
    /// True if the timer is set, or has expired.
    set: bool,
}

impl<W: DelayableInterrupts> DelayedInterrupts<W> {
    /// Creates the state: no interrupt is due, and no thread keeps the time.
    ///
    /// # Errors
    /// No timer can be created.
    pub fn new(interrupts: W) -> Result<Self> {
        Self::by(Clock::default(), interrupts)
    }

    /// Creates interrupts that use this clock. The timer uses the host's clock.
    pub(crate) fn by(clock: Clock, mut interrupts: W) -> Result<Self> {
        let timer = TimerFd::new().context("cannot make a timer (timerfd_create)")?;
        interrupts.set_timer_served(false, clock.now());
        Ok(Self {
            state: Mutex::new(State { interrupts, keepers: 0, asleep: false, set: false }),
            next: AtomicU64::new(NEVER),
            counted: Published::default(),
            descriptor: timer.as_raw_fd(),
            timer: Mutex::new(timer),
            clock,
        })
    }

    /// Calls `act` with the interrupts and the time in nanoseconds, then sends interrupts that are due.
    pub fn with<R>(&self, act: impl FnOnce(&mut W, u64) -> R) -> R {
        self.carry_out(self.lock(), act)
    }

    /// As [`Self::with`], but does nothing if another thread holds the lock; for callers that must not wait.
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

    /// Sets the timer for the next due interrupt, or clears it if none is due or no thread sleeps.
    fn set_timer(&self, state: &mut State<W>, now: u64) {
        let at = if state.asleep { self.next.load(Ordering::Relaxed) } else { NEVER };
        if !std::mem::replace(&mut state.set, at != NEVER) && at == NEVER {
            return;
        }
        let mut timer = self.timer.lock().unwrap_or_else(PoisonError::into_inner);
        // Setting an existing timer cannot fail: errors concern other descriptors and invalid times.
        let _ = match at {
            NEVER => timer.clear(),
            // Zero would disarm the timer.
            _ => timer.reset(Duration::from_nanos(at.saturating_sub(now).max(1)), None),
        };
    }
}

impl<W: DelayableInterrupts> InterruptTimer for DelayedInterrupts<W> {
    fn begin(&self) {
        let mut state = self.lock();
        state.keepers += 1;
        if state.keepers == 1 {
            let now = self.now();
            state.interrupts.set_timer_served(true, now);
        }
    }

    fn end(&self) {
        let mut state = self.lock();
        state.keepers = state.keepers.saturating_sub(1);
        if state.keepers == 0 {
            let now = self.now();
            state.asleep = false;
            state.interrupts.set_timer_served(false, now);
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
