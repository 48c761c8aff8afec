//! The way past an ingress queue in the conformance suite that every port passes, with frames that are not urgent, and the source of
//! urgent ones.

use conformance::{SinkBench, check_sink, check_source_behind, drained};
use port::steer::Hash;
use port::{IngressSource, ingress_fan};

use super::*;

/// Frames of the ingress queue: when half of them wait, frames are sorted.
const QUEUE: u32 = 200;

struct Bench {
    sink: Overtaking,
    plain: IngressSource,
    urgent: Box<dyn Source>,
}

impl Bench {
    fn new() -> Self {
        let (fan, mut sources) = ingress_fan(QUEUE, 1, Hash::Flow).expect("descriptors");
        let (sink, urgent) = Overtaking::new(fan, QUEUE).expect("descriptors");
        Self { sink, plain: sources.remove(0), urgent }
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut all = drained(&mut self.plain);
        all.extend(drained(&mut *self.urgent));
        Some(all)
    }

    fn lost(&self) -> u64 {
        let counters = self.sink.counters();
        counters.drop_full.get() + counters.drop_too_long.get()
    }
}

#[test]
fn the_way_past_a_queue_is_a_sink() {
    check_sink(Bench::new);
}

#[test]
fn what_is_drained_without_room_at_each_pass_or_now_and_then_is_a_source() {
    for every in [1, 16] {
        check_source_behind(|source| unhindered(source, every));
    }
}
