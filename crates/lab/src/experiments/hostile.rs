//! `hostile`: the rate of a router that has a hostile one beside it, against its rate alone, in turn.
//!
//! The neighbour has one CPU for all of it: generator, both ends of its rings and the sink in this thread, its vCPU in
//! another, which take turns as fast as the rings fill and empty. The hostile router has the other CPU: its vCPU, its
//! I/O thread, and whoever looks after it. So nobody who is measured shares a CPU with it: what two routers get of
//! one CPU is the scheduler's matter, and what is left to see is whatever else it can do to the host. It is fenced
//! and started again meanwhile as in any run.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use config::{Misdeed, Plan, Spin};
use engine::{Duty, Guest, Instance, Plugs};
use host::cores;
use port::pump;

use super::exits::exits;
use super::mover::Mover;
use crate::device;
use crate::experiment::{Experiment, Options, Sample};
use crate::generator::{Generator, GeneratorCounters};
use crate::ledger_snapshot::Snapshot;
use crate::sink::Sink;

/// The hostile one behaves for a second; a slice begins shortly before that is over, or when it goes on or is over:
/// by turns.
const LEADS: [Duration; 3] =
    [Duration::from_millis(900), Duration::from_millis(1300), Duration::from_millis(2000)];
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(100);
/// Bursts between two looks at the clock.
const BURSTS: usize = 64;
/// After so long without a frame the missing ones are lost: a busy host may keep the router off its CPU for a while.
const GIVE_UP: Duration = Duration::from_secs(2);
/// Most frames under way: a burst less than a ring's entries.
const MOST_UNDER_WAY: u64 = 1024 - 64;
/// How long the neighbour warms up.
const WARM_UP: Duration = Duration::from_millis(100);

/// See the head of this file.
pub struct Hostile {
    options: Options,
    /// What the other one does; none: there is no other one.
    misdeed: Option<Misdeed>,
    cpus: (usize, usize),
    parts: Option<Parts>,
    slices: usize,
}

struct Parts {
    router: Guest,
    generator: Generator,
    offered: Arc<GeneratorCounters>,
    into: Arc<dyn port::Sink>,
    out_of: Mover,
    back: Mover,
    sink: Arc<Sink>,
}

impl Hostile {
    /// The neighbour on the first of two CPUs, and what misbehaves in this way, or nothing, on the second.
    pub fn new(misdeed: Option<Misdeed>, options: &Options) -> Result<Self> {
        let cpus = (options.cpu(0)?, options.cpu(1)?);
        Ok(Self { options: options.clone(), misdeed, cpus, parts: None, slices: 0 })
    }
}

impl Experiment for Hostile {
    fn id(&self) -> &'static str {
        "hostile"
    }

    fn case(&self) -> String {
        let (device, frame) = (self.options.device(), self.options.frame);
        let beside = self.misdeed.map_or("alone".to_owned(), |misdeed| format!("beside-{}", misdeed.name()));
        format!("{device}/{frame}/{beside}")
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn prepare(&mut self) -> Result<()> {
        // It gives its CPU away as soon as it has nothing to do: the generator waits for that CPU.
        let mut plan = device::plan(&self.options, &[self.cpus.0])?;
        plan.spin = Spin::For(Duration::ZERO);
        let mut router = device::router(&plan, &self.options, Duty::default())?;
        router.start()?;
        let settings = device::traffic(&self.options);
        let generator = Generator::new(&settings)?;
        let sink = Arc::new(device::sink(&settings));
        let (near, far) = (&router.nics()[0], &router.nics()[1]);
        let (back, out_of) = (Mover::new(near, sink.clone()), Mover::new(far, sink.clone()));
        let into = near.sink();
        let offered = generator.counters();
        let mut parts = Parts { router, generator, offered, into, out_of, back, sink };
        cores::pin(self.cpus.0)?;
        parts.settle();
        parts.run(WARM_UP);
        parts.settle();
        self.parts = Some(parts);
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let parts = self.parts.as_mut().context("hostile was not prepared")?;
        let pen = self.misdeed.map(|misdeed| Pen::start(misdeed, &self.options, self.cpus.1)).transpose()?;
        // Alone, too: a thread that has rested is given the CPU more readily.
        thread::sleep(LEADS[self.slices % LEADS.len()]);
        self.slices += 1;
        let before = parts.ledger();
        let left = exits(&parts.router);
        let seconds = parts.run(length);
        let packets = parts.sink.counters().frames.get() - before.get("sink.frames").unwrap_or(0);
        let exits = exits(&parts.router) - left;
        parts.settle();
        let charges = pen.map_or(Ok(0), Pen::stop)?;
        let ledger = parts.ledger().since(&before);
        let get = |name: &str| ledger.get(name).unwrap_or(0);
        Ok(Sample {
            value: packets as f64 / seconds * 1e-6,
            packets,
            lost: get("generator.frames").saturating_sub(get("sink.frames") - get("sink.foreign")),
            exits: Some(exits),
            more: vec![("bad", get("sink.bad") as f64), ("charges", charges as f64)],
            ledger,
        })
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.router.stop();
        }
        Ok(())
    }
}

