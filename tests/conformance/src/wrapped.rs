//! Ports that stand in front of others, under the suite with an ingress queue as the other one: a wrapper that takes some frames out
//! passes it if it lets the suite's frames through.

use std::sync::Arc;
use std::time::Duration;

use port::{Frame, IngressSink, IngressSource, Offloads, Sink, Source, ingress};
use ring::Bytes;

use super::sink::{SinkBench, check_sink};
use super::source::{SourceBench, check_source, drained};

/// Capacity in frames of the queue: less than a check offers.
const QUEUE: u32 = 100;
/// Time limit for a source that looks for frames only now and then; each wait ends as soon as all have come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A queue that reports its room, like the ring of a NIC.
pub(crate) struct Bounded(pub(crate) Arc<IngressSink>);

impl Sink for Bounded {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.deliver(frames)
    }

    fn room(&self) -> usize {
        self.0.free()
    }

    fn offloads(&self) -> Offloads {
        self.0.offloads()
    }
}

/// A sink before such a queue.
struct Before {
    sink: Arc<dyn Sink>,
    queue: Arc<IngressSink>,
    behind: IngressSource,
}

impl SinkBench for Before {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(drained(&mut self.behind))
    }

    fn lost(&self) -> u64 {
        let counters = self.queue.counters();
        counters.drop_full.get() + counters.drop_too_long.get()
    }
}

/// Checks all contracts of a sink that stands before another one: before the one that `wrap` is given.
pub fn check_sink_before(wrap: impl Fn(Arc<dyn Sink>) -> Arc<dyn Sink>) {
    check_sink(|| {
        let (queue, behind) = ingress(QUEUE).expect("a queue");
        Before { sink: wrap(Arc::new(Bounded(queue.clone()))), queue, behind }
    });
}

/// A source behind a queue.
struct Behind {
    source: Box<dyn Source>,
    queue: Arc<IngressSink>,
}

impl SourceBench for Behind {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut octets = frames.to_vec();
        let shown: Vec<_> = octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        self.queue.deliver(&shown)
    }

    /// None if frames wait there for room: then they are seen at once.
    fn patience(&self) -> Duration {
        if self.source.waits() { Duration::ZERO } else { PATIENCE }
    }
}

/// Checks all contracts of a source that stands behind another one: behind the one that `wrap` is given.
pub fn check_source_behind(wrap: impl Fn(Box<dyn Source>) -> Box<dyn Source>) {
    check_source(|| {
        let (queue, source) = ingress(QUEUE).expect("a queue");
        Behind { source: wrap(Box::new(source)), queue }
    });
}
