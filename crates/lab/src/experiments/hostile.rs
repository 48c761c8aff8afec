//! `hostile`: the rate of a router beside a hostile one, compared with its rate alone, measured alternately.
//!
//! The neighbour has one CPU for everything: generator, device side of its rings and sink in this thread, and its vCPU in
//! another thread; the two alternate as fast as the rings fill and empty. The hostile router has the other CPU: its vCPU, its
//! I/O thread, and its supervising thread. So no measured thread shares a CPU with it: how two routers share one CPU is up to
//! the scheduler, and the experiment shows every other influence on the host. The hostile router is fenced and restarted
//! meanwhile, as in any run.

use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::{Misdeed, Plan, Spin};
use engine::{Guest, GuestTask, Instance, Plugs};
use host::cores;

use super::Case;
use crate::device;
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::metric::exits;
use crate::rig::Worker;
use crate::rig::lane::{self, Lane};
use crate::scenario::{for_about, until_quiet};

/// Delay from the hostile router's start to the slice, alternating between slices. The router behaves for a second first, so
/// that a slice begins shortly before the misdeed, during it, or after it.
const LEADS: [Duration; 3] =
    [Duration::from_millis(900), Duration::from_millis(1300), Duration::from_millis(2000)];
/// Interval of the supervision.
const LOOK: Duration = Duration::from_millis(100);
/// Bursts between two readings of the clock.
const BURSTS: usize = 64;
/// Time without a frame after which the missing ones count as lost: a busy host may keep the router off its CPU for a while.
const GIVE_UP: Duration = Duration::from_secs(2);
/// Most frames in flight: the entries of a ring, less a burst.
const MOST_UNDER_WAY: u64 = 1024 - 64;
/// Warm-up time of the neighbour.
const WARM_UP: Duration = Duration::from_millis(100);

/// For each misdeed: the router beside a hostile one, and alone.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let chosen = |misdeed: &Misdeed| options.misdeed.is_none_or(|only| only == *misdeed);
    let cases = Misdeed::ALL.into_iter().filter(chosen).map(|misdeed| {
        let [beside, alone] = [Some(misdeed), None].map(|misdeed| case(misdeed, options));
        Ok(Case::Alternating(beside?, alone?))
    });
    cases.collect()
}

/// Creates a case with the neighbour on the first of two CPUs, and a router with this misdeed, or none, on the second.
fn case(misdeed: Option<Misdeed>, options: &Options) -> Result<Experiment> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let beside = misdeed.map_or("alone".to_owned(), |misdeed| format!("beside-{}", misdeed.name()));
    let name = format!("{}/{}/{beside}", options.device(), options.frame);
    let options = options.clone();
    let build = move || Neighbour::start(options.clone(), misdeed, cpus);
    Ok(Experiment::new(("hostile", "mpps"), name, build))
}

struct Neighbour {
    router: Guest,
    lane: Lane,
    options: Options,
    /// Misdeed of the hostile router; none: there is no hostile router.
    misdeed: Option<Misdeed>,
    pen: usize,
    slices: usize,
}

impl Rig for Neighbour {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let pen = self.misdeed.map(|misdeed| pen(misdeed, &self.options, self.pen)).transpose()?;
        // Wait without a hostile router, too: the scheduler gives a rested thread the CPU more readily.
        thread::sleep(LEADS[self.slices % LEADS.len()]);
        self.slices += 1;
        let (before, left) = (lane::ledger(&self.router, slice::from_ref(&self.lane)), exits(&self.router));
        let seconds = self.run(length);
        let packets = self.lane.received().frames.get() - before.count("sink.frames");
        let exits = exits(&self.router) - left;
        self.settle();
        let charges = pen.map_or(Ok(0), Worker::end)?;
        let ledger = lane::ledger(&self.router, slice::from_ref(&self.lane)).since(&before);
        Ok(Sample {
            lost: lane::lost(&ledger),
            exits: Some(exits),
            more: [("bad", ledger.count("sink.bad") as f64), ("charges", charges as f64)].into(),
            ledger,
            ..Sample::mpps(packets, seconds)
        })
    }
}

impl Neighbour {
    fn start(options: Options, misdeed: Option<Misdeed>, (cpu, pen): (usize, usize)) -> Result<Self> {
        // The router gives its CPU away as soon as it is idle: the generator waits for that CPU.
        let mut plan = device::plan(&options, &[cpu])?;
        plan.spin = Spin::For(Duration::ZERO);
        let mut router = device::router(&plan, &options, GuestTask::default())?;
        router.start()?;
        let lane = Lane::new(&router, &device::traffic(&options), (0, 1))?;
        let mut neighbour = Self { router, lane, options, misdeed, pen, slices: 0 };
        cores::pin(cpu)?;
        neighbour.settle();
        neighbour.run(WARM_UP);
        neighbour.settle();
        Ok(neighbour)
    }

    /// Offers and collects frames for about `length`; returns the seconds it took. When no frame can be moved, it yields to
    /// the router. Frames in flight are limited to the size of the ring behind the router; otherwise the router would have to
    /// drop frames that are not collected while it has the CPU.
    fn run(&mut self, length: Duration) -> f64 {
        let lane = &mut self.lane;
        for_about(length, BURSTS, || {
            let offered = if lane.under_way() < MOST_UNDER_WAY { lane.offer() } else { 0 };
            if offered + lane.collect() == 0 {
                thread::yield_now();
            }
        })
    }

    /// Collects the frames still in flight.
    fn settle(&mut self) {
        let lane = &mut self.lane;
        until_quiet(GIVE_UP, Duration::MAX, || {
            if lane.under_way() == 0 {
                return None;
            }
            let moved = lane.collect_both() > 0;
            thread::yield_now();
            Some(moved)
        });
    }
}

/// Runs a hostile router on one CPU, with a thread that supervises it and finally returns how often it was fenced.
fn pen(misdeed: Misdeed, options: &Options, cpu: usize) -> Result<Worker<u64>> {
    let plan = plan(misdeed, options, cpu)?;
    let make = move || {
        // Pin before other threads are created: they inherit the affinity of their creator.
        cores::pin(cpu)?;
        anyhow::Ok((Instance::start(&plan, Plugs::new())?, ()))
    };
    let (worker, ()) = Worker::with("pen", make, |mut instance, stop| {
        let mut charges = 0;
        while !stop.wait(LOOK) {
            charges += look_after(&mut instance);
        }
        Ok(charges)
    })?;
    Ok(worker)
}

/// Supervises the hostile router and publishes new routes for it; returns how often it was taken down.
fn look_after(instance: &mut Instance) -> u64 {
    instance.routers().for_each(|running| {
        running.router.table().routes().publish();
    });
    let before = instance.routers().count();
    instance.look_after(Instant::now());
    before.saturating_sub(instance.routers().count()) as u64
}

/// Plan of a hostile router with two NICs on a switch of its own, on one CPU.
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
