//! `hostile`: the rate of a router that has a hostile one beside it, against its rate alone, in turn.
//!
//! The neighbour has one CPU for all of it: generator, both ends of its rings and the sink in this thread, its vCPU in
//! another, which take turns as fast as the rings fill and empty. The hostile router has the other CPU: its vCPU, its
//! I/O thread, and whoever looks after it. So nobody who is measured shares a CPU with it: what two routers get of
//! one CPU is the scheduler's matter, and what is left to see is whatever else it can do to the host. It is fenced
//! and started again meanwhile as in any run.

use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::{Misdeed, Plan, Spin};
use engine::{Duty, Guest, Instance, Plugs};
use host::cores;

use super::Case;
use crate::device;
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::metric::exits;
use crate::rig::Worker;
use crate::rig::lane::{self, Lane};
use crate::scenario::{for_about, until_quiet};

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

/// For each misdeed a router beside it, and alone.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let chosen = |misdeed: &Misdeed| options.misdeed.is_none_or(|only| only == *misdeed);
    let cases = Misdeed::ALL.into_iter().filter(chosen).map(|misdeed| {
        let [beside, alone] = [Some(misdeed), None].map(|misdeed| case(misdeed, options));
        Ok(Case::InTurn(beside?, alone?))
    });
    cases.collect()
}

/// The neighbour on the first of two CPUs, and what misbehaves in this way, or nothing, on the second.
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
    /// What the other one does, and where; none: there is no other one.
    misdeed: Option<Misdeed>,
    pen: usize,
    slices: usize,
}

impl Rig for Neighbour {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let pen = self.misdeed.map(|misdeed| pen(misdeed, &self.options, self.pen)).transpose()?;
        // Alone, too: a thread that has rested is given the CPU more readily.
        thread::sleep(LEADS[self.slices % LEADS.len()]);
        self.slices += 1;
        let (before, left) = (lane::ledger(&self.router, slice::from_ref(&self.lane)), exits(&self.router));
        let seconds = self.run(length);
        let packets = self.lane.came().frames.get() - before.count("sink.frames");
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
        // It gives its CPU away as soon as it has nothing to do: the generator waits for that CPU.
        let mut plan = device::plan(&options, &[cpu])?;
        plan.spin = Spin::For(Duration::ZERO);
        let mut router = device::router(&plan, &options, Duty::default())?;
        router.start()?;
        let lane = Lane::new(&router, &device::traffic(&options), (0, 1))?;
        let mut neighbour = Self { router, lane, options, misdeed, pen, slices: 0 };
        cores::pin(cpu)?;
        neighbour.settle();
        neighbour.run(WARM_UP);
        neighbour.settle();
        Ok(neighbour)
    }

    /// Offers frames and takes what comes for about `length`; returns the seconds it took. When nothing can be moved
    /// it is the router's turn. No more frames are under way than the ring behind the router holds, or it would have
    /// to drop what nobody collects while it has the CPU.
    fn run(&mut self, length: Duration) -> f64 {
        let lane = &mut self.lane;
        for_about(length, BURSTS, || {
            let offered = if lane.under_way() < MOST_UNDER_WAY { lane.offer() } else { 0 };
            if offered + lane.collect() == 0 {
                thread::yield_now();
            }
        })
    }

    /// Takes what is still under way.
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

/// A hostile router on one CPU, which serves, and the thread that looks after it and tells at its end how often it was fenced.
fn pen(misdeed: Misdeed, options: &Options, cpu: usize) -> Result<Worker<u64>> {
    let plan = plan(misdeed, options, cpu)?;
    let make = move || {
        // Before the others are made: they run where their maker does.
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
