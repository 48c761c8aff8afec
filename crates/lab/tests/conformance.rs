//! Runs the conformance suite of all ports on the generator and the sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use conformance::{SinkBench, SourceBench, check_sink, check_source};
use lab::generator::{Clock, Generator, Settings};
use lab::sink::{Expected, Sink};
use lab::tag;
use port::{Bell, Frame, Frames, Source};
use ring::Bytes;

const FLOWS: u32 = 7;

/// Clock that stands still until frames are to fall due.
#[derive(Clone, Default)]
struct Stopped(Arc<AtomicU64>);

impl Clock for Stopped {
    fn now_ns(&mut self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Generator of one frame a nanosecond, and the frames to be delivered in place of its own: the suite's frames
/// carry marks of their own, by which it identifies the n-th frame.
struct Marked {
    generator: Generator<Stopped>,
    fed: Vec<Vec<u8>>,
}

/// Index of a generator's frame within the run.
fn number(frame: &Frame<'_>) -> usize {
    let word = |at| u32::from_be_bytes(frame.octets().read(at).expect("a frame of the generator"));
    (word(tag::SEQUENCE) * FLOWS + word(tag::FLOW)) as usize
}

impl Source for Marked {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let fed = &self.fed;
        self.generator.drain(budget, &mut |frames| {
            let mut octets: Vec<_> = frames.iter().map(|frame| fed[number(frame)].clone()).collect();
            let shown: Frames<'_> = octets.iter_mut().map(|o| Frame::new(Bytes::from_slice(o))).collect();
            take(&shown);
        })
    }

    fn waits(&self) -> bool {
        self.generator.waits()
    }

    fn arm(&mut self) -> bool {
        self.generator.arm()
    }

    fn disarm(&mut self) {
        self.generator.disarm();
    }

    fn bell(&self) -> Bell<'_> {
        self.generator.bell()
    }
}

struct Generating {
    source: Marked,
    clock: Stopped,
}

impl Generating {
    fn new(flows_ready: bool) -> Self {
        let clock = Stopped::default();
        // Long frames of the same flows do not fit into the prebuilt slots and are patched.
        let frame = if flows_ready { 64 } else { 9014 };
        let settings = Settings { flows: FLOWS, frame, rate: Some(1e9), ..Settings::default() };
        let mut generator = Generator::with_clock(&settings, clock.clone()).expect("good settings");
        // The first poll starts its clock.
        assert_eq!(generator.drain(1, &mut |_| panic!("nothing is due")), 0);
        Self { source: Marked { generator, fed: Vec::new() }, clock }
    }
}

impl SourceBench for Generating {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        self.source.fed.extend_from_slice(frames);
        self.clock.0.fetch_add(frames.len() as u64, Relaxed);
        frames.len()
    }
}

#[test]
fn a_generator_is_a_source() {
    check_source(|| Generating::new(true));
    check_source(|| Generating::new(false));
}

/// Sink that keeps none of the frames' octets, only counts.
struct Swallowing(Sink);

impl SinkBench for Swallowing {
    fn sink(&self) -> &dyn port::Sink {
        &self.0
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        None
    }

    fn lost(&self) -> u64 {
        0
    }
}

#[test]
fn a_sink_is_a_sink() {
    let expected = Expected { flows: FLOWS, frame: 64, six: false, ttl: 64, destination_mac: None };
    check_sink(|| Swallowing(Sink::new(expected.clone())));
}
