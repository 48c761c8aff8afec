//! `round-trip`: one frame at a time from this thread to a firmware that echoes it, and back. Polling: neither side
//! ever sleeps. Sleeping: both have gone to sleep before each frame, so that each direction takes a notification
//! (interrupt or doorbell) and a wake-up by the scheduler. KVM's own costs of a doorbell and of an exit are
//! reported beside it.

use std::os::fd::{AsFd, OwnedFd};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bootinfo::Role;
use config::{Itr, Spin};
use engine::{Guest, GuestTask};
use host::cores;
use port::{Bell, Frame, Sink, Source};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use vmm::probe::KvmCosts;

use super::Case;
use crate::device::{self, CpuAssignment};
use crate::experiment::{Experiment, ExtraFigures, Options, Rig, Sample};
use crate::generator::Generator;
use crate::ledger_snapshot::Snapshot;
use crate::metric::{HasCounters, Reading, accesses, kvm_costs};
use crate::stats;

/// Time after which a frame counts as lost: other programs of a busy host may take the CPU for seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of lost frames, with none returned, after which the measurement is abandoned.
const MOST_LOST: u64 = 3;
/// Pause before each frame of the sleeping case, in which the guest halts.
const REST: Duration = Duration::from_micros(100);
/// Microseconds in a unit of the interrupt throttling interval (82540EM manual, ITR).
const ITR_UNIT_US: f64 = 0.25;

/// Creates the polling and the sleeping case, with the measuring thread and the guest on the CPUs of the options.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let seats = CpuAssignment::of(options)?;
    let (device, frame, vcpus) = (options.device(), options.frame, options.several_vcpus());
    let case = |(sleeps, how): (bool, &str)| {
        let (options, seats, pair) = (options.clone(), seats.clone(), seats.pair());
        let build = move || Trips::new(&options, &seats, sleeps);
        let described =
            Experiment::new(("round-trip", "us"), format!("{device}/{frame}{vcpus}/{how}"), build);
        Case::from(described.between(pair).built_each_turn())
    };
    Ok([(false, "polling"), (true, "sleeping")].map(case).into())
}

struct Trips {
    echo: Guest,
    /// True if both sides sleep before each frame; otherwise they poll.
    sleeps: bool,
    itr: Itr,
    generator: Generator,
    into: Arc<dyn Sink>,
    back: Box<dyn Source>,
    /// Frames that come back within the guest's register accesses, and how many of them were taken.
    arrivals: Arc<Arrivals>,
    taken: u64,
    /// Costs of KVM itself, if the engine is KVM.
    costs: Option<KvmCosts>,
}

/// Sink that counts frames and wakes a sleeping thread.
struct Arrivals {
    frames: AtomicU64,
    asleep: AtomicBool,
    bell: OwnedFd,
}

impl Arrivals {
    fn new() -> Result<Arc<Self>> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags).context("cannot make an event descriptor")?;
        Ok(Arc::new(Self { frames: AtomicU64::new(0), asleep: AtomicBool::new(false), bell }))
    }
}

impl Sink for Arrivals {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.frames.fetch_add(frames.len() as u64, SeqCst);
        if self.asleep.load(SeqCst) {
            // A full eventfd counter means that it is already signalled.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
        frames.len()
    }
}

impl Rig for Trips {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        self.catch_up();
        let before = Reading::of(self);
        let (start, mut trips, mut lost) = (Instant::now(), Vec::new(), 0);
        let mut starts = Vec::new();
        // A host busy with other work may delay a frame for longer than a slice.
        while start.elapsed() < length || trips.is_empty() && lost < MOST_LOST {
            starts.push(Instant::now());
            match self.trip()? {
                Some(time) => trips.push(time.as_nanos() as f64 * 1e-3),
                None => lost += 1,
            }
        }
        let (ledger, exits) = before.since(self)?;
        ensure!(!trips.is_empty(), "no frame came back");
        trips.sort_unstable_by(f64::total_cmp);
        let (value, packets) = (trips[trips.len() / 2], trips.len() as u64);
        let mut more = ExtraFigures::from([
            ("ktps", 1e3 / value),
            ("p99_us", trips[trips.len() * 99 / 100]),
            ("shortest_us", trips[0]),
            ("trips", trips.len() as f64),
            ("accesses_per_frame", accesses::exits(&ledger) as f64 / packets as f64),
        ]);
        if let Some(costs) = self.costs {
            more.extend([("probe_doorbell_us", costs.kick_us), ("probe_exit_us", costs.mmio_us)]);
        }
        if let Itr::Every(units @ 1..) = self.itr
            && self.sleeps
        {
            // Time from one trip to the next: the frame's round trip, and the pause before it.
            let apart: Vec<f64> =
                starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e6).collect();
            let period = f64::from(units) * ITR_UNIT_US;
            more.extend(stats::median(&apart).map(|spacing| ("spacing_in_periods", spacing / period)));
        }
        more.extend(accesses::per_frame(&ledger, packets));
        Ok(Sample { value, packets, lost, exits: Some(exits), more, ledger })
    }
}

