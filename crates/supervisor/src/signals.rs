//! SIGINT and SIGTERM end a run in good order.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

/// What ends a run: Ctrl-C, `kill`, a terminal that closes.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Tells whether the run is to end. Signals are taken from when it is made until it is dropped.
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// Readable once a signal has come.
    bell: UnixStream,
    hooks: Vec<SigId>,
}

impl Stop {
    /// Takes no signals: only the [`Stop::flag`] ends a run.
    #[cfg(test)]
    pub(crate) fn deaf() -> Self {
        let (bell, _) = UnixStream::pair().expect("descriptors");
        Self { asked: Arc::default(), bell, hooks: Vec::new() }
    }

    /// Takes the signals from now on.
    ///
    /// # Errors
    /// One line: no descriptors are left.
    pub fn listen() -> Result<Self> {
        let (bell, ringer) = UnixStream::pair().context("cannot make a pipe for signals")?;
        let mut stop = Self { asked: Arc::default(), bell, hooks: Vec::new() };
        for signal in SIGNALS {
            // The flag first: who is woken finds it set.
            let hook = flag::register(signal, stop.asked.clone());
            stop.hooks.push(hook.with_context(|| format!("cannot take signal {signal}"))?);
            let ringer = ringer.try_clone().context("cannot make a pipe for signals")?;
            let hook = low_level::pipe::register(signal, ringer);
            stop.hooks.push(hook.with_context(|| format!("cannot take signal {signal}"))?);
        }
        Ok(stop)
    }

    /// Whether a signal has come, or the [`Stop::flag`] was set by others.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// For threads that look at it themselves.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.asked.clone()
    }

    /// Waits for a signal, but at most this long; whether the run is to end.
    pub fn wait(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        while !self.is_asked() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing else can be waited for then: the run ends rather than spin.
                Err(_) => return true,
            }
        }
        true
    }
}

impl AsFd for Stop {
    /// Readable once a signal has come; for a poll of one's own.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..) {
            low_level::unregister(hook);
        }
    }
}

#[cfg(test)]
mod tests;
