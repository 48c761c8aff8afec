//! Orderly end of a run by SIGINT, SIGTERM or SIGHUP.

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

/// Signals that end a run: Ctrl-C, `kill`, a terminal that closes.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Stop request. Signals are caught from its creation until it is dropped.
pub struct StopRequest {
    asked: Arc<AtomicBool>,
    /// Readable once a signal has arrived.
    bell: UnixStream,
    hooks: Vec<SigId>,
}

impl StopRequest {
    /// Creates a request without signal handlers: only [`StopRequest::flag`] ends the run.
    #[cfg(test)]
    pub(crate) fn deaf() -> Self {
        let (bell, _) = UnixStream::pair().expect("descriptors");
        Self { asked: Arc::default(), bell, hooks: Vec::new() }
    }

    /// Catches the signals from now on.
    ///
    /// # Errors
    /// In one line, that the process is out of descriptors.
    pub fn listen() -> Result<Self> {
        let (bell, ringer) = UnixStream::pair().context("cannot make a pipe for signals")?;
        let mut stop = Self { asked: Arc::default(), bell, hooks: Vec::new() };
        for signal in SIGNALS {
            // The flag is set first, so that a woken thread finds it set.
            let hook = flag::register(signal, stop.asked.clone());
            stop.hooks.push(hook.with_context(|| format!("cannot take signal {signal}"))?);
            let ringer = ringer.try_clone().context("cannot make a pipe for signals")?;
            let hook = low_level::pipe::register(signal, ringer);
            stop.hooks.push(hook.with_context(|| format!("cannot take signal {signal}"))?);
        }
        Ok(stop)
    }

    /// Returns true if a signal has arrived or [`StopRequest::flag`] was set.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Flag for threads that check it themselves.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.asked.clone()
    }

    /// Waits for a signal, at most this long. Returns true if the run is to end.
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
                // poll(2) fails, so waiting is impossible: the run ends rather than spin.
                Err(_) => return true,
            }
        }
        true
    }
}

impl AsFd for StopRequest {
    /// Descriptor to poll, readable once a signal has arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for StopRequest {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..) {
            low_level::unregister(hook);
        }
    }
}

#[cfg(test)]
mod tests;
