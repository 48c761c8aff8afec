//! What feeds and empties one pair of queues, or all pairs at once: a generator, the host's end of the rings, a sink.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use engine::Guest;
use nic_port::NicQueues;
use port::pump;

use crate::device;
use crate::experiments::mover::Mover;
use crate::generator::{Generator, GeneratorCounters, Settings};
use crate::sink::{Sink, SinkCounters};

/// Bursts between two looks at the clock.
const BURSTS: usize = 64;
/// After a slice: so long nothing may come until the next begins; the router's vCPUs go to sleep meanwhile.
const DRAIN: Duration = Duration::from_millis(5);
/// After so long without a frame the missing ones are lost; a vCPU may have been descheduled in between.
const GIVE_UP: Duration = Duration::from_millis(200);

/// See the head of this file.
pub(super) struct Lane {
    generator: Generator,
    offered: Arc<GeneratorCounters>,
    into: Arc<dyn port::Sink>,
    out_of: Mover,
    back: Mover,
    sink: Arc<Sink>,
    flows: u32,
    /// Passes over generator, rings and sink: all, and those in which nothing moved.
    pub(super) passes: (u64, u64),
}

impl Lane {
    /// Lane `number` of `lanes`, with its share of the flows. A single lane spreads its frames over all pairs of queues;
    /// of several each has a pair to itself, as if a NIC had spread the flows.
    pub(super) fn new(router: &Guest, settings: &Settings, (number, lanes): (usize, usize)) -> Result<Self> {
        let share = Settings {
            source: settings.source + number as u32,
            flows: settings.flows.div_ceil(lanes as u32),
            ..settings.clone()
        };
        let generator = Generator::new(&share)?;
        let sink = Arc::new(device::sink(&share));
        let (near, far) = (&router.nics()[0], &router.nics()[1]);
        let (into, back, out_of) = if lanes == 1 {
            (near.sink(), Mover::new(near, sink.clone()), Mover::new(far, sink.clone()))
        } else {
            let of = |nic: &Arc<NicQueues>| Mover::of_pair(nic, nic.source_of(number), sink.clone());
            (near.sink_of(number, lanes), of(near), of(far))
        };
        let (offered, flows) = (generator.counters(), share.flow_count());
        Ok(Self { generator, offered, into, out_of, back, sink, flows, passes: (0, 0) })
    }

    /// What was offered.
    pub(super) fn offered(&self) -> &GeneratorCounters {
        &self.offered
    }

    /// What came.
    pub(super) fn came(&self) -> &SinkCounters {
        self.sink.counters()
    }

    /// Whether every flow has passed twice.
    pub(super) fn is_warm(&self) -> bool {
        self.came().frames.get() >= 2 * u64::from(self.flows)
    }

    fn pass(&mut self) {
        let moved = pump(&mut self.generator, self.into.as_ref()) + self.collect();
        self.passes.0 += 1;
        self.passes.1 += u64::from(moved == 0);
    }

    fn collect(&mut self) -> usize {
        self.out_of.pump()
    }

    fn is_missing_some(&self) -> bool {
        let came = self.came();
        self.offered.frames.get() > came.frames.get().saturating_sub(came.foreign.get())
    }
}

/// Offers frames on these lanes and takes what comes, for about `length`; returns the seconds it took.
pub(super) fn run(lanes: &mut [Lane], length: Duration) -> f64 {
    let start = Instant::now();
    while start.elapsed() < length {
        for _ in 0..BURSTS {
            lanes.iter_mut().for_each(Lane::pass);
        }
    }
    start.elapsed().as_secs_f64()
}

/// Takes what is still under way: until as much has come as was offered, or nothing comes any more.
pub(super) fn settle(lanes: &mut [Lane]) {
    let (mut quiet, mut before) = (Instant::now(), 0);
    loop {
        lanes.iter_mut().for_each(|lane| {
            lane.collect();
            lane.back.pump();
        });
        // Not what was moved here: frames may have left inside of the guest's register accesses.
        let came = lanes.iter().map(|lane| lane.came().frames.get()).sum::<u64>();
        if came != before {
            (quiet, before) = (Instant::now(), came);
        }
        if quiet.elapsed() > if lanes.iter().any(Lane::is_missing_some) { GIVE_UP } else { DRAIN } {
            return;
        }
    }
}
