//! `forward`: generator -> router -> sink, native. The generator, both ends of the router's rings and the sink run in
//! one thread on one CPU, the router's vCPU on another, as DPDK's l3fwd and its generator do.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use engine::{Class, Confinement, Duty, Guest};
use switch::Source;
use switch::port::pump;

use super::exits::exits;
use crate::cores;
use crate::device;
use crate::experiment::{Experiment, Options, Sample};
use crate::generator::{Generator, GeneratorCounters};
use crate::ledger_snapshot::Snapshot;
use crate::sink::{Expected, Sink};

/// Bursts between two looks at the clock.
const BURSTS: usize = 64;
/// After a slice: so long nothing may come until the next begins; the router's vCPU goes to sleep meanwhile.
const DRAIN: Duration = Duration::from_millis(5);
/// After so long without a frame the missing ones are lost; a vCPU may have been descheduled in between.
const GIVE_UP: Duration = Duration::from_millis(200);

/// One step of the warm-up, and the most that it may take.
const WARM_UP: Duration = Duration::from_millis(20);
const WARM_UP_LIMIT: Duration = Duration::from_secs(10);

/// See the head of this file.
pub struct Forward {
    options: Options,
    cpus: (usize, usize),
    parts: Option<Parts>,
}

struct Parts {
    router: Guest,
    generator: Generator,
    offered: Arc<GeneratorCounters>,
    into: Arc<dyn switch::Sink>,
    out_of: Box<dyn Source>,
    back: Box<dyn Source>,
    sink: Sink,
    /// Passes over generator, rings and sink: all, and those in which nothing moved.
    passes: (u64, u64),
}

/// What was measured during one slice, before the rest came in.
struct Slice {
    packets: u64,
    seconds: f64,
    /// Passes over generator, rings and sink: all, and those in which nothing moved.
    passes: (u64, u64),
    exits: u64,
}

impl Forward {
    /// On the first two CPUs that this process may use, or those of the options.
    pub fn new(options: &Options) -> Result<Self> {
        let cpus = if options.cpus.is_empty() { cores::allowed()? } else { options.cpus.clone() };
        ensure!(cpus.len() >= 2, "forward needs two CPUs: one for the router, one for everything else");
        Ok(Self { options: options.clone(), cpus: (cpus[0], cpus[1]), parts: None })
    }
}

impl Experiment for Forward {
    fn id(&self) -> &'static str {
        "forward"
    }

    fn case(&self) -> String {
        let Options { engine, nic, frame, routes, vcpus, sandbox, .. } = &self.options;
        let routes = if *routes > 2 { format!("/routes={routes}") } else { String::new() };
        let vcpus = if *vcpus > 1 { format!("/vcpus={vcpus}") } else { String::new() };
        let sandbox = if *sandbox == Confinement::On { "/sandbox" } else { "" };
        format!("{engine}/{nic}/{frame}{routes}{vcpus}{sandbox}")
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn prepare(&mut self) -> Result<()> {
        let plan = device::plan(&self.options, &[self.cpus.1])?;
        let mut router = device::router(&plan, &self.options, Duty::default())?;
        router.confine(self.options.sandbox);
        router.start()?;
        let settings = device::traffic(&self.options);
        let generator = Generator::new(&settings)?;
        let sink = Sink::new(Expected {
            flows: settings.flow_count(),
            frame: settings.frame,
            ttl: 63,
            destination_mac: Some(frame::Mac(device::STATION_MAC)),
        });
        let (near, far) = (&router.nics()[0], &router.nics()[1]);
        self.parts = Some(Parts {
            offered: generator.counters(),
            generator,
            into: near.sink(),
            back: near.source(),
            out_of: far.source(),
            sink,
            router,
            passes: (0, 0),
        });
        cores::pin(self.cpus.0)?;
        let parts = self.parts.as_mut().context("just made")?;
        // The router announces itself; that is not the experiment's.
        parts.settle();
        parts.warm_up(settings.flow_count());
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let parts = self.parts.as_mut().context("forward was not prepared")?;
        let before = parts.ledger();
        let slice = parts.slice_apart(length, self.cpus.0, self.options.sandbox)?;
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

impl Parts {
    /// Until every flow has passed twice: caches are warm, and the pages of the route table that the flows need are
    /// mapped into the guest.
    fn warm_up(&mut self, flows: u32) {
        let start = Instant::now();
        while self.sink.counters().frames.get() < 2 * u64::from(flows) && start.elapsed() < WARM_UP_LIMIT {
            self.run(WARM_UP);
        }
        self.settle();
    }

    /// One slice, in a thread of its own on this CPU, confined as the I/O threads of a running file are or not: a thread
    /// that has been confined stays so.
    fn slice_apart(&mut self, length: Duration, cpu: usize, sandbox: Confinement) -> Result<Slice> {
        let body = || {
            cores::pin(cpu)?;
            sandbox.enter(Class::Vhost)?;
            Ok(self.slice(length))
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("lab/vhost".to_owned()).spawn_scoped(scope, body)?;
            thread.join().map_err(|_| anyhow!("the measuring thread panicked"))?
        })
    }

    fn slice(&mut self, length: Duration) -> Slice {
        let (before, passes, left) = (self.sink.counters().frames.get(), self.passes, exits(&self.router));
        let seconds = self.run(length);
        // The rate is what came in that time; what is still under way counts as neither sent nor lost.
        let packets = self.sink.counters().frames.get() - before;
        let passes = (self.passes.0 - passes.0, self.passes.1 - passes.1);
        let slice = Slice { packets, seconds, passes, exits: exits(&self.router) - left };
        self.settle();
        slice
    }

    /// Offers frames and takes what comes for about `length`; returns the seconds it took.
    fn run(&mut self, length: Duration) -> f64 {
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                let moved = pump(&mut self.generator, self.into.as_ref()) + self.collect();
                self.passes.0 += 1;
                self.passes.1 += u64::from(moved == 0);
            }
        }
        start.elapsed().as_secs_f64()
    }

    fn collect(&mut self) -> usize {
        pump(self.out_of.as_mut(), &self.sink)
    }

    /// Takes what is still under way: until as much has come as was offered, or nothing comes any more.
    fn settle(&mut self) {
        let mut quiet = Instant::now();
        loop {
            if self.collect() + pump(self.back.as_mut(), &self.sink) > 0 {
                quiet = Instant::now();
            }
            let counters = self.sink.counters();
            let missing = self.offered.frames.get() > counters.frames.get() - counters.foreign.get();
            if quiet.elapsed() > if missing { GIVE_UP } else { DRAIN } {
                return;
            }
        }
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        ledger.take("generator", &*self.offered);
        ledger.take("sink", self.sink.counters());
        self.router.each_group(&mut |prefix, group| ledger.take(prefix, group));
        ledger
    }

    fn sample(&self, slice: Slice, ledger: Snapshot) -> Sample {
        let Slice { packets, seconds, passes, exits } = slice;
        let get = |name: &str| ledger.get(name).unwrap_or(0);
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        Sample {
            value: packets as f64 / seconds * 1e-6,
            packets,
            lost: get("generator.frames").saturating_sub(get("sink.frames") - get("sink.foreign")),
            exits: Some(exits),
            more: vec![
                ("bad", (get("sink.bad")) as f64),
                ("empty_polls_host", share(passes.1, passes.0)),
                ("empty_polls_guest", share(get("vcpu0.polls_empty"), get("vcpu0.polls"))),
                ("burst", share(get("vcpu0.near.rx_frames"), get("vcpu0.near.rx_bursts"))),
            ],
            ledger,
        }
    }
}
