//! Timekeeping thread: alarms of sleeping vCPUs, ageing of switches. It blocks on nothing but its next tick.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::Result;
use sandbox::{Class, Confinement};
use switch::Switch;
use threads::Thread;
use vmm::Machine;

/// Interval between two ticks. Ten ticks a second cost an idle host next to nothing.
const TICK: Duration = Duration::from_millis(100);

/// A running clock.
pub struct Clock {
    thread: Thread,
    /// The current machines and switches. A tick works on a snapshot, so that an update never waits for a
    /// tick.
    timed: Arc<Mutex<Arc<Timed>>>,
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
}

/// Receivers of ticks.
#[derive(Default)]
pub(crate) struct Timed {
    /// Weak, so that the thread that takes a machine down frees its memory, and neither the clock nor the
    /// thread that updates this list does.
    pub(crate) machines: Vec<Weak<Machine>>,
    pub(crate) switches: Vec<Arc<Switch>>,
}

impl Timed {
    fn tick(&self, now: Duration, since_last: Duration) {
        let machines = self.machines.iter().filter_map(Weak::upgrade);
        machines.for_each(|machine| machine.tick(since_last.as_millis() as u32));
        self.switches.iter().for_each(|switch| switch.tick(now.as_secs() as u32));
    }
}

impl Clock {
    /// Starts the clock, which runs until it is dropped.
    pub(crate) fn start(timed: Timed, confinement: Confinement) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let timed = Arc::new(Mutex::new(Arc::new(timed)));
        let kept = timed.clone();
        let thread = Thread::spawn("ringroad/clock", &[], Class::Clock, confinement, move || {
            let start = Instant::now();
            let mut ticked = Duration::ZERO;
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let now = start.elapsed();
                let timed = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
                timed.tick(now, now - ticked);
                ticked = now;
            }
        })?;
        Ok(Self { thread, timed, stop: Some(stop) })
    }

    /// Replaces the set of machines and switches that are ticked.
    pub(crate) fn keep(&self, timed: Timed) {
        let mut kept = self.timed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *kept, Arc::new(timed));
        drop(kept);
        // Dropped after the lock is released: the clock's tick is not delayed by what is freed here.
        drop(before);
    }

    /// Returns its thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop = None;
        self.thread.join();
    }
}

#[cfg(test)]
mod tests;