impl Parts {
    /// Offers frames and takes what comes for about `length`; returns the seconds it took. When nothing can be moved
    /// it is the router's turn. No more frames are under way than the ring behind the router holds, or it would have
    /// to drop what nobody collects while it has the CPU.
    fn run(&mut self, length: Duration) -> f64 {
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                let offered = if self.under_way() < MOST_UNDER_WAY {
                    pump(&mut self.generator, self.into.as_ref())
                } else {
                    0
                };
                if offered + self.collect() == 0 {
                    thread::yield_now();
                }
            }
        }
        start.elapsed().as_secs_f64()
    }

    /// Frames that were offered and have not come, those that were lost included.
    fn under_way(&self) -> u64 {
        let counters = self.sink.counters();
        self.offered.frames.get().saturating_sub(counters.frames.get().saturating_sub(counters.foreign.get()))
    }

    fn collect(&mut self) -> usize {
        self.out_of.pump()
    }

    /// Takes what is still under way.
    fn settle(&mut self) {
        let mut quiet = Instant::now();
        while quiet.elapsed() < GIVE_UP && self.under_way() > 0 {
            if self.collect() + self.back.pump() > 0 {
                quiet = Instant::now();
            }
            thread::yield_now();
        }
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        ledger.take("generator", &*self.offered);
        ledger.take("sink", self.sink.counters());
        self.router.each_group(&mut |prefix, group| ledger.take(prefix, group));
        ledger
    }
}

/// A hostile router and the thread that looks after it.
struct Pen {
    /// Dropped to end it.
    stop: Sender<()>,
    thread: JoinHandle<Result<u64>>,
}

impl Pen {
    /// Starts it on one CPU and waits until it serves.
    fn start(misdeed: Misdeed, options: &Options, cpu: usize) -> Result<Self> {
        let plan = plan(misdeed, options, cpu)?;
        let (stop, stopped) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("pen".to_owned())
            .spawn(move || {
                // Before the others are made: they run where their maker does.
                cores::pin(cpu)?;
                let mut instance = Instance::start(&plan, Plugs::new())?;
                // The other side waits for it.
                let _ = tell.send(());
                let mut charges = 0;
                while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    charges += look_after(&mut instance);
                }
                Ok(charges)
            })
            .context("cannot start a thread")?;
        let pen = Self { stop, thread };
        match told.recv() {
            Ok(()) => Ok(pen),
            Err(_) => Err(pen.stop().err().unwrap_or_else(|| anyhow!("the hostile router did not start"))),
        }
    }

    /// Ends it; returns how often it was fenced.
    fn stop(self) -> Result<u64> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the thread of the hostile router panicked"))?
    }
}

/// Looks after a hostile router, with new routes for it; returns how often it was taken down.
fn look_after(instance: &mut Instance) -> u64 {
    instance.routers().for_each(|running| {
        running.router.table().routes().publish();
    });
    let before = instance.routers().count();
    instance.look_after(Instant::now());
    before.saturating_sub(instance.routers().count()) as u64
}

/// A hostile router with two NICs on a switch of its own, on one CPU.
fn plan(misdeed: Misdeed, options: &Options, cpu: usize) -> Result<Plan> {
    let (engine, misdeed) = (&options.engine, misdeed.name());
    let text = format!(
        "[switch.pen]\n[[router]]\nname = \"hostile\"\nengine = \"{engine}\"\nrole = \"hostile\"\n\
         misdeed = \"{misdeed}\"\nrestart = \"always\"\npin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n\
         [[router.nic]]\nname = \"a\"\nattach = \"switch:pen\"\naddress = \"10.0.0.1/24\"\n\
         [[router.nic]]\nname = \"b\"\nattach = \"switch:pen\"\naddress = \"10.0.1.1/24\"\n"
    );
    config::parse(&text, "hostile").context("the hostile router's file")
}
