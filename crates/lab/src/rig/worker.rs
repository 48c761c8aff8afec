//! Worker threads that end when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

/// Stop flag of a worker.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns true if the worker has been told to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Sleeps for `length`, or until told to stop; returns true if told. To be called in the worker's own
    /// thread.
    pub(crate) fn wait(&self, length: Duration) -> bool {
        let end = Instant::now() + length;
        while !self.is_set() && Instant::now() < end {
            park_timeout(end.saturating_duration_since(Instant::now()));
        }
        self.is_set()
    }
}

/// Thread that is stopped and joined when dropped.
pub(crate) struct Worker<T> {
    stop: Stop,
    thread: Option<JoinHandle<Result<T>>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts the thread; it inherits the calling thread's CPU.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(name: &str, body: impl FnOnce(&Stop) -> Result<T> + Send + 'static) -> Result<Self> {
        let stop = Stop::default();
        let told = stop.clone();
        let thread = Builder::new().name(name.to_owned()).spawn(move || body(&told));
        Ok(Self { stop, thread: Some(thread.with_context(|| format!("cannot start thread {name}"))?) })
    }

    /// Starts the thread and waits until `make` has returned; returns the second part of its result as well.
    ///
    /// # Errors
    /// The thread cannot be started, or `make` failed.
    pub(crate) fn with<K, S: Send + 'static>(
        name: &str,
        make: impl FnOnce() -> Result<(K, S)> + Send + 'static,
        body: impl FnOnce(K, &Stop) -> Result<T> + Send + 'static,
    ) -> Result<(Self, S)> {
        let (tell, told) = mpsc::channel();
        let worker = Self::start(name, move |stop| {
            let (kept, said) = make()?;
            // The starting thread waits for it.
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

    /// Returns true if the thread has ended by itself.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops and joins the thread.
    ///
    /// # Errors
    /// The thread failed or panicked.
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
        // Errors of the thread were reported while they mattered.
        let _ = self.stop();
    }
}
