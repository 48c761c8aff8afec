//! Lane: a generator, the device side of the rings, and a sink, for one pair of queues or for all pairs at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engine::Guest;
use nic_port::NicQueues;
use port::pump;

use super::Mover;
use crate::device;
use crate::generator::{Generator, GeneratorCounters, Settings};
use crate::ledger_snapshot::Snapshot;
use crate::scenario::for_about;
use crate::sink::{Sink, SinkCounters};

/// Bursts between two readings of the clock.
const BURSTS: usize = 64;
/// Quiet time after a slice, in which no frame may arrive; the router's vCPUs go to sleep meanwhile.
const DRAIN: Duration = Duration::from_millis(5);
/// Time without a frame after which the missing ones count as lost; a vCPU may have been descheduled meanwhile.
const GIVE_UP: Duration = Duration::from_millis(200);

/// Lane; see the module documentation.
pub(crate) struct Lane {
    generator: Generator,
    offered: Arc<GeneratorCounters>,
    into: Arc<dyn port::Sink>,
    out_of: Mover,
    back: Mover,
    sink: Arc<Sink>,
    flows: u32,
    /// Passes over generator, rings and sink: all, and those that moved nothing.
    pub(crate) passes: (u64, u64),
}

impl Lane {
    /// Creates lane `number` of `lanes`, with its share of the flows. A single lane spreads its frames over all pairs of
    /// queues; with several, each has a pair to itself, as if a NIC had spread the flows.
    pub(crate) fn new(router: &Guest, settings: &Settings, (number, lanes): (usize, usize)) -> Result<Self> {
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

    /// Creates the lane of a pair of NICs, from the first of them to the second.
    ///
    /// # Errors
    /// The router has no such pair, or the settings are invalid.
    pub(crate) fn of_nics(router: &Guest, settings: &Settings, pair: usize) -> Result<Self> {
        let nic = |number: usize| router.nics().get(number).context("a router without this pair of NICs");
        let (near, far) = (nic(2 * pair)?, nic(2 * pair + 1)?);
        let generator = Generator::new(settings)?;
        let sink = Arc::new(device::sink(settings));
        let (into, back, out_of) =
            (near.sink(), Mover::new(near, sink.clone()), Mover::new(far, sink.clone()));
        let (offered, flows) = (generator.counters(), settings.flow_count());
        Ok(Self { generator, offered, into, out_of, back, sink, flows, passes: (0, 0) })
    }

    /// Counters of the frames that arrived.
    pub(crate) fn received(&self) -> &SinkCounters {
        self.sink.counters()
    }

    /// Returns true if every flow has passed twice.
    pub(crate) fn is_warm(&self) -> bool {
        self.received().frames.get() >= 2 * u64::from(self.flows)
    }

    fn pass(&mut self) {
        let moved = self.offer() + self.collect();
        self.passes.0 += 1;
        self.passes.1 += u64::from(moved == 0);
    }

    /// Offers a burst; returns the frames moved.
    pub(crate) fn offer(&mut self) -> usize {
        pump(&mut self.generator, self.into.as_ref())
    }

    /// Takes a burst of forwarded frames; returns the frames moved.
    pub(crate) fn collect(&mut self) -> usize {
        self.out_of.pump()
    }

    /// Takes a burst of forwarded frames, and of frames that the router sends towards the generator; returns the frames
    /// moved.
    pub(crate) fn collect_both(&mut self) -> usize {
        self.collect() + self.back.pump()
    }

    /// Offered frames that have not arrived, including those lost.
    pub(crate) fn under_way(&self) -> u64 {
        let came = self.received();
        self.offered.frames.get().saturating_sub(came.frames.get().saturating_sub(came.foreign.get()))
    }
}

/// Offers and collects frames on these lanes for about `length`; returns the seconds it took.
pub(crate) fn run(lanes: &mut [Lane], length: Duration) -> f64 {
    for_about(length, BURSTS, || lanes.iter_mut().for_each(Lane::pass))
}

/// Collects the frames in flight, until all offered frames have arrived or no more do.
pub(crate) fn settle(lanes: &mut [Lane]) {
    let (mut quiet, mut before) = (Instant::now(), 0);
    loop {
        lanes.iter_mut().for_each(|lane| {
            lane.collect_both();
        });
        // Count frames at the sink, not those moved here: frames may have left within the guest's register accesses.
        let came = lanes.iter().map(|lane| lane.received().frames.get()).sum::<u64>();
        if came != before {
            (quiet, before) = (Instant::now(), came);
        }
        if quiet.elapsed() > if lanes.iter().any(|lane| lane.under_way() > 0) { GIVE_UP } else { DRAIN } {
            return;
        }
    }
}

/// Counters of these lanes and of their router.
pub(crate) fn ledger<'l>(router: &Guest, lanes: impl IntoIterator<Item = &'l Lane>) -> Snapshot {
    let (offered, came) = (GeneratorCounters::default(), SinkCounters::default());
    for lane in lanes {
        offered.add_all(&lane.offered);
        came.add_all(lane.received());
    }
    let mut ledger = Snapshot::new();
    ledger.take("generator", &offered);
    ledger.take("sink", &came);
    router.each_group(&mut |prefix, group| ledger.take(prefix, group));
    ledger
}

/// Frames of the lanes that were lost, by their counters.
pub(crate) fn lost(ledger: &Snapshot) -> u64 {
    let came = ledger.count("sink.frames") - ledger.count("sink.foreign");
    ledger.count("generator.frames").saturating_sub(came)
}
