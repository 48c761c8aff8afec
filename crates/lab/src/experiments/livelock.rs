//! `livelock`: an application that spends a fixed time on each frame, behind a bounded queue that the driver fills. More and
//! more frames are offered. Unprotected, each interrupt goes before the application: beyond its capacity the guest takes
//! frames only to throw them away (receive livelock). Protected, the driver polls with a budget and leaves frames in the
//! ring while the queue is full, so that what is too much is dropped early, at no cost.
//!
//! The figure is what the application keeps of its best rate under the heaviest load: delivered there / most delivered at
//! any load. The load steps are parts of the capacity that the time for each frame allows; delivered and offered rates of
//! each step stand beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bootinfo::{Role, TrafficInfo};
use engine::{Duty, Guest};
use host::cores;
use port::Sink;
use port::pump;

use super::accesses;
use super::exits::exits;
use super::mover::Mover;
use crate::device::{self, Seats};
use crate::experiment::{Experiment, Options, Sample};
use crate::generator::Generator;
use crate::ledger_snapshot::Snapshot;

/// Offered load, in parts of the application's capacity, and the names of the two rates at each step. It begins where a driver
/// that pays half a millisecond for an interrupt still carries every frame.
const STEPS: [(f64, &str, &str); 12] = [
    (0.002, "offered_0.002_kpps", "delivered_0.002_kpps"),
    (0.005, "offered_0.005_kpps", "delivered_0.005_kpps"),
    (0.01, "offered_0.01_kpps", "delivered_0.01_kpps"),
    (0.02, "offered_0.02_kpps", "delivered_0.02_kpps"),
    (0.05, "offered_0.05_kpps", "delivered_0.05_kpps"),
    (0.1, "offered_0.1_kpps", "delivered_0.1_kpps"),
    (0.2, "offered_0.2_kpps", "delivered_0.2_kpps"),
    (0.5, "offered_0.5_kpps", "delivered_0.5_kpps"),
    (1.0, "offered_1_kpps", "delivered_1_kpps"),
    (2.0, "offered_2_kpps", "delivered_2_kpps"),
    (4.0, "offered_4_kpps", "delivered_4_kpps"),
    (8.0, "offered_8_kpps", "delivered_8_kpps"),
];
/// Shortest step: some hundreds of frames, and many turns of queue and ring.
const STEP: Duration = Duration::from_millis(25);
/// Part of a step that passes before it is measured: queue and ring fill.
const LEAD: f64 = 0.25;
/// After a step: until the application has nothing more to do.
const REST: Duration = Duration::from_millis(5);
const GIVE_UP: Duration = Duration::from_millis(200);

/// See the head of this file.
pub struct Livelock {
    options: Options,
    protected: bool,
    seats: Seats,
    parts: Option<Parts>,
}

struct Parts {
    guest: Guest,
    into: Arc<dyn Sink>,
    /// What the guest sends, which is nothing: it keeps the time of interrupts.
    back: Mover,
}

/// One step.
struct Step {
    seconds: f64,
    offered: u64,
    delivered: u64,
}

impl Livelock {
    /// The measuring thread and the guest on the CPUs of the options.
    pub fn new(protected: bool, options: &Options) -> Result<Self> {
        ensure!(
            options.vcpus == 1,
            "livelock needs the driver and the application on one vCPU: leave --vcpus out"
        );
        Ok(Self { options: options.clone(), protected, seats: Seats::of(options)?, parts: None })
    }

    fn duty(&self) -> Duty {
        let traffic = TrafficInfo {
            work_ns: self.options.work,
            queue_len: self.options.queue,
            protected: u32::from(self.protected),
            ..TrafficInfo::default()
        };
        Duty { role: Role::Application, traffic }
    }
}

