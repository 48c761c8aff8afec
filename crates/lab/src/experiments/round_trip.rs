//! `round-trip`: one frame at a time from this thread to a firmware that echoes it, and back. Polling: neither side
//! ever sleeps. Sleeping: both have gone to sleep before each frame, so it takes an interrupt, a doorbell and the
//! scheduler. Beside it stands what KVM itself takes for a doorbell and for an exit.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bootinfo::Role;
use config::{Engine, Itr, Spin};
use engine::{Duty, Guest};
use host::cores;
use port::{Bell, Frame, Sink, Source};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use vmm::probe::{KvmCosts, kvm_costs};

use super::accesses;
use super::exits::exits;
use crate::device::{self, Seats};
use crate::experiment::{Experiment, Options, Sample};
use crate::generator::Generator;
use crate::ledger_snapshot::Snapshot;
use crate::stats;

/// A frame that takes longer is lost: other programs of a busy host take the CPU for seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so many lost ones and none that came back, none will.
const MOST_LOST: u64 = 3;
/// Before each frame of the sleeping case: time for the guest to halt.
const REST: Duration = Duration::from_micros(100);
/// Microseconds of a unit of the least time between two interrupts (82540EM manual, ITR).
const ITR_UNIT_US: f64 = 0.25;

/// Whether the two sides sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// They poll.
    Polling,
    /// They sleep before each frame.
    Sleeping,
}

/// See the head of this file.
pub struct RoundTrip {
    options: Options,
    waiting: Waiting,
    seats: Seats,
    parts: Option<Parts>,
}

struct Parts {
    echo: Guest,
    generator: Generator,
    into: Arc<dyn Sink>,
    back: Box<dyn Source>,
    /// What comes back inside of the guest's register accesses, and how much of it was taken.
    arrivals: Arc<Arrivals>,
    taken: u64,
    /// What KVM itself takes, where it is KVM.
    costs: Option<KvmCosts>,
}

/// A sink that counts, and wakes who sleeps.
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
            // A full counter means that it is ringing already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
        frames.len()
    }
}

impl RoundTrip {
    /// The measuring thread and the guest on the CPUs of the options.
    pub fn new(waiting: Waiting, options: &Options) -> Result<Self> {
        Ok(Self { options: options.clone(), waiting, seats: Seats::of(options)?, parts: None })
    }
}

impl Experiment for RoundTrip {
    fn id(&self) -> &'static str {
        "round-trip"
    }

    fn case(&self) -> String {
        let (device, frame) = (self.options.device(), self.options.frame);
        let waiting = match self.waiting {
            Waiting::Polling => "polling",
            Waiting::Sleeping => "sleeping",
        };
        format!("{device}/{frame}{}/{waiting}", self.options.several_vcpus())
    }

    fn unit(&self) -> &'static str {
        "us"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        self.seats.pair()
    }

    fn is_built_each_turn(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        let options = Options { queues: 1, ..self.options.clone() };
        let mut plan = device::plan(&options, &self.seats.vcpus)?;
        if self.waiting == Waiting::Sleeping {
            plan.spin = Spin::For(Duration::ZERO);
        }
        let mut echo =
            Guest::new(&plan, Duty { role: Role::Echo, ..Duty::default() }, &device::ground(&options)?)?;
        echo.start()?;
        let costs = match echo.engine() {
            Engine::Kvm => Some(kvm_costs().context("cannot measure KVM itself")?),
            Engine::Process | Engine::Linux => None,
        };
        let generator = Generator::new(&device::traffic(&Options { rate: None, ..options }))?;
        let (into, back) = (echo.nics()[0].sink(), echo.nics()[0].source());
        let arrivals = Arrivals::new()?;
        echo.nics()[0].transmit_in_access(arrivals.clone());
        cores::pin(self.seats.host)?;
        self.parts = Some(Parts { echo, generator, into, back, arrivals, taken: 0, costs });
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let parts = self.parts.as_mut().context("round-trip was not prepared")?;
        parts.catch_up();
        let (before, left) = (parts.ledger(), exits(&parts.echo));
        let (start, mut trips, mut lost) = (Instant::now(), Vec::new(), 0);
        let mut starts = Vec::new();
        // A host that is busy with others may keep a frame for longer than a slice.
        while start.elapsed() < length || trips.is_empty() && lost < MOST_LOST {
            starts.push(Instant::now());
            match parts.trip(self.waiting)? {
                Some(time) => trips.push(time.as_nanos() as f64 * 1e-3),
                None => lost += 1,
            }
        }
        if let Some(fault) = parts.echo.fault() {
            bail!("the guest stopped: {fault}");
        }
        ensure!(!trips.is_empty(), "no frame came back");
        trips.sort_unstable_by(f64::total_cmp);
        let (left, ledger) = (exits(&parts.echo) - left, parts.ledger().since(&before));
        let mut more = vec![
            ("ktps", 1e3 / trips[trips.len() / 2]),
            ("p99_us", trips[trips.len() * 99 / 100]),
            ("shortest_us", trips[0]),
            ("trips", trips.len() as f64),
        ];
        if let Some(costs) = parts.costs {
            more.extend([("probe_doorbell_us", costs.kick_us), ("probe_exit_us", costs.mmio_us)]);
        }
        if let Itr::Every(units @ 1..) = self.options.itr
            && self.waiting == Waiting::Sleeping
        {
            // From one trip to the next: the frame's way, and the rest before it.
            let apart: Vec<f64> =
                starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e6).collect();
            let period = f64::from(units) * ITR_UNIT_US;
            more.extend(stats::median(&apart).map(|spacing| ("spacing_in_periods", spacing / period)));
        }
        more.extend(accesses::per_frame(&ledger, trips.len() as u64));
        Ok(Sample {
            value: trips[trips.len() / 2],
            packets: trips.len() as u64,
            lost,
            exits: Some(left),
            more,
            ledger,
        })
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.echo.stop();
        }
        Ok(())
    }
}

impl Parts {
    /// One frame there and back; none if it did not come.
    fn trip(&mut self, waiting: Waiting) -> Result<Option<Duration>> {
        if waiting == Waiting::Sleeping {
            thread::sleep(REST);
        }
        let start = Instant::now();
        self.generator.drain(1, &mut |frames| {
            self.into.deliver(frames);
        });
        while start.elapsed() < PATIENCE {
            if waiting == Waiting::Sleeping {
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

    /// Sleeps until a frame is there, or for as long as a frame may take.
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
        // Not rung: the read says so and nothing is lost.
        let _ = rustix::io::read(&arrivals.bell, &mut [0u8; 8]);
        self.back.disarm();
        Ok(())
    }

    /// Takes what came too late.
    fn catch_up(&mut self) {
        while self.take() > 0 {}
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        let vcpu = &self.echo.machine().shared().vcpus[0];
        ledger.take("guest", &vcpu.router);
        ledger.take("guest.near", &vcpu.nics[0]);
        ledger.take("guest.exit", &*self.echo.machine().exits()[0]);
        ledger.take("near.rx", &self.echo.nics()[0].rx_ledger());
        ledger.take("near.tx", &self.echo.nics()[0].tx_ledger());
        accesses::take(&self.echo, &mut ledger);
        ledger
    }
}
