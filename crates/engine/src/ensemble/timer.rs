//! The thread that keeps the rounds of a group, and asks the network for its members. It waits for nothing but the next round.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use anyhow::Result;
use sandbox::{Class, Confinement};
use threads::{CpuMeter, Thread};

use super::Core;

/// Between two looks while there is no member.
const IDLE: Duration = Duration::from_millis(10);

/// A running timer.
pub(super) struct Timer {
    thread: Thread,
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
}

impl Timer {
    /// Keeps rounds until it is dropped.
    pub(super) fn start(core: &Arc<Core>, confinement: Confinement) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let core = core.clone();
        let name = format!("{}/group", core.name);
        let thread = Thread::spawn(&name, &[], Class::Vhost, confinement, move || {
            let mut wait = Duration::ZERO;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let due = core.round(core.now());
                wait = due.map_or(IDLE, |due| due.saturating_sub(core.now()));
            }
        })?;
        Ok(Self { thread, stop: Some(stop) })
    }

    /// Its thread.
    pub(super) const fn thread(&self) -> &Thread {
        &self.thread
    }

    /// What its thread has spent.
    pub(super) fn meter(&self) -> Arc<CpuMeter> {
        self.thread.meter()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop = None;
        self.thread.join();
    }
}
