//! The measuring room's own speed: generator to sink in one thread, with nothing in between.

use std::time::{Duration, Instant};

use anyhow::Result;
use switch::port::pump;

use crate::generator::{Generator, Settings};
use crate::sink::{Expected, Sink};

/// A result is trusted when generator and sink alone are at least so many times as fast.
pub const HEADROOM: f64 = 1.5;

/// Bursts between two looks at the clock.
const BURSTS: usize = 64;

/// Million frames a second from generator to sink, flat out, measured for `length` in the calling thread.
pub fn mpps(settings: &Settings, length: Duration) -> Result<f64> {
    let mut generator = Generator::new(&Settings { rate: None, ..settings.clone() })?;
    let sink = Sink::new(Expected {
        flows: settings.flow_count(),
        frame: settings.frame,
        ttl: 64,
        destination_mac: Some(settings.destination_mac),
    });
    let start = Instant::now();
    loop {
        for _ in 0..BURSTS {
            pump(&mut generator, &sink);
        }
        let elapsed = start.elapsed();
        if elapsed >= length {
            return Ok(sink.counters().frames.get() as f64 / elapsed.as_secs_f64() * 1e-6);
        }
    }
}