impl Experiment for Livelock {
    fn id(&self) -> &'static str {
        "livelock"
    }

    fn case(&self) -> String {
        let Options { frame, work, queue, .. } = self.options;
        let how = if self.protected { "protected" } else { "unprotected" };
        format!("{}/{frame}/work={work}/queue={queue}/{how}", self.options.device())
    }

    fn unit(&self) -> &'static str {
        "share"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        self.seats.pair()
    }

    fn prepare(&mut self) -> Result<()> {
        let ground = device::ground(&self.options)?;
        let mut guest = Guest::new(&device::end_plan(&self.options, &self.seats)?, self.duty(), &ground)?;
        let into = guest.nics()[0].sink();
        let back = Mover::new(&guest.nics()[0], Arc::new(port::Null::default()));
        guest.start()?;
        cores::pin(self.seats.host)?;
        self.parts = Some(Parts { guest, into, back });
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let capacity = 1e9 / f64::from(self.options.work.max(1));
        let length = STEP.max(length / STEPS.len() as u32);
        let parts = self.parts.as_mut().context("livelock was not prepared")?;
        let (before, left) = (parts.ledger(), exits(&parts.guest));
        let (mut more, mut rates) = (Vec::new(), Vec::new());
        let mut packets = 0;
        for (part, offered_name, delivered_name) in STEPS {
            let options = Options { rate: Some(part * capacity), ..self.options.clone() };
            let Step { seconds, offered, delivered } = parts.step(&options, length)?;
            let kpps = |frames: u64| frames as f64 / seconds * 1e-3;
            rates.push(kpps(delivered));
            more.extend([(offered_name, kpps(offered)), (delivered_name, kpps(delivered))]);
            packets += delivered;
        }
        if let Some(fault) = parts.guest.fault() {
            bail!("the guest stopped: {fault}");
        }
        let (ledger, left) = (parts.ledger().since(&before), exits(&parts.guest) - left);
        let best = rates.iter().copied().fold(0.0, f64::max);
        ensure!(best > 0.0, "the application got nothing");
        let last = rates.last().copied().unwrap_or(0.0);
        more.insert(0, ("best_kpps", best));
        more.extend(accesses::per_frame(&ledger, packets));
        Ok(Sample { value: last / best, packets, lost: 0, exits: Some(left), more, ledger })
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.guest.stop();
        }
        Ok(())
    }
}

impl Parts {
    /// Offers frames at the rate of the options, lead and measured time, then lets the application finish.
    fn step(&mut self, options: &Options, length: Duration) -> Result<Step> {
        let mut generator = Generator::new(&device::traffic(options))?;
        let offered = generator.counters();
        let lead = length.mul_f64(LEAD);
        self.offer(&mut generator, lead);
        let (sent, done, start) = (offered.frames.get(), self.delivered(), Instant::now());
        self.offer(&mut generator, length - lead);
        let seconds = start.elapsed().as_secs_f64();
        let step = Step { seconds, offered: offered.frames.get() - sent, delivered: self.delivered() - done };
        self.settle();
        Ok(step)
    }

    fn offer(&mut self, generator: &mut Generator, length: Duration) {
        let start = Instant::now();
        while start.elapsed() < length {
            pump(generator, &*self.into);
            self.back.pump();
        }
    }

    fn delivered(&self) -> u64 {
        self.guest.machine().shared().vcpus[0].application.delivered.get()
    }

    /// Until the application has done nothing for a while.
    fn settle(&mut self) {
        let (start, mut quiet, mut before) = (Instant::now(), Instant::now(), self.delivered());
        while start.elapsed() < GIVE_UP && quiet.elapsed() < REST {
            self.back.pump();
            let now = self.delivered();
            if now != before {
                (quiet, before) = (Instant::now(), now);
            }
        }
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        let vcpu = &self.guest.machine().shared().vcpus[0];
        ledger.take("application", &vcpu.application);
        ledger.take("guest.nic0", &vcpu.nics[0]);
        ledger.take("guest.exit", &*self.guest.machine().exits()[0]);
        ledger.take("rx", &self.guest.nics()[0].rx_ledger());
        accesses::take(&self.guest, &mut ledger);
        ledger
    }
}
