//! Cost in nanoseconds per frame of the decorators between a pump and its sink: a tap point without observer, a limit
//! (none, one that is not reached, one that is), and the timing of passes. Frames of 60 octets in cache into a null
//! port, bursts of 1, 8 and 64; all variants in turn, 401 slices of a millisecond each; of each variant the best slice,
//! which was disturbed least: of the bare sink its cost, of the others the difference.
//!
//! `cargo bench -p ringroad-port --bench limit`

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::WorkCounters;
use port::{Frame, Frames, Limit, Limited, Null, Sink, TapPoint};
use ring::meter::{Meter, Timed};
use ring::{BURST, Slots};

const SLICE: Duration = Duration::from_millis(1);
const TURNS: usize = 401;
const LENGTH: usize = 60;

/// A variant of the path of a burst, and its name.
type Way = (&'static str, Body);
type Body = Box<dyn FnMut(&[Frame<'_>])>;

/// Returns the nanoseconds per frame of one slice.
fn slice(way: &mut dyn FnMut(&[Frame<'_>]), frames: &[Frame<'_>]) -> f64 {
    let (start, mut bursts) = (Instant::now(), 0_u32);
    while start.elapsed() < SLICE {
        (0..64).for_each(|_| way(black_box(frames)));
        bursts += 64;
    }
    start.elapsed().as_nanos() as f64 / f64::from(bursts) / frames.len() as f64
}

fn limited(pps: Option<u64>) -> Arc<dyn Sink> {
    let limit = Arc::new(Limit::default());
    limit.set(pps);
    Arc::new(Limited::new(Arc::new(Null::new()), limit, Arc::default()))
}

fn ways() -> Vec<Way> {
    let into = |sink: Arc<dyn Sink>| -> Body {
        Box::new(move |frames| {
            black_box(sink.deliver(frames));
        })
    };
    let bare: Arc<dyn Sink> = Arc::new(Null::new());
    let (timed, work) = (bare.clone(), WorkCounters::default());
    let mut meter = Meter::default();
    let pass = move |frames: &[Frame<'_>]| {
        let begun = meter.begin();
        let moved = black_box(timed.deliver(frames)) as u64;
        match meter.end(begun, moved) {
            None => {}
            Some(Timed::Whole(cycles)) => work.add_pass(cycles, moved),
            Some(Timed::Preempted) => work.torn.add(1),
        }
    };
    vec![
        ("bare", into(bare)),
        ("tap point", into(Arc::new(TapPoint::new(Arc::new(Null::new()))))),
        ("no limit", into(limited(None))),
        ("limit not reached", into(limited(Some(port::limit::MOST)))),
        ("limit reached", into(limited(Some(1)))),
        ("timed passes", Box::new(pass)),
    ]
}

fn main() {
    let slots = Slots::new(BURST, 2048);
    let frames: Frames<'_> =
        (0..BURST).map(|i| Frame::new(slots.get(i, LENGTH).expect("a slot for each frame"))).collect();
    for burst in [1, 8, BURST] {
        let mut ways = ways();
        let mut best = vec![f64::INFINITY; ways.len()];
        for _ in 0..TURNS {
            for ((_, way), best) in ways.iter_mut().zip(&mut best) {
                *best = best.min(slice(way, &frames[..burst]));
            }
        }
        for (n, ((name, _), ns)) in ways.iter().zip(&best).enumerate() {
            let more = if n == 0 { *ns } else { ns - best[0] };
            println!("burst={burst:<2} {name:<18} ns_per_frame={more:+.3}");
        }
    }
}
