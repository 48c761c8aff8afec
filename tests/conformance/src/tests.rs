//! The simplest ports under the suite, and ports with intentional faults, which the suite must detect.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use port::fault::{FaultSink, FaultSource, Faults};
use port::steer::Hash;
use port::{
    Bell, Frame, IngressSink, IngressSource, Null, Observer, PairSink, Sink, Source, TapPoint, ingress,
    ingress_fan, pair,
};

use super::*;

/// Any sink in front of an ingress queue that collects its frames; `lost` returns the losses.
struct Bench<L> {
    sink: Arc<dyn Sink>,
    behind: Option<Box<dyn Source>>,
    lost: L,
}

impl<L: Fn() -> u64> SinkBench for Bench<L> {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(drained(&mut **self.behind.as_mut()?))
    }

    fn lost(&self) -> u64 {
        (self.lost)()
    }
}

fn queue() -> (Arc<IngressSink>, IngressSource) {
    ingress(100).unwrap()
}

fn losses(sink: &Arc<IngressSink>) -> impl Fn() -> u64 + use<> {
    let sink = sink.clone();
    move || sink.counters().drop_full.get() + sink.counters().drop_too_long.get()
}

fn around(wrap: impl Fn(Arc<IngressSink>) -> Arc<dyn Sink>) -> Bench<impl Fn() -> u64> {
    let (sink, behind) = queue();
    Bench { lost: losses(&sink), sink: wrap(sink), behind: Some(Box::new(behind)) }
}

#[test]
fn the_null_sink() {
    check_sink(|| Bench { sink: Arc::new(Null::new()), behind: None, lost: || 0 });
}

#[test]
fn the_ingress_queue() {
    check_sink(|| around(|queue| queue));
    check_source(|| {
        let (sink, source) = queue();
        Fed { source, sink }
    });
}

/// Several sources, drained one after the other.
struct InTurn(Vec<IngressSource>);

impl Source for InTurn {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.0.iter_mut().map(|source| source.drain(budget, take)).find(|shown| *shown != 0).unwrap_or(0)
    }
}

#[test]
fn several_ingress_queues() {
    check_sink(|| {
        let (fan, sources) = ingress_fan(100, 4, Hash::Flow).unwrap();
        let lost = fan.clone();
        Bench {
            sink: fan,
            behind: Some(Box::new(InTurn(sources))),
            lost: move || lost.counters().drop_full.get() + lost.counters().drop_too_long.get(),
        }
    });
}

#[test]
fn the_pair() {
    check_sink(|| {
        let (near, far) = pair(100).unwrap();
        let sink: Arc<PairSink> = near.sink;
        let counters = sink.clone();
        Bench {
            sink,
            behind: Some(Box::new(far.source)),
            lost: move || counters.counters().drop_full.get() + counters.counters().drop_too_long.get(),
        }
    });
    check_source(|| {
        let (near, far) = pair(100).unwrap();
        Fed { source: near.source, sink: far.sink }
    });
}

#[test]
fn transparent_faults() {
    check_sink(|| around(|queue| Arc::new(FaultSink::new(queue, Faults::default()))));
    check_source(|| {
        let (sink, source) = queue();
        Fed { source: FaultSource::new(source, Faults::default()), sink }
    });
}

#[test]
fn the_tap_point() {
    struct Nothing;
    impl Observer for Nothing {
        fn observe(&mut self, _frames: &[Frame<'_>]) {}
    }
    check_sink(|| {
        around(|queue| {
            let tap = TapPoint::new(queue);
            tap.enable(Box::new(Nothing));
            Arc::new(tap)
        })
    });
}

/// A source that is fed by the sink at its other end.
struct Fed<S, K> {
    source: S,
    sink: Arc<K>,
}

impl<S: Source, K: Sink> SourceBench for Fed<S, K> {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut frames = frames.to_vec();
        let shown: Vec<_> = frames.iter_mut().map(|f| Frame::new(ring::Bytes::from_slice(f))).collect();
        self.sink.deliver(&shown)
    }
}

fn fails(check: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(check)).is_err()
}

#[test]
fn the_suite_finds_what_faults_do_to_a_sink() {
    let none = Faults::default();
    let many = 300;
    for faults in [
        Faults { drop: many, ..none },
        Faults { duplicate: many, ..none },
        Faults { reorder: many, ..none },
        Faults { truncate: many, ..none },
        Faults { corrupt: many, ..none },
        Faults { stall: many, ..none },
    ] {
        let check = || check_sink(|| around(|queue| Arc::new(FaultSink::new(queue, faults))));
        assert!(fails(check), "the suite did not notice {faults:?}");
    }
}

/// A source with one fault.
struct Bad {
    inner: IngressSource,
    habit: Habit,
}

#[derive(Clone, Copy, Debug)]
enum Habit {
    BeyondTheBudget,
    TwoCalls,
    WrongNumber,
    EmptyCall,
    SleepsOnFrames,
    NeverRings,
}

impl Source for Bad {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        match self.habit {
            Habit::BeyondTheBudget => self.inner.drain(budget + 1, take),
            Habit::WrongNumber => self.inner.drain(budget, take).saturating_sub(1),
            Habit::TwoCalls => self.inner.drain(budget, &mut |frames| frames.chunks(1).for_each(&mut *take)),
            Habit::EmptyCall => match self.inner.drain(budget, take) {
                0 => {
                    take(&[]);
                    0
                }
                n => n,
            },
            Habit::SleepsOnFrames | Habit::NeverRings => self.inner.drain(budget, take),
        }
    }

    fn arm(&mut self) -> bool {
        match self.habit {
            Habit::SleepsOnFrames => {
                self.inner.arm();
                false
            }
            Habit::NeverRings => {
                let news = self.inner.arm();
                self.inner.disarm();
                news
            }
            _ => self.inner.arm(),
        }
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn bell(&self) -> Bell<'_> {
        self.inner.bell()
    }
}

#[test]
fn the_suite_finds_bad_habits_of_a_source() {
    for habit in [
        Habit::BeyondTheBudget,
        Habit::TwoCalls,
        Habit::WrongNumber,
        Habit::EmptyCall,
        Habit::SleepsOnFrames,
        Habit::NeverRings,
    ] {
        let make = || {
            let (sink, inner) = queue();
            Fed { source: Bad { inner, habit }, sink }
        };
        assert!(fails(|| check_source(make)), "the suite did not notice {habit:?}");
    }
}

/// A sink that claims to have room when it has none.
struct Boaster(Arc<IngressSink>);

impl Sink for Boaster {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.deliver(frames)
    }

    fn room(&self) -> usize {
        1000
    }
}

#[test]
fn the_suite_finds_a_dishonest_room() {
    assert!(fails(|| check_sink(|| around(|queue| Arc::new(Boaster(queue))))));
}
