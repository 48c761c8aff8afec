//! Ports under the main lock, of which only one moves frames at a time, in the conformance suite that every
//! port passes.

use conformance::{SinkBench, SourceBench, check_sink, check_source, drained};
use port::{IngressSink, IngressSource, ingress};

use super::*;

/// A queue whose sink takes the lock.
struct Entry {
    sink: Arc<dyn Sink>,
    queue: Arc<IngressSink>,
    behind: IngressSource,
}

impl SinkBench for Entry {
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

#[test]
fn a_sink_that_one_fills_at_a_time_is_a_sink() {
    check_sink(|| {
        let (queue, behind) = ingress(100).expect("a queue");
        Entry { sink: MainLock::default().sink(queue.clone()), queue, behind }
    });
}

/// A queue whose source takes the lock.
struct Exit {
    source: Box<dyn Source>,
    queue: Arc<IngressSink>,
}

impl SourceBench for Exit {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut octets = frames.to_vec();
        let shown: Vec<_> = octets.iter_mut().map(|o| Frame::new(ring::Bytes::from_slice(o))).collect();
        self.queue.deliver(&shown)
    }
}

#[test]
fn a_source_that_one_drains_at_a_time_is_a_source() {
    check_source(|| {
        let (queue, source) = ingress(100).expect("a queue");
        Exit { source: MainLock::default().source(Box::new(source)), queue }
    });
}
