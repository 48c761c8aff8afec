//! Threads that are named as `top -H` shows them, placed on CPUs, stopped and accounted.

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

/// How long a thread that was told to end is not disturbed.
const GRACE: Duration = Duration::from_millis(20);

/// A running thread of a router.
pub struct Thread {
    meter: Arc<CpuMeter>,
    join: Option<JoinHandle<()>>,
}

/// What a thread has spent on a CPU, for anybody who asks while somebody else has the thread.
#[derive(Debug)]
pub struct CpuMeter {
    name: String,
    tid: Pid,
    /// Whether its body has returned: from then on its number may be that of another thread.
    ended: Arc<AtomicBool>,
    /// The most that was read, in nanoseconds.
    seen: AtomicU64,
}

impl CpuMeter {
    /// Its thread's name, such as `edge/vcpu0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Nanoseconds on a CPU: never less than before, and after the thread's end what was read last.
    pub fn read(&self) -> u64 {
        self.note(|tid| cpu_clock::of_thread(tid).as_nanos() as u64)
    }

    fn note(&self, clock: impl FnOnce(i32) -> u64) -> u64 {
        let now = clock(self.tid.as_raw_nonzero().get());
        // Looked at after the reading: until then nobody else can have had the number.
        if !self.ended.load(Ordering::Acquire) {
            self.seen.fetch_max(now, Ordering::Relaxed);
        }
        self.seen.load(Ordering::Relaxed)
    }
}

/// Notes the end of a thread's body, also where that panics.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Thread {
    /// Starts `body` in a thread called `name` on these CPUs (empty: anywhere), confined to what `class` needs. Returns
    /// when the thread has been placed and confined; an error if it cannot be.
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
                // The parent waits for this message, so it is there to take it.
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

    /// Its name, such as `edge/vcpu0`.
    pub fn name(&self) -> &str {
        self.meter.name()
    }

    /// The kernel's number for it.
    pub fn tid(&self) -> i32 {
        self.meter.tid.as_raw_nonzero().get()
    }

    /// Time it has spent on a CPU, from the scheduler's own clock; after its end what was read last.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.meter.read())
    }

    /// Its time on a CPU, for whoever asks while somebody else has the thread.
    pub fn meter(&self) -> Arc<CpuMeter> {
        self.meter.clone()
    }

    /// Whether its body has returned.
    pub fn is_finished(&self) -> bool {
        self.join.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of a thread that has been told to end: for 20 ms without disturbing it, then it is taken out of calls that
    /// wait. False if it does not end within 5 s: then it is left behind with what it holds, and told of.
    pub fn join(&mut self) -> bool {
        Self::end_all([self], GRACE, END_LIMIT) == 0
    }

    /// Waits for the end of several threads, which have that time together; how many are left behind.
    pub fn join_all<'t>(threads: impl IntoIterator<Item = &'t mut Self>) -> usize {
        Self::end_all(threads, GRACE, END_LIMIT)
    }

    /// Waits for the end of threads that are disturbed at once, again and again: a signal that comes right before a call that waits
    /// is lost.
    pub fn interrupt_all<'t>(threads: impl IntoIterator<Item = &'t mut Self>) -> usize {
        Self::end_all(threads, Duration::ZERO, END_LIMIT)
    }

    /// Waits for the end of threads, so long at most, that `urge` takes out of what holds them up.
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
                // Gone between the look and the signal: then it has finished.
                let _ = thread.kill(signal);
            }
        })
    }
}

/// Places the calling thread on these CPUs; empty: leaves it where it may run now.
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
