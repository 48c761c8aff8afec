//! Port to port in one thread: generator to sink, with nothing in between (`generator`: the measuring room's own
//! speed) or through a switch (`switch`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use port::pump;

use super::through::{Through, Way};
use crate::experiment::{Experiment, Options, Sample};
use crate::generator::{Generator, GeneratorCounters, Settings};
use crate::ledger_snapshot::Snapshot;
use crate::sink::{Expected, Sink};

/// Bursts between two looks at the clock.
const BURSTS: usize = 64;

/// See the head of this file.
pub struct PortToPort {
    through: Through,
    settings: Settings,
    ports: Option<Ports>,
}

struct Ports {
    generator: Generator,
    offered: Arc<GeneratorCounters>,
    sink: Arc<Sink>,
    way: Way,
}

impl Ports {
    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        ledger.take("generator", &*self.offered);
        self.way.take(&mut ledger);
        ledger.take("sink", self.sink.counters());
        ledger
    }
}

impl PortToPort {
    /// Frame size, flows and rate as in `options`.
    pub fn new(through: Through, options: &Options) -> Self {
        let (frame, flows, rate) = (options.frame, options.flows, options.rate);
        Self::with(through, Settings { frame, flows, rate, ..Settings::default() })
    }

    /// Any settings.
    pub fn with(through: Through, settings: Settings) -> Self {
        Self { through, settings, ports: None }
    }
}

impl Experiment for PortToPort {
    fn id(&self) -> &'static str {
        match self.through {
            Through::Wire => "generator",
            Through::Switch => "switch",
        }
    }

    fn case(&self) -> String {
        format!("port/{}", self.settings.frame)
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn prepare(&mut self) -> Result<()> {
        let settings = &self.settings;
        let generator = Generator::new(settings)?;
        let sink = Arc::new(Sink::new(Expected {
            flows: settings.flow_count(),
            frame: settings.frame,
            ttl: 64,
            destination_mac: Some(settings.destination_mac),
        }));
        let way = Way::new(self.through, sink.clone(), settings.destination_mac)?;
        self.ports = Some(Ports { offered: generator.counters(), generator, sink, way });
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let ports = self.ports.as_mut().context("the generator was not prepared")?;
        let before = ports.ledger();
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                pump(&mut ports.generator, &*ports.way.entry);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let ledger = ports.ledger().since(&before);
        let counted = |name| ledger.get(name).unwrap_or(0);
        let packets = counted("sink.frames");
        Ok(Sample {
            value: packets as f64 / seconds * 1e-6,
            packets,
            lost: counted("generator.frames") - packets,
            exits: None,
            more: vec![("bad", (counted("sink.bad") + counted("sink.foreign")) as f64)],
            ledger,
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.ports = None;
        Ok(())
    }
}
