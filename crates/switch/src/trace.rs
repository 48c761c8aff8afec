//! The last frames that passed some points, one line each: what was where when a frame was lost?
//!
//! ```text
//! 12.000345678 edge/wan-rx 60 octets 0800 02:00:00:00:00:01 > 02:00:00:00:00:02
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use frame::Mac;

use crate::port::Frame;
use crate::tap_point::Observer;

/// One frame at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since the trace was begun.
    pub time: Duration,
    /// The point's name.
    pub point: Arc<str>,
    /// Octets of the frame.
    pub len: u32,
    /// Destination, source and ethertype, if the frame is long enough to have them.
    pub header: Option<(Mac, Mac, u16)>,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = (self.time.as_secs(), self.time.subsec_nanos());
        write!(f, "{seconds}.{nanoseconds:09} {} {} octets", self.point, self.len)?;
        match self.header {
            Some((destination, source, kind)) => write!(f, " {kind:04x} {source} > {destination}"),
            None => f.write_str(" without an Ethernet header"),
        }
    }
}

struct Events {
    list: VecDeque<Event>,
    most: usize,
    begun: Instant,
    overwritten: u64,
}

/// A bounded list of the latest events of some points.
#[derive(Clone)]
pub struct Trace {
    events: Arc<Mutex<Events>>,
}

impl Trace {
    /// Keeps the latest `most` events.
    pub fn new(most: usize) -> Self {
        let list = VecDeque::with_capacity(most);
        Self { events: Arc::new(Mutex::new(Events { list, most, begun: Instant::now(), overwritten: 0 })) }
    }

    /// An observer for one tap point.
    pub fn point(&self, name: &str) -> TracePoint {
        TracePoint { name: name.into(), trace: self.clone() }
    }

    /// Takes the events out, oldest first; also how many older ones were overwritten since the last time.
    pub fn take(&self) -> (Vec<Event>, u64) {
        let mut events = self.lock();
        let overwritten = std::mem::take(&mut events.overwritten);
        (events.list.drain(..).collect(), overwritten)
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes frames under its name.
pub struct TracePoint {
    name: Arc<str>,
    trace: Trace,
}

impl Observer for TracePoint {
    fn observe(&mut self, frames: &[Frame<'_>]) {
        let mut events = self.trace.lock();
        let time = events.begun.elapsed();
        for frame in frames {
            if events.list.len() >= events.most {
                events.overwritten += 1;
                if events.list.pop_front().is_none() {
                    continue;
                }
            }
            let header = frame.octets().read::<14>(0).map(|octets| {
                let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = octets;
                (Mac([a, b, c, d, e, f]), Mac([g, h, i, j, k, l]), u16::from_be_bytes([m, n]))
            });
            events.list.push_back(Event { time, point: self.name.clone(), len: frame.len() as u32, header });
        }
    }
}

#[cfg(test)]
mod tests;
