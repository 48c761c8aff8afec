//! Burns that take 30 % of a core and measure by independent means how much they took: work on frames in a guest, a thread that
//! watches its own CPU time, and frames that the kernel forwards in softirqs.

mod softirqs;

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::{Engine, Spin};
use host::cores;
use rustix::thread::gettid;
use sched::account::{Thread, TimeCategory};
use vmm::probe::tsc_khz;

use super::PART;
use crate::device::{self, CpuAssignment};
use crate::experiment::Options;
use crate::generator::Generator;
use crate::metric::{check, cpu_time};
use crate::rig::{ReceivingGuest, Worker};
pub(super) use softirqs::{Softirqs, StolenTime};

/// Load that burns CPU time for a given duration.
pub(super) trait Burn {
    /// Threads that the account is to read.
    fn threads(&self) -> Vec<Thread>;

    /// Burns for `length`; returns the share of the core that it took, by its own measurement.
    fn go(&mut self, length: Duration) -> Result<f64>;

    /// Refines the result of the last burn after it has ended; returns the share and its uncertainty.
    fn judged(&mut self, took: f64) -> Result<(f64, f64)> {
        Ok((took, 0.0))
    }
}

/// Describes a thread of this process.
fn own(name: &str, tid: i32, column: TimeCategory) -> Result<Thread> {
    let pid = i32::try_from(std::process::id()).context("a process number")?;
    Ok(Thread { name: name.to_owned(), pid, tid, column })
}

/// Time the application works on a frame: long compared with the cost of an interrupt.
const WORK: Duration = Duration::from_millis(20);
/// Duration of the calibration that measures the cost of a frame, and the wait after which all its frames are done.
const TRIAL: Duration = Duration::from_millis(600);
const REST: Duration = Duration::from_millis(100);
/// Duration over which the frequency of the time-stamp counter is measured.
const TIMED: Duration = Duration::from_millis(50);

/// Application in a guest that works on each frame for a fixed time. The guest counts the time per pass with its own clock: it times
/// one pass in eight, and a pass that was interrupted counts as if it had not been.
pub(super) struct Application {
    guest: ReceivingGuest,
    options: Options,
    thread: Thread,
    /// Frequency of the guest's clock, in cycles a second.
    frequency: f64,
}

/// Snapshot of the guest's counters.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Frames that the application has finished.
    frames: f64,
    /// Passes of the loop that moved or worked on something.
    passes: f64,
    /// Total cycles of the timed passes, and their number.
    cycles: f64,
    timed: f64,
}

impl Counted {
    /// Estimates the cycles of all passes since `before`.
    fn cycles_since(&self, before: &Self) -> f64 {
        (self.passes - before.passes) * (self.cycles - before.cycles) / (self.timed - before.timed).max(1.0)
    }
}

impl Application {
    /// Starts the guest: measuring thread on CPU `host`, vCPU on CPU `vcpu`.
    pub(super) fn start(options: &Options, host: usize, vcpu: usize) -> Result<Self> {
        let rate = Some(PART / WORK.as_secs_f64());
        let options = Options { rate, vcpus: 1, queues: 1, ..options.clone() };
        let mut plan = device::end_plan(&options, &CpuAssignment { host, vcpus: vec![vcpu] })?;
        // The guest is to sleep at once when there is no frame.
        plan.spin = Spin::For(Duration::ZERO);
        let work_ns = u32::try_from(WORK.as_nanos()).context("the work on a frame is too long")?;
        ensure!(
            device::engine(&options) == Engine::Kvm,
            "a vCPU that is a process shows its time to nobody else: --engine kvm"
        );
        let guest = ReceivingGuest::application(&options, &plan, (work_ns, true), host)?;
        let vcpu = guest.guest.threads().first().context("the guest has no vCPU")?;
        let thread = own(vcpu.name(), vcpu.tid(), TimeCategory::Guest)?;
        let frequency = tsc_khz(TIMED) as f64 * 1e3;
        let mut application = Self { guest, options, thread, frequency };
        application.calibrate()?;
        Ok(application)
    }

