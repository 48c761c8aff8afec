//! Threads that end with their owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

/// Told to end.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it is time.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Sleeps for so long, or until it is time; returns whether it is. For the worker's own thread.
    pub(crate) fn wait(&self, length: Duration) -> bool {
        let end = Instant::now() + length;
        while !self.is_set() && Instant::now() < end {
            park_timeout(end.saturating_duration_since(Instant::now()));
        }
        self.is_set()
    }
}

/// A thread that ends with its owner.
pub(crate) struct Worker<T> {
    stop: Stop,
    thread: Option<JoinHandle<Result<T>>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts it where the calling thread is: on its CPU.
    ///
    /// # Errors
    /// There are no threads left.
    pub(crate) fn start(name: &str, body: impl FnOnce(&Stop) -> Result<T> + Send + 'static) -> Result<Self> {
        let stop = Stop::default();
        let told = stop.clone();
        let thread = Builder::new().name(name.to_owned()).spawn(move || body(&told));
        Ok(Self { stop, thread: Some(thread.with_context(|| format!("cannot start thread {name}"))?) })
    }

    /// Starts it and waits until it has made what it keeps; returns what that has to tell as well.
    ///
    /// # Errors
    /// There are no threads left, or it could not be made.
    pub(crate) fn with<K, S: Send + 'static>(
        name: &str,
        make: impl FnOnce() -> Result<(K, S)> + Send + 'static,
        body: impl FnOnce(K, &Stop) -> Result<T> + Send + 'static,
    ) -> Result<(Self, S)> {
        let (tell, told) = mpsc::channel();
        let worker = Self::start(name, move |stop| {
            let (kept, said) = make()?;
            // The other side waits for it.
            let _ = tell.send(said);
            body(kept, stop)
        })?;
        match told.recv() {
            Ok(said) => Ok((worker, said)),
            Err(_) => {
                Err(worker.end().err().unwrap_or_else(|| anyhow!("thread {name} ended before it began")))
            }
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it.
    ///
    /// # Errors
    /// It failed, or panicked.
    pub(crate) fn end(mut self) -> Result<T> {
        let ended = self.stop().context("it has ended")?;
        ended.map_err(|_| anyhow!("a thread of the lab has died"))?
    }
}

impl<T> Worker<T> {
    fn stop(&mut self) -> Option<std::thread::Result<Result<T>>> {
        self.stop.0.store(true, Relaxed);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        Some(thread.join())
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        // Whatever went wrong with it was told while it mattered.
        let _ = self.stop();
    }
}
