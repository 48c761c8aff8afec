//! A queue of a shelf under the suite.

use std::sync::Arc;

use port::{Frame, IngressSink, Shelf, ShelfQueue, Sink, Source, ingress};
use ring::{BURST, Bytes};

use super::{SourceBench, check_source};

/// One queue of two, whose other reader has nothing.
struct Bench {
    own: ShelfQueue,
    sink: Arc<IngressSink>,
    _other: Vec<ShelfQueue>,
}

impl Bench {
    fn new() -> Self {
        let (_, first) = ingress(100).expect("a queue");
        let (sink, second) = ingress(100).expect("a queue");
        let shelf = Shelf::new(vec![Box::new(first), Box::new(second)]);
        shelf.assign(1, Some(7));
        let own = shelf.reader(7).expect("a reader").pop().expect("two");
        Self { own, sink, _other: shelf.reader(3).expect("a reader") }
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.own
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut frames = frames.to_vec();
        let shown: Vec<_> = frames.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        self.sink.deliver(&shown)
    }
}

#[test]
fn the_queue_of_its_owner_is_a_source_as_any() {
    check_source(|| {
        let mut bench = Bench::new();
        // It finds the queue in its first pass.
        assert_eq!(bench.own.drain(BURST, &mut |_| {}), 0);
        bench
    });
}
