//! `forward`: generator -> router -> sink, native. The generator, the device side of the router's rings and the sink run
//! in one thread on one CPU, the router's vCPU on another, like DPDK's l3fwd and its traffic generator.
//!
//! With several vCPUs each has a pair of queues. The host's threads get the first half of the CPUs, the vCPUs the rest,
//! assigned round-robin. With as many queues as vCPUs, each pair has a generator and a sink of its own, so that a full
//! pair does not block the others (head-of-line); with one queue, a single generator spreads its frames over the pairs by
//! flow. With more than two NICs each two have a generator and a sink of their own.

use std::sync::Arc;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use engine::{Class, Confinement, Guest, GuestTask};
use host::cores;
use vmm::RouteTable;

use super::{Case, kernel_fed};
use crate::device;
use crate::experiment::{Attachment, Experiment, Options, Rig, Sample};
use crate::metric::exits;
use crate::rig::lane::{self, Lane, run, settle};

/// Length of one step of the warm-up, and its limit.
const WARM_UP: Duration = Duration::from_millis(20);
const WARM_UP_LIMIT: Duration = Duration::from_secs(10);
/// Number of flows that a case's name leaves out.
const USUAL_FLOWS: u32 = 100;

/// Runs through the kernel with `--attach tap`; otherwise on the CPUs of the options, or all those in the affinity mask.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    if options.attach == Attachment::Tap {
        return kernel_fed::cases(options);
    }
    let cpus = if options.cpus.is_empty() { cores::allowed()? } else { options.cpus.clone() };
    let seats = Seats::new(&cpus, usize::from(options.vcpus))?;
    let (name, pair, options) = (name(options), seats.pair(), options.clone());
    let described = Experiment::new(("forward", "mpps"), name, move || ForwardRig::start(&options, &seats));
    Ok(vec![described.between(pair).into()])
}

fn name(options: &Options) -> String {
    let Options { frame, routes, queues, flows, nics, sandbox, six, .. } = options;
    let several =
        |name: &str, n: u32, usual: u32| if n > usual { format!("/{name}={n}") } else { String::new() };
    let sandbox = if *sandbox == Confinement::On { "/sandbox" } else { "" };
    let (routes, queues) = (several("routes", *routes, 2), several("queues", (*queues).into(), 1));
    let (device, vcpus, nics) =
        (options.device(), options.several_vcpus(), several("nics", (*nics).into(), 2));
    let family = if *six { "/ipv6" } else { "" };
    let flows = if *flows == USUAL_FLOWS { String::new() } else { format!("/flows={flows}") };
    format!("{device}/{frame}{family}{routes}{flows}{queues}{vcpus}{nics}{sandbox}")
}

/// CPUs of the threads.
pub(super) struct Seats {
    host: Vec<usize>,
    vcpus: Vec<usize>,
}

/// The router between its generators and sinks.
pub(super) struct ForwardRig {
    router: Guest,
    benches: Vec<HostCpu>,
    sandbox: Confinement,
}

/// CPU of the host, and the lanes that it serves.
struct HostCpu {
    cpu: usize,
    lanes: Vec<Lane>,
}

/// Measurements of one slice, taken before the remaining frames arrived.
#[derive(Default)]
struct Slice {
    packets: u64,
    seconds: f64,
    exits: u64,
}

impl Seats {
    pub(super) fn new(cpus: &[usize], vcpus: usize) -> Result<Self> {
        ensure!(cpus.len() >= 2, "forward needs two CPUs: one for the router, one for everything else");
        let (host, rest) = cpus.split_at(vcpus.clamp(1, cpus.len() / 2));
        Ok(Self { host: host.to_vec(), vcpus: rest[..rest.len().min(vcpus)].to_vec() })
    }

    pub(super) fn pair(&self) -> Option<(usize, usize)> {
        Some((*self.host.first()?, *self.vcpus.first()?))
    }
}

impl HostCpu {
    /// Runs the lanes in the calling thread, confined or not as the I/O threads of a running file are. Confinement is
    /// permanent for the thread.
    fn slice(&mut self, router: &Guest, length: Duration, sandbox: Confinement) -> Result<Slice> {
        cores::pin(self.cpu)?;
        sandbox.enter(Class::Vhost)?;
        let came = self.came();
        let seconds = run(&mut self.lanes, length);
        // The rate counts frames that arrived in that time; frames still in flight count as neither sent nor lost.
        let slice = Slice { packets: self.came() - came, seconds, exits: exits(router) };
        settle(&mut self.lanes);
        Ok(slice)
    }

