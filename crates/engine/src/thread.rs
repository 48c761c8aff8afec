//! Threads that are named as `top -H` shows them, placed on CPUs, stopped and accounted.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use libc::siginfo_t;
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};
use sandbox::{Class, Confinement};
use vmm::cpu_clock;
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

/// A running thread of a router.
pub struct Thread {
    meter: Arc<CpuMeter>,
    join: Option<JoinHandle<()>>,
}

/// What a thread has spent on a CPU, for anybody who asks while somebody else has the thread.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    name: String,
    tid: Pid,
    /// Whether its body has returned: from then on its number may be that of another thread.
    ended: Arc<AtomicBool>,
    /// The most that was read, in nanoseconds.
    seen: AtomicU64,
}

impl CpuMeter {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Nanoseconds on a CPU: never less than before, and after the thread's end what was read last.
    pub(crate) fn read(&self) -> u64 {
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
                let placed = pin_current(&cpus).and_then(|()| {
                    if confinement == Confinement::On {
                        sandbox::confine(class)?;
                    }
                    Ok(gettid())
                });
                let go = placed.is_ok();
                // The parent waits for this message, so it is there to take it.
                let _ = tell.send(placed);
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
    pub(crate) fn meter(&self) -> Arc<CpuMeter> {
        self.meter.clone()
    }

    /// Whether its body has returned.
    pub fn is_finished(&self) -> bool {
        self.join.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Signals the thread out of the guest, again and again, until it has ended: a signal that comes right before it
    /// enters the guest would be lost.
    pub fn interrupt_until_finished(&mut self) {
        while let Some(join) = self.join.take_if(|join| !join.is_finished()) {
            // Gone between the look and the signal: then it has finished.
            let _ = join.kill(signal());
            self.join = Some(join);
            std::thread::sleep(Duration::from_micros(200));
        }
        self.join();
    }

    /// Waits for its end.
    pub fn join(&mut self) {
        if let Some(join) = self.join.take() {
            // A panic of the thread has been printed by its hook.
            let _ = join.join();
        }
    }
}

/// The signal that takes a vCPU out of the guest; its handler does nothing.
fn signal() -> i32 {
    static INSTALLED: OnceLock<i32> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let signal = SIGRTMIN();
        // A handler that cannot be installed would make the signal deadly; then no vCPU thread gets one.
        if register_signal_handler(signal, nothing).is_ok() { signal } else { 0 }
    })
}

extern "C" fn nothing(_: i32, _: *mut siginfo_t, _: *mut c_void) {}

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
mod tests {
    use super::*;

    #[test]
    fn a_meter_never_goes_back_and_reads_no_stranger() {
        let ended = Arc::<AtomicBool>::default();
        let meter =
            CpuMeter { name: String::new(), tid: gettid(), ended: ended.clone(), seen: AtomicU64::new(0) };
        assert_eq!(meter.note(|_| 700), 700);
        assert_eq!(meter.note(|_| 0), 700, "the clock could not be read");
        assert_eq!(meter.note(|_| 900), 900);
        ended.store(true, Ordering::Release);
        assert_eq!(meter.note(|_| 5_000_000), 900, "its number is another thread's by now");
    }

    #[test]
    fn a_thread_that_has_ended_keeps_its_time() {
        let mut thread =
            Thread::spawn("edge/test", &[], Class::Vhost, Confinement::Off, || ()).expect("a thread");
        let meter = thread.meter();
        thread.join();
        let last = meter.read();
        assert_eq!((meter.name(), meter.read()), ("edge/test", last));
        assert!(meter.ended.load(Ordering::Acquire));
    }
}
