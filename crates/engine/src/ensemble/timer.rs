//! The thread that runs the rounds of a group, and sends requests to the network for its members. It waits for the next round, or until its
//! bell rings: the plan has changed, or a member that starts or wakes has shown that it forwards.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use sandbox::{Class, Confinement};
use threads::{CpuMeter, Thread};

use super::Core;

/// Interval of checks while there is no member.
const IDLE: Duration = Duration::from_millis(10);

/// Bell of a timer: rung to wake the timer before the next round is due.
#[derive(Default)]
pub(super) struct Bell {
    ring: Mutex<Ring>,
    rung: Condvar,
}

/// Reason for waking a timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ring {
    /// None.
    #[default]
    Silent,
    /// The bell has rung.
    Rung,
    /// It is to stop.
    Stop,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings it. Its lock is only held for moments.
    pub(super) fn ring(&self) {
        let mut ring = self.lock();
        if *ring == Ring::Silent {
            *ring = Ring::Rung;
            self.rung.notify_one();
        }
    }

    fn stop(&self) {
        *self.lock() = Ring::Stop;
        self.rung.notify_one();
    }

    /// Waits until it rings, at most for this long. Returns false if the timer is to stop.
    fn wait(&self, most: Duration) -> bool {
        let is_silent = |ring: &mut Ring| *ring == Ring::Silent;
        let waited = self.rung.wait_timeout_while(self.lock(), most, is_silent);
        let (mut ring, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *ring == Ring::Rung {
            *ring = Ring::Silent;
        }
        *ring != Ring::Stop
    }

    /// Returns true if it has rung since the last call.
    #[cfg(test)]
    pub(super) fn has_rung(&self) -> bool {
        std::mem::take(&mut *self.lock()) == Ring::Rung
    }
}

/// A running timer.
pub(super) struct Timer {
    thread: Thread,
    core: Arc<Core>,
}

impl Timer {
    /// Starts a thread that runs rounds until this is dropped.
    pub(super) fn start(core: &Arc<Core>, confinement: Confinement) -> Result<Self> {
        let kept = core.clone();
        let name = format!("{}/group", core.name);
        let thread = Thread::spawn(&name, &[], Class::Vhost, confinement, move || {
            let mut wait = Duration::ZERO;
            while kept.bell.wait(wait) {
                let due = kept.round(kept.now());
                wait = due.map_or(IDLE, |due| due.saturating_sub(kept.now()));
            }
        })?;
        Ok(Self { thread, core: core.clone() })
    }

    /// Returns its thread.
    pub(super) const fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Returns the meter of its thread's CPU time.
    pub(super) fn meter(&self) -> Arc<CpuMeter> {
        self.thread.meter()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.core.bell.stop();
        self.thread.join();
    }
}