    fn came(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.received().frames.get()).sum()
    }
}

impl ForwardRig {
    fn start(options: &Options, seats: &Seats) -> Result<Self> {
        Self::start_with(options, seats, &mut |_| {})
    }

    /// Starts a router whose plan was changed.
    pub(super) fn start_with(
        options: &Options,
        seats: &Seats,
        change: &mut dyn FnMut(&mut config::Router),
    ) -> Result<Self> {
        let mut plan = device::plan(options, &seats.vcpus)?;
        change(&mut plan);
        let mut router = device::router(&plan, options, GuestTask::default())?;
        router.confine(options.sandbox);
        router.start()?;
        let Options { queues, vcpus, sandbox, .. } = *options;
        // Lanes: queue pairs with a generator of their own, or pairs of NICs.
        let (lanes, pairs) = (if queues >= vcpus { usize::from(vcpus) } else { 1 }, device::pairs(options));
        let (settings, hosts) = (device::traffic(options), seats.host.len().min(lanes));
        let mut benches: Vec<_> =
            seats.host[..hosts].iter().map(|cpu| HostCpu { cpu: *cpu, lanes: Vec::new() }).collect();
        for number in 0..lanes.max(pairs) {
            let lane = if pairs > 1 {
                Lane::of_nics(&router, &device::traffic_of(options, number), number)
            } else {
                Lane::new(&router, &settings, (number, lanes))
            };
            benches[number % hosts].lanes.push(lane?);
        }
        cores::pin(seats.host[0])?;
        let mut parts = Self { router, benches, sandbox };
        // Discard the router's own announcements (gratuitous ARP).
        parts.benches.iter_mut().for_each(|bench| settle(&mut bench.lanes));
        parts.warm_up();
        Ok(parts)
    }

    /// The router's routes.
    pub(super) fn table(&self) -> &Arc<RouteTable> {
        self.router.table()
    }

    /// Runs until every flow has passed twice: then caches are warm, and the pages of the route table that the flows need
    /// are mapped into the guest.
    fn warm_up(&mut self) {
        for bench in &mut self.benches {
            let start = Instant::now();
            while !bench.lanes.iter().all(Lane::is_warm) && start.elapsed() < WARM_UP_LIMIT {
                run(&mut bench.lanes, WARM_UP);
            }
            settle(&mut bench.lanes);
        }
    }

    /// Measures one slice, with a thread for each bench.
    fn slice(&mut self, length: Duration) -> Result<Slice> {
        let (router, sandbox) = (&self.router, self.sandbox);
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
            all.exits = slice.exits.saturating_sub(before).max(all.exits);
        }
        Ok(all)
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.benches.iter().flat_map(|bench| &bench.lanes)
    }

    /// Passes over generator, rings and sink so far: all, and those that moved nothing.
    fn passes(&self) -> (u64, u64) {
        self.lanes().fold((0, 0), |sum, lane| (sum.0 + lane.passes.0, sum.1 + lane.passes.1))
    }
}

impl Rig for ForwardRig {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let (before, passed) = (lane::ledger(&self.router, self.lanes()), self.passes());
        let Slice { packets, seconds, exits } = self.slice(length)?;
        let ledger = lane::ledger(&self.router, self.lanes()).since(&before);
        let passes = (self.passes().0 - passed.0, self.passes().1 - passed.1);
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let vcpus = self.router.plan().vcpus;
        let all = |name: &str| (0..vcpus).map(|n| ledger.count(&format!("vcpu{n}.{name}"))).sum::<u64>();
        let reordered = ["sink.late", "sink.repeated", "sink.stale"].map(|name| ledger.count(name));
        let more = [
            ("bad", ledger.count("sink.bad") as f64),
            ("reordered", reordered.iter().sum::<u64>() as f64),
            ("empty_polls_host", share(passes.1, passes.0)),
            ("empty_polls_guest", share(all("polls_empty"), all("polls"))),
            ("burst", share(all("near.rx_frames"), all("near.rx_bursts"))),
        ];
        Ok(Sample {
            lost: lane::lost(&ledger),
            exits: Some(exits),
            more: more.into(),
            ledger,
            ..Sample::mpps(packets, seconds)
        })
    }
}
