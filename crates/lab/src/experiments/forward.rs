//! `forward`: generator -> router -> sink, native. The generator, both ends of the router's rings and the sink run in
//! one thread on one CPU, the router's vCPU on another, as DPDK's l3fwd and its generator do.
//!
//! With several vCPUs each has a pair of queues. The first half of the CPUs is the host's and the rest the vCPUs', dealt
//! out in turn. With as many queues as vCPUs each pair has a generator and a sink of its own, so that a pair that is full
//! holds nobody else up; with one queue a single generator spreads its frames over the pairs by their flows.

mod lane;

use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use engine::{Class, Confinement, Duty, Guest};
use host::cores;

use super::exits::exits;
use crate::device;
use crate::experiment::{Experiment, Options, Sample};
use crate::generator::GeneratorCounters;
use crate::ledger_snapshot::Snapshot;
use crate::sink::SinkCounters;
use lane::{Lane, run, settle};

/// One step of the warm-up, and the most that it may take.
const WARM_UP: Duration = Duration::from_millis(20);
const WARM_UP_LIMIT: Duration = Duration::from_secs(10);

/// See the head of this file.
pub struct Forward {
    options: Options,
    seats: Seats,
    parts: Option<Parts>,
}

/// CPUs of the threads.
struct Seats {
    host: Vec<usize>,
    vcpus: Vec<usize>,
}

struct Parts {
    router: Guest,
    benches: Vec<Bench>,
}

/// A CPU of the host, and what it serves there.
struct Bench {
    cpu: usize,
    lanes: Vec<Lane>,
}

/// What was measured during one slice, before the rest came in.
#[derive(Default)]
struct Slice {
    packets: u64,
    seconds: f64,
    /// Passes over generator, rings and sink: all, and those in which nothing moved.
    passes: (u64, u64),
    exits: u64,
}

impl Seats {
    fn new(cpus: &[usize], vcpus: usize) -> Result<Self> {
        ensure!(cpus.len() >= 2, "forward needs two CPUs: one for the router, one for everything else");
        let (host, rest) = cpus.split_at(vcpus.clamp(1, cpus.len() / 2));
        Ok(Self { host: host.to_vec(), vcpus: rest[..rest.len().min(vcpus)].to_vec() })
    }
}

impl Forward {
    /// On the CPUs of the options, or all that this process may use.
    pub fn new(options: &Options) -> Result<Self> {
        let cpus = if options.cpus.is_empty() { cores::allowed()? } else { options.cpus.clone() };
        let seats = Seats::new(&cpus, usize::from(options.vcpus))?;
        Ok(Self { options: options.clone(), seats, parts: None })
    }

    /// Pairs with a generator of their own.
    fn lanes(&self) -> usize {
        let Options { queues, vcpus, .. } = self.options;
        if queues >= vcpus { usize::from(vcpus) } else { 1 }
    }
}

impl Experiment for Forward {
    fn id(&self) -> &'static str {
        "forward"
    }

    fn case(&self) -> String {
        let Options { frame, routes, queues, sandbox, .. } = &self.options;
        let several = |name: &str, n: u32, usual: u32| {
            if n > usual { format!("/{name}={n}") } else { String::new() }
        };
        let sandbox = if *sandbox == Confinement::On { "/sandbox" } else { "" };
        let (routes, queues) = (several("routes", *routes, 2), several("queues", (*queues).into(), 1));
        let (device, vcpus) = (self.options.device(), self.options.several_vcpus());
        format!("{device}/{frame}{routes}{queues}{vcpus}{sandbox}")
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some((*self.seats.host.first()?, *self.seats.vcpus.first()?))
    }

    fn prepare(&mut self) -> Result<()> {
        let plan = device::plan(&self.options, &self.seats.vcpus)?;
        let mut router = device::router(&plan, &self.options, Duty::default())?;
        router.confine(self.options.sandbox);
        router.start()?;
        let (settings, lanes) = (device::traffic(&self.options), self.lanes());
        let hosts = self.seats.host.len().min(lanes);
        let mut benches: Vec<_> =
            self.seats.host[..hosts].iter().map(|cpu| Bench { cpu: *cpu, lanes: Vec::new() }).collect();
        for number in 0..lanes {
            benches[number % hosts].lanes.push(Lane::new(&router, &settings, (number, lanes))?);
        }
        let parts = self.parts.insert(Parts { router, benches });
        cores::pin(self.seats.host[0])?;
        // The router announces itself; that is not the experiment's.
        parts.settle();
        parts.warm_up();
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let parts = self.parts.as_mut().context("forward was not prepared")?;
        let before = parts.ledger();
        let slice = parts.slice(length, self.options.sandbox)?;
        let ledger = parts.ledger().since(&before);
        Ok(parts.sample(slice, ledger))
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.router.stop();
        }
        Ok(())
    }
}

