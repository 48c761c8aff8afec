//! What takes 30 % of a core, and knows by a measure of its own how much it took: work on frames in a guest, a thread with an eye
//! on its own CPU time, and frames that the kernel forwards in softirqs.

mod softirqs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bootinfo::{Role, TrafficInfo};
use config::{Engine, Spin};
use engine::{Duty, Guest};
use host::cores;
use port::Sink;
use port::pump;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use sched::account::{Column, Thread};
use vmm::probe::tsc_khz;

use super::PART;
use crate::device::{self, Seats};
use crate::experiment::Options;
use crate::experiments::mover::Mover;
use crate::generator::Generator;
pub(super) use softirqs::{Softirqs, Taken};

/// Something that burns while it is told to.
pub(super) trait Burn {
    /// Threads that the account is to watch.
    fn threads(&self) -> Vec<Thread>;

    /// Burns for so long.
    fn go(&mut self, length: Duration) -> Result<()>;

    /// Part of the core that the last burn took, by its own measure, and how far that may be off.
    fn took(&mut self) -> Result<(f64, f64)>;
}

/// CPU time of the calling thread.
pub(super) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A thread of this process.
fn own(name: &str, tid: i32, column: Column) -> Result<Thread> {
    let pid = i32::try_from(std::process::id()).context("a process number")?;
    Ok(Thread { name: name.to_owned(), pid, tid, column })
}

/// Work of the application on a frame: long beside what an interrupt takes.
const WORK: Duration = Duration::from_millis(20);
/// Time in which frames come to find what one takes, and after which all of them are done.
const TRIAL: Duration = Duration::from_millis(600);
const REST: Duration = Duration::from_millis(100);
/// In which the frequency of the time-stamp counter is measured.
const TIMED: Duration = Duration::from_millis(50);

/// An application in a guest, which works on each frame for a fixed time. What that took is counted by the guest, pass by pass, with
/// its own clock: one in eight is timed, and those that were interrupted count as if they had not been.
pub(super) struct Application {
    guest: Guest,
    into: Arc<dyn Sink>,
    /// What the guest sends, which is nothing: it keeps the time of interrupts.
    back: Mover,
    options: Options,
    thread: Thread,
    /// Cycles of the guest's clock in a second.
    frequency: f64,
    /// See [`Burn::took`].
    took: f64,
}

/// What a guest has counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Frames that the application is done with.
    frames: f64,
    /// Passes that moved or worked on something.
    passes: f64,
    /// Of those that were timed, cycles and how many they are.
    cycles: f64,
    timed: f64,
}

impl Counted {
    /// Cycles of all passes since then.
    fn cycles_since(&self, before: &Self) -> f64 {
        (self.passes - before.passes) * (self.cycles - before.cycles) / (self.timed - before.timed).max(1.0)
    }
}

impl Application {
    /// The measuring thread on the first CPU, the vCPU on the second.
    pub(super) fn start(options: &Options, host: usize, vcpu: usize) -> Result<Self> {
        let rate = Some(PART / WORK.as_secs_f64());
        let options = Options { rate, vcpus: 1, queues: 1, ..options.clone() };
        let mut plan = device::end_plan(&options, &Seats { host, vcpus: vec![vcpu] })?;
        // It is to sleep when there is no frame.
        plan.spin = Spin::For(Duration::ZERO);
        let work_ns = u32::try_from(WORK.as_nanos()).context("the work on a frame is too long")?;
        let traffic =
            TrafficInfo { work_ns, queue_len: options.queue, protected: 1, ..TrafficInfo::default() };
        let duty = Duty { role: Role::Application, traffic };
        let mut guest = Guest::new(&plan, duty, &device::ground(&options)?)?;
        if guest.engine() != Engine::Kvm {
            bail!("a vCPU that is a process shows its time to nobody else: --engine kvm");
        }
        let into = guest.nics()[0].sink();
        let back = Mover::new(&guest.nics()[0], Arc::new(port::Null::default()));
        guest.start()?;
        cores::pin(host)?;
        let vcpu = guest.threads().first().context("the guest has no vCPU")?;
        let thread = own(vcpu.name(), vcpu.tid(), Column::Guest)?;
        let frequency = tsc_khz(TIMED) as f64 * 1e3;
        let mut application = Self { guest, into, back, options, thread, frequency, took: 0.0 };
        application.calibrate()?;
        Ok(application)
    }

