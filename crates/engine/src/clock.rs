//! The thread that keeps time: alarms of sleeping vCPUs, ageing of switches.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::Result;
use switch::Switch;
use vmm::Vm;

use crate::thread::Thread;

/// Between two ticks. Ten a second cost an idle host about 0.01 % of a core.
const TICK: Duration = Duration::from_millis(100);

/// A running clock.
pub struct Clock {
    thread: Thread,
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
}

impl Clock {
    /// Keeps time for these machines and switches until it is dropped.
    pub fn start(vms: Vec<Arc<Vm>>, switches: Vec<Arc<Switch>>) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = Thread::spawn("ringroad/clock", &[], move || {
            let start = Instant::now();
            let mut ticked = Duration::ZERO;
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let now = start.elapsed();
                vms.iter().for_each(|vm| vm.tick((now - ticked).as_millis() as u32));
                ticked = now;
                switches.iter().for_each(|switch| switch.tick(now.as_secs() as u32));
            }
        })?;
        Ok(Self { thread, stop: Some(stop) })
    }

    /// Its thread.
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