impl Bench {
    /// Runs its lanes in the calling thread, confined as the I/O threads of a running file are or not: a thread that has
    /// been confined stays so.
    fn slice(&mut self, router: &Guest, length: Duration, sandbox: Confinement) -> Result<Slice> {
        cores::pin(self.cpu)?;
        sandbox.enter(Class::Vhost)?;
        let (came, passes) = (self.came(), self.passes());
        let seconds = run(&mut self.lanes, length);
        // The rate is what came in that time; what is still under way counts as neither sent nor lost.
        let packets = self.came() - came;
        let passes = (self.passes().0 - passes.0, self.passes().1 - passes.1);
        let slice = Slice { packets, seconds, passes, exits: exits(router) };
        settle(&mut self.lanes);
        Ok(slice)
    }

    fn came(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.came().frames.get()).sum()
    }

    fn passes(&self) -> (u64, u64) {
        self.lanes.iter().fold((0, 0), |sum, lane| (sum.0 + lane.passes.0, sum.1 + lane.passes.1))
    }
}

impl Parts {
    fn settle(&mut self) {
        self.benches.iter_mut().for_each(|bench| settle(&mut bench.lanes));
    }

    /// Until every flow has passed twice: caches are warm, and the pages of the route table that the flows need are
    /// mapped into the guest.
    fn warm_up(&mut self) {
        for bench in &mut self.benches {
            let start = Instant::now();
            while !bench.lanes.iter().all(Lane::is_warm) && start.elapsed() < WARM_UP_LIMIT {
                run(&mut bench.lanes, WARM_UP);
            }
            settle(&mut bench.lanes);
        }
    }

    /// One slice, each bench in a thread of its own.
    fn slice(&mut self, length: Duration, sandbox: Confinement) -> Result<Slice> {
        let router = &self.router;
        let before = exits(router);
        let slices: Vec<_> = scope(|scope| {
            let threads: Vec<_> = self
                .benches
                .iter_mut()
                .map(|bench| {
                    let body = move || bench.slice(router, length, sandbox);
                    Builder::new().name("lab/vhost".to_owned()).spawn_scoped(scope, body)
                })
                .collect();
            let ended = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, Result<Slice>>>| {
                thread?.join().map_err(|_| anyhow!("a measuring thread panicked"))?
            };
            threads.into_iter().map(ended).collect::<Result<_>>()
        })?;
        let mut all = Slice::default();
        for slice in slices {
            all.packets += slice.packets;
            all.seconds = slice.seconds.max(all.seconds);
            all.passes = (all.passes.0 + slice.passes.0, all.passes.1 + slice.passes.1);
            all.exits = slice.exits.saturating_sub(before).max(all.exits);
        }
        Ok(all)
    }

    fn ledger(&self) -> Snapshot {
        let (offered, came) = (GeneratorCounters::default(), SinkCounters::default());
        for lane in self.benches.iter().flat_map(|bench| &bench.lanes) {
            offered.add_all(lane.offered());
            came.add_all(lane.came());
        }
        let mut ledger = Snapshot::new();
        ledger.take("generator", &offered);
        ledger.take("sink", &came);
        self.router.each_group(&mut |prefix, group| ledger.take(prefix, group));
        ledger
    }

    fn sample(&self, slice: Slice, ledger: Snapshot) -> Sample {
        let Slice { packets, seconds, passes, exits } = slice;
        let get = |name: &str| ledger.get(name).unwrap_or(0);
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let vcpus = self.router.plan().vcpus;
        let all = |name: &str| (0..vcpus).map(|n| get(&format!("vcpu{n}.{name}"))).sum::<u64>();
        Sample {
            value: packets as f64 / seconds * 1e-6,
            packets,
            lost: get("generator.frames").saturating_sub(get("sink.frames") - get("sink.foreign")),
            exits: Some(exits),
            more: vec![
                ("bad", get("sink.bad") as f64),
                ("reordered", (get("sink.late") + get("sink.repeated") + get("sink.stale")) as f64),
                ("empty_polls_host", share(passes.1, passes.0)),
                ("empty_polls_guest", share(all("polls_empty"), all("polls"))),
                ("burst", share(all("near.rx_frames"), all("near.rx_bursts"))),
            ],
            ledger,
        }
    }
}