    /// A frame takes more than the work on it: between two slices of that the guest looks for frames.
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
        let start = Instant::now();
        while start.elapsed() < length {
            pump(&mut generator, &*self.into);
            self.back.pump();
        }
        match self.guest.fault() {
            Some(fault) => bail!("the guest stopped: {fault}"),
            None => Ok(()),
        }
    }

    fn counted(&self) -> Counted {
        let vcpu = &self.guest.machine().shared().vcpus[0];
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

    fn go(&mut self, length: Duration) -> Result<()> {
        let (before, start) = (self.counted(), Instant::now());
        self.feed(length)?;
        let (after, elapsed) = (self.counted(), start.elapsed().as_secs_f64());
        self.took = after.cycles_since(&before) / self.frequency / elapsed;
        Ok(())
    }

    fn took(&mut self) -> Result<(f64, f64)> {
        Ok((self.took, 0.0))
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.guest.stop();
    }
}

/// A thread on one CPU that runs until it is dropped.
struct Seated {
    tid: i32,
    stop: Arc<AtomicBool>,
    join: Option<JoinHandle<()>>,
}

impl Seated {
    /// `turn` is called again and again.
    fn start(name: &str, cpu: usize, mut turn: impl FnMut() + Send + 'static) -> Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let (asks, (tell, told)) = (stop.clone(), mpsc::channel());
        let work = move || {
            let placed = cores::pin(cpu).map(|()| gettid().as_raw_nonzero().get());
            let is_placed = placed.is_ok();
            // The parent waits for this message, so it is there to take it.
            let _ = tell.send(placed);
            while is_placed && !asks.load(Relaxed) {
                turn();
            }
        };
        let join = thread::Builder::new().name(name.to_owned()).spawn(work);
        let join = Some(join.with_context(|| format!("cannot start thread {name}"))?);
        let tid = told.recv().context("a thread ended before it began")??;
        Ok(Self { tid, stop, join })
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(join) = self.join.take() {
            // A panic of the thread has been printed by its hook.
            let _ = join.join();
        }
    }
}

/// Name of the thread that stands for a vhost thread.
const NAME: &str = "burn/vhost";
/// Between two burns of the thread.
const NAP: Duration = Duration::from_millis(3);

/// A thread that keeps its CPU time at a part of all.
pub(super) struct Burner {
    seated: Seated,
    /// Nanoseconds of CPU time so far.
    ran: Arc<AtomicU64>,
    took: f64,
}

impl Burner {
    /// On this CPU.
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
        Ok(Self { seated: Seated::start(NAME, cpu, turn)?, ran, took: 0.0 })
    }

    /// CPU time so far, by the thread's own clock.
    pub(super) fn ran(&self) -> Duration {
        Duration::from_nanos(self.ran.load(Relaxed))
    }
}

impl Burn for Burner {
    fn threads(&self) -> Vec<Thread> {
        own(NAME, self.seated.tid, Column::Vhost).into_iter().collect()
    }

    fn go(&mut self, length: Duration) -> Result<()> {
        let (before, start) = (self.ran(), Instant::now());
        thread::sleep(length);
        let ran = self.ran() - before;
        self.took = ran.as_secs_f64() / start.elapsed().as_secs_f64();
        Ok(())
    }

    fn took(&mut self) -> Result<(f64, f64)> {
        Ok((self.took, 0.0))
    }
}
