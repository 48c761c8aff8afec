//! Threads with names as `top -H` shows them, CPU affinity, interruptible end, and CPU time accounting.

pub mod cpu_clock;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};
use sandbox::{Class, Confinement};
use signals::interrupt::{self, END_LIMIT};
use vmm_sys_util::signal::Killable;

/// Time given to a thread that was told to end, before it is interrupted.
const GRACE: Duration = Duration::from_millis(20);

/// A running thread of a router.
pub struct Thread {
    meter: Arc<CpuMeter>,
    join: Option<JoinHandle<()>>,
}

/// CPU time of a thread, readable while other code owns the thread.
#[derive(Debug)]
pub struct CpuMeter {
    name: String,
    tid: Pid,
    /// True once its body has returned: then another thread may reuse its number.
    ended: Arc<AtomicBool>,
    /// Highest value read, in nanoseconds.
    seen: AtomicU64,
}

impl CpuMeter {
    /// Name of the thread, such as `edge/vcpu0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// CPU time in nanoseconds: never decreases, and stays at the last value read after the thread's end.
    pub fn read(&self) -> u64 {
        self.note(|tid| cpu_clock::of_thread(tid).as_nanos() as u64)
    }

    fn note(&self, clock: impl FnOnce(i32) -> u64) -> u64 {
        let now = clock(self.tid.as_raw_nonzero().get());
        // Checked after the reading: if the thread had not ended by then, its number was not reused.
        if !self.ended.load(Ordering::Acquire) {
            self.seen.fetch_max(now, Ordering::Relaxed);
        }
        self.seen.load(Ordering::Relaxed)
    }
}

/// Records the end of a thread's body, also if that panics.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Thread {
    /// Starts `body` in a thread named `name` on these CPUs (empty: any), confined to `class`. Returns once
    /// the thread is placed and confined, or an error if that fails.
    pub fn spawn(
        name: &str,
        cpus: &[usize],
        class: Class,
        confinement: Confinement,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let cpus = cpus.to_vec();
        let ended = Arc::<AtomicBool>::default();
        let ending = Ending(ended.clone());
        let join = Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _ending = ending;
                let tid = gettid();
                let placed = pin_current(&cpus).and_then(|()| confinement.enter(class));
                let go = placed.is_ok();
                // The parent waits for this message, so it cannot fail.
                let _ = tell.send(placed.map(|()| tid));
                if go {
                    body();
                }
            })
            .with_context(|| format!("cannot start thread {name}"))?;
        let tid = told
            .recv()
            .context("a thread ended before it began")?
            .with_context(|| format!("thread {name}"))?;
        let meter = CpuMeter { name: name.to_owned(), tid, ended, seen: AtomicU64::new(0) };
        Ok(Self { meter: Arc::new(meter), join: Some(join) })
    }

    /// Name, such as `edge/vcpu0`.
    pub fn name(&self) -> &str {
        self.meter.name()
    }

    /// Kernel's thread number.
    pub fn tid(&self) -> i32 {
        self.meter.tid.as_raw_nonzero().get()
    }

    /// CPU time by the scheduler's own clock; after the thread's end, the last value read.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.meter.read())
    }

    /// Meter of its CPU time, for use while other code owns the thread.
    pub fn meter(&self) -> Arc<CpuMeter> {
        self.meter.clone()
    }

    /// Returns true if its body has returned.
    pub fn is_finished(&self) -> bool {
        self.join.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of a thread that was told to end: 20 ms without interrupting it, then its blocking
    /// calls are interrupted. Returns false if it does not end within 20 s: then it is abandoned with
    /// everything it holds, and reported.
    pub fn join(&mut self) -> bool {
        Self::end_all([self], GRACE, END_LIMIT) == 0
    }

    /// Waits for the end of several threads, with that time for all of them together. Returns the number of
    /// threads abandoned.
    pub fn join_all<'t>(threads: impl IntoIterator<Item = &'t mut Self>) -> usize {
        Self::end_all(threads, GRACE, END_LIMIT)
    }

    /// Waits for the end of threads, interrupting them at once and repeatedly: a signal that arrives right
    /// before a blocking call has no effect.
    pub fn interrupt_all<'t>(threads: impl IntoIterator<Item = &'t mut Self>) -> usize {
        Self::end_all(threads, Duration::ZERO, END_LIMIT)
    }

    /// Waits at most `most` for the end of threads; `urge` gets them out of whatever blocks them.
    pub fn urge_all<'t>(
        threads: impl IntoIterator<Item = &'t mut Self>,
        most: Duration,
        urge: impl FnMut(&JoinHandle<()>, Duration),
    ) -> usize {
        let threads = threads.into_iter().filter_map(|thread| thread.join.take()).collect();
        interrupt::end_all(threads, most, urge)
    }

    fn end_all<'t>(
        threads: impl IntoIterator<Item = &'t mut Self>,
        grace: Duration,
        most: Duration,
    ) -> usize {
        Self::urge_all(threads, most, |thread, waited| {
            if let Some(signal) = interrupt::signal().filter(|_| waited >= grace) {
                // Fails if the thread ended between check and signal, which is fine.
                let _ = thread.kill(signal);
            }
        })
    }
}

/// Pins the calling thread to these CPUs; empty: leaves its affinity unchanged.
pub fn pin_current(cpus: &[usize]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    sched_setaffinity(None, &cpu_set(cpus)).with_context(|| refusal(cpus))
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    set
}

fn refusal(cpus: &[usize]) -> String {
    format!("cannot run on CPU {cpus:?}: not there, or not allowed")
}

#[cfg(test)]
mod tests;
