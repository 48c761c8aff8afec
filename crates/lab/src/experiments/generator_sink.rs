//! `generator`: the measuring room's own speed, generator to sink in one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use switch::port::pump;

use crate::experiment::{Experiment, Options, Sample};
use crate::generator::{Generator, GeneratorCounters, Settings};
use crate::ledger_snapshot::Snapshot;
use crate::sink::{Expected, Sink};

/// Bursts between two looks at the clock.
const BURSTS: usize = 64;

/// See the head of this file.
pub struct GeneratorSink {
    settings: Settings,
    ports: Option<Ports>,
}

struct Ports {
    generator: Generator,
    offered: Arc<GeneratorCounters>,
    sink: Sink,
}

impl Ports {
    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        ledger.take("generator", &*self.offered);
        ledger.take("sink", self.sink.counters());
        ledger
    }
}

impl GeneratorSink {
    /// Frame size, flows and rate as in `options`.
    pub fn new(options: &Options) -> Self {
        let (frame, flows, rate) = (options.frame, options.flows, options.rate);
        Self::with(Settings { frame, flows, rate, ..Settings::default() })
    }

    /// Any settings.
    pub fn with(settings: Settings) -> Self {
        Self { settings, ports: None }
    }
}

impl Experiment for GeneratorSink {
    fn id(&self) -> &'static str {
        "generator"
    }

    fn case(&self) -> String {
        format!("sink/{}", self.settings.frame)
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn prepare(&mut self) -> Result<()> {
        let settings = &self.settings;
        let generator = Generator::new(settings)?;
        let sink = Sink::new(Expected {
            flows: settings.flow_count(),
            frame: settings.frame,
            ttl: 64,
            destination_mac: Some(settings.destination_mac),
        });
        self.ports = Some(Ports { offered: generator.counters(), generator, sink });
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let ports = self.ports.as_mut().context("the generator was not prepared")?;
        let before = ports.ledger();
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                pump(&mut ports.generator, &ports.sink);
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
}
