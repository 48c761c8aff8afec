//! Port to port in one thread: generator to sink, with nothing in between (`generator`: measures the generator
//! and sink themselves) or through a switch (`switch`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use port::pump;

use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::generator::{Generator, GeneratorCounters, Settings};
use crate::ledger_snapshot::Snapshot;
use crate::rig::{Through, Way};
use crate::scenario::for_about;
use crate::sink::{Expected, Sink};

/// Bursts between two readings of the clock.
const BURSTS: usize = 64;

/// Creates the case with frame size, flows and rate of `options`.
pub(super) fn case(through: Through, options: &Options) -> Experiment {
    let (frame, flows, rate) = (options.frame, options.flows, options.rate);
    with(through, Settings { frame, flows, rate, ..Settings::default() })
}

/// Creates the case with any settings.
pub(crate) fn with(through: Through, settings: Settings) -> Experiment {
    let id = match through {
        Through::Wire => "generator",
        Through::Switch => "switch",
    };
    Experiment::new((id, "mpps"), format!("port/{}", settings.frame), move || Ports::new(through, &settings))
}

struct Ports {
    generator: Generator,
    offered: Arc<GeneratorCounters>,
    sink: Arc<Sink>,
    way: Way,
}

impl Ports {
    fn new(through: Through, settings: &Settings) -> Result<Self> {
        let generator = Generator::new(settings)?;
        let sink = Arc::new(Sink::new(Expected {
            flows: settings.flow_count(),
            frame: settings.frame,
            six: settings.is_six(),
            ttl: 64,
            destination_mac: Some(settings.destination_mac),
        }));
        let way = Way::new(through, sink.clone(), settings.destination_mac)?;
        Ok(Self { offered: generator.counters(), generator, sink, way })
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        ledger.take("generator", &*self.offered);
        self.way.take(&mut ledger);
        ledger.take("sink", self.sink.counters());
        ledger
    }
}

impl Rig for Ports {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let before = self.ledger();
        let seconds = for_about(length, BURSTS, || {
            pump(&mut self.generator, &*self.way.entry);
        });
        let ledger = self.ledger().since(&before);
        let packets = ledger.count("sink.frames");
        Ok(Sample {
            lost: ledger.count("generator.frames") - packets,
            more: [("bad", (ledger.count("sink.bad") + ledger.count("sink.foreign")) as f64)].into(),
            ledger,
            ..Sample::mpps(packets, seconds)
        })
    }
}