impl HasCounters for Trips {
    fn guests(&self) -> &[Guest] {
        slice::from_ref(&self.echo)
    }

    fn count(&self, ledger: &mut Snapshot) {
        let vcpu = &self.echo.machine().shared().vcpus[0];
        ledger.take("guest", &vcpu.router);
        ledger.take("guest.near", &vcpu.nics[0]);
        ledger.take("guest.exit", &*self.echo.machine().exits()[0]);
        ledger.take("near.rx", &self.echo.nics()[0].rx_ledger());
        ledger.take("near.tx", &self.echo.nics()[0].tx_ledger());
        accesses::take(&self.echo, ledger);
    }
}

impl Trips {
    fn new(options: &Options, seats: &CpuAssignment, sleeps: bool) -> Result<Self> {
        let options = Options { queues: 1, ..options.clone() };
        let mut plan = device::plan(&options, &seats.vcpus)?;
        if sleeps {
            plan.spin = Spin::For(Duration::ZERO);
        }
        let duty = GuestTask { role: Role::Echo, ..GuestTask::default() };
        let mut echo = Guest::new(&plan, duty, &device::backend(&options)?)?;
        echo.start()?;
        let costs = kvm_costs(&echo)?;
        let itr = options.itr;
        let generator = Generator::new(&device::traffic(&Options { rate: None, ..options }))?;
        let (into, back) = (echo.nics()[0].sink(), echo.nics()[0].source());
        let arrivals = Arrivals::new()?;
        echo.nics()[0].transmit_in_access(arrivals.clone());
        cores::pin(seats.host)?;
        Ok(Self { echo, sleeps, itr, generator, into, back, arrivals, taken: 0, costs })
    }

    /// Sends one frame and waits for its return; none if it did not return.
    fn trip(&mut self) -> Result<Option<Duration>> {
        if self.sleeps {
            thread::sleep(REST);
        }
        let start = Instant::now();
        self.generator.drain(1, &mut |frames| {
            self.into.deliver(frames);
        });
        while start.elapsed() < PATIENCE {
            if self.sleeps {
                self.sleep()?;
            }
            if self.take() > 0 {
                return Ok(Some(start.elapsed()));
            }
        }
        Ok(None)
    }

    fn take(&mut self) -> usize {
        let drained = self.back.drain(1, &mut |_| {});
        let arrived = self.arrivals.frames.load(SeqCst);
        let taken = std::mem::replace(&mut self.taken, arrived);
        drained + (arrived - taken) as usize
    }

    /// Sleeps until a frame arrives, or for as long as a frame may take.
    fn sleep(&mut self) -> Result<()> {
        let arrivals = &self.arrivals;
        arrivals.asleep.store(true, SeqCst);
        let ready = self.back.arm() || arrivals.frames.load(SeqCst) != self.taken;
        if !ready && let Bell::Event(bell) | Bell::Readable(bell) = self.back.bell() {
            let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            let bells = &mut [
                PollFd::from_borrowed_fd(bell, PollFlags::IN),
                PollFd::from_borrowed_fd(arrivals.bell.as_fd(), PollFlags::IN),
            ];
            poll(bells, Some(&time)).context("cannot wait for a frame")?;
        }
        arrivals.asleep.store(false, SeqCst);
        // If the eventfd was not signalled, the read fails harmlessly.
        let _ = rustix::io::read(&arrivals.bell, &mut [0u8; 8]);
        self.back.disarm();
        Ok(())
    }

    /// Takes frames that came back too late.
    fn catch_up(&mut self) {
        while self.take() > 0 {}
    }
}