    /// Measures the cost of one frame, which exceeds the work on it: the guest polls for frames between slices of the work.
    fn calibrate(&mut self) -> Result<()> {
        let before = self.counted();
        self.feed(TRIAL)?;
        thread::sleep(REST);
        let after = self.counted();
        let frames = after.frames - before.frames;
        ensure!(frames >= 1.0, "the guest works on none of its frames");
        let each = after.cycles_since(&before) / self.frequency / frames;
        ensure!(each >= WORK.as_secs_f64(), "the guest says that a frame took {each} s, less than its work");
        self.options.rate = Some(PART / each);
        Ok(())
    }

    fn feed(&mut self, length: Duration) -> Result<()> {
        let mut generator = Generator::new(&device::traffic(&self.options))?;
        self.guest.feed(&mut generator, length);
        check(slice::from_ref(&self.guest.guest))
    }

    fn counted(&self) -> Counted {
        let vcpu = &self.guest.guest.machine().shared().vcpus[0];
        Counted {
            frames: vcpu.application.delivered.get() as f64,
            passes: vcpu.router.polls.get().saturating_sub(vcpu.router.polls_empty.get()) as f64,
            cycles: vcpu.work.cycles.get() as f64,
            timed: vcpu.work.passes.get() as f64,
        }
    }
}

impl Burn for Application {
    fn threads(&self) -> Vec<Thread> {
        vec![self.thread.clone()]
    }

    fn go(&mut self, length: Duration) -> Result<f64> {
        let (before, start) = (self.counted(), Instant::now());
        self.feed(length)?;
        let (after, elapsed) = (self.counted(), start.elapsed().as_secs_f64());
        Ok(after.cycles_since(&before) / self.frequency / elapsed)
    }
}

/// Starts a thread on one CPU that calls `turn` until it is dropped; returns it with its thread ID.
fn seated(name: &str, cpu: usize, mut turn: impl FnMut() + Send + 'static) -> Result<(Worker<()>, i32)> {
    let take_seat = move || {
        cores::pin(cpu)?;
        anyhow::Ok(((), gettid().as_raw_nonzero().get()))
    };
    Worker::with(name, take_seat, move |(), stop| {
        while !stop.is_set() {
            turn();
        }
        Ok(())
    })
}

/// Name of the thread that stands in for a vhost thread.
const NAME: &str = "burn/vhost";
/// Sleep between two burns of the thread.
const NAP: Duration = Duration::from_millis(3);

/// Thread that keeps its CPU time at [`PART`] of the elapsed time.
pub(super) struct Burner {
    tid: i32,
    _worker: Worker<()>,
    /// CPU time so far, in nanoseconds.
    ran: Arc<AtomicU64>,
}

impl Burner {
    /// Starts the thread on this CPU.
    pub(super) fn start(cpu: usize) -> Result<Self> {
        let ran = Arc::<AtomicU64>::default();
        let (tells, start) = (ran.clone(), Instant::now());
        let turn = move || {
            loop {
                let time = cpu_time();
                tells.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
                if time >= start.elapsed().mul_f64(PART) {
                    break;
                }
            }
            thread::sleep(NAP);
        };
        let (worker, tid) = seated(NAME, cpu, turn)?;
        Ok(Self { tid, _worker: worker, ran })
    }

    /// Returns the CPU time so far, by the thread's own clock.
    pub(super) fn ran(&self) -> Duration {
        Duration::from_nanos(self.ran.load(Relaxed))
    }
}

impl Burn for Burner {
    fn threads(&self) -> Vec<Thread> {
        own(NAME, self.tid, TimeCategory::Vhost).into_iter().collect()
    }

    fn go(&mut self, length: Duration) -> Result<f64> {
        let (before, start) = (self.ran(), Instant::now());
        thread::sleep(length);
        let ran = self.ran() - before;
        Ok(ran.as_secs_f64() / start.elapsed().as_secs_f64())
    }
}
