//! What feeds and empties one pair of queues, or all pairs at once: a generator, the host's end of the rings, a sink.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use engine::Guest;
use switch::Source;
use switch::port::pump;

use crate::device;
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
    into: Arc<dyn switch::Sink>,
    out_of: Box<dyn Source>,
    back: Box<dyn Source>,
    sink: Sink,
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
        let sink = device::sink(&share);
        let (near, far) = (&router.nics()[0], &router.nics()[1]);
        let (into, back, out_of) = if lanes == 1 {
            (near.sink(), near.source(), far.source())
        } else {
            (near.sink_of(number, lanes), near.source_of(number), far.source_of(number))
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
        pump(self.out_of.as_mut(), &self.sink)
    }

    fn is_missing_some(&self) -> bool {
        let came = self.came();
        self.offered.frames.get() > came.frames.get() - came.foreign.get()
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
    let mut quiet = Instant::now();
    loop {
        let came: usize =
            lanes.iter_mut().map(|lane| lane.collect() + pump(lane.back.as_mut(), &lane.sink)).sum();
        if came > 0 {
            quiet = Instant::now();
        }
        if quiet.elapsed() > if lanes.iter().any(Lane::is_missing_some) { GIVE_UP } else { DRAIN } {
            return;
        }
    }
}
