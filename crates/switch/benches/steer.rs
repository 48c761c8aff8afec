//! Cost in nanoseconds per frame of selecting its queue, in cache, in bursts of 64; and the interference of two threads
//! that enter at one port of a switch and leave by the queues of another: each alone, both with lanes and queues of
//! their own, and both with one lane and one queue. Prints the best of five slices, which was disturbed least.
//!
//! `cargo bench -p ringroad-switch --bench steer`. Not a test: it has no pass criterion.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use port::steer::{Hash, by_flow};
use port::{Frame, Frames, IngressSource, Null, Sink, Source, ingress_fan};
use ring::{BURST, Slots};
use switch::{Config, Switch, SwitchPort};

const SLICE: Duration = Duration::from_millis(50);
const LENGTH: usize = 64;
const QUEUES: usize = 2;

/// Calls `work`, which handles [`BURST`] frames, for one slice; returns nanoseconds per frame.
fn slice(work: &mut dyn FnMut()) -> f64 {
    let (start, mut bursts) = (Instant::now(), 0u32);
    while start.elapsed() < SLICE {
        (0..64).for_each(|_| work());
        bursts += 64;
    }
    start.elapsed().as_nanos() as f64 / f64::from(bursts) / BURST as f64
}

fn best(mut work: impl FnMut()) -> f64 {
    (0..5).map(|_| slice(&mut work)).fold(f64::INFINITY, f64::min)
}

/// Returns a burst of UDP frames whose source ports are given by `port`.
fn burst(slots: &Slots, port: impl Fn(usize) -> u16) -> Frames<'_> {
    let mut frames = Frames::new();
    for i in 0..BURST {
        let octets = slots.get(i, LENGTH).expect("there is a slot for each frame of a burst");
        octets.write(0, [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]);
        octets.write(12, [8, 0, 0x45]);
        octets.write(23, [17]);
        octets.write(26, [10, 0, 0, 1, 10, 0, 0, 2]);
        octets.write(34, port(i).to_be_bytes());
        frames.push(Frame::new(octets));
    }
    frames
}

fn steering() {
    let slots = Slots::new(BURST, 2048);
    for (flows, different) in [("one-flow", 1), ("64-flows", BURST)] {
        let frames = burst(&slots, |i| 1024 + (i % different) as u16);
        for hash in [Hash::Flow, Hash::Symmetric] {
            for queues in [2, 4, 16] {
                let ns = best(|| {
                    by_flow(&frames, queues, hash, |queue, group| {
                        black_box((queue, group));
                    });
                });
                println!("steer {flows} hash={hash:?} queues={queues} ns_per_frame={ns:.2}");
            }
        }
    }
}

/// Pins this thread to one core.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        println!("not pinned to core {core}: {error}");
    }
}

/// Returns source ports of flows that all belong to this queue.
fn flows_of(queue: usize) -> Vec<u16> {
    let slots = Slots::new(BURST, 2048);
    let belongs = |port: &u16| {
        let frames = burst(&slots, |_| *port);
        let mut found = false;
        by_flow(&frames[..1], QUEUES, Hash::Flow, |owner, _| found = owner == queue);
        found
    };
    (1024..u16::MAX).filter(belongs).take(BURST).collect()
}

/// Returns one thread's best slice: its frames enter by `way` and are taken out of the queue again.
fn pass(way: &SwitchPort, queue: usize, source: &mut IngressSource) -> f64 {
    let (slots, flows, null) = (Slots::new(BURST, 2048), flows_of(queue), Null::new());
    let frames = burst(&slots, |i| flows[i]);
    best(|| {
        way.deliver(&frames);
        source.drain(BURST, &mut |shown| {
            null.deliver(shown);
        });
    })
}

/// Work of the second thread.
#[derive(Clone, Copy, PartialEq)]
enum Second {
    Nothing,
    /// As the first thread, at a switch of its own: the interference that two busy cores have anyway.
    Elsewhere,
    /// As the first thread, with a lane and a queue of its own.
    Apart,
    /// As the first thread, with the first one's lane and queue.
    Together,
}

/// Creates a switch, the port to enter by, and the queues behind the port to leave by.
fn world() -> (Switch, SwitchPort, [IngressSource; QUEUES]) {
    let lan = Switch::new("lan", Config::default());
    let into = lan.add_port("in", Arc::new(Null::new())).expect("a new name");
    let (fan, sources) = ingress_fan(1024, QUEUES, Hash::Flow).expect("event descriptors");
    let out = lan.add_port("out", fan).expect("a new name");
    let slots = Slots::new(1, 2048);
    let hello = slots.get(0, LENGTH).expect("a slot");
    hello.write(0, [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1]);
    out.deliver(&[Frame::new(hello)]);
    let sources = sources.try_into().unwrap_or_else(|_| panic!("two queues"));
    (lan, into, sources)
}

/// Returns the first thread's result beside the second.
fn beside(second: Second) -> f64 {
    let (_lan, into, [mut source, other]) = world();
    let (_far, elsewhere, [_, far]) = world();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if second != Second::Nothing {
            let (way, mut source) = match second {
                Second::Elsewhere => (elsewhere.lane(1), far),
                Second::Together => (into.lane(0), other),
                _ => (into.lane(1), other),
            };
            let (queue, stop) = (usize::from(second != Second::Together), &stop);
            scope.spawn(move || {
                pin(1);
                while !stop.load(Ordering::Relaxed) {
                    pass(&way, queue, &mut source);
                }
            });
            std::thread::sleep(2 * SLICE);
        }
        pin(0);
        let ns = pass(&into.lane(0), 0, &mut source);
        stop.store(true, Ordering::Relaxed);
        ns
    })
}

fn main() {
    steering();
    for (name, second) in [
        ("nobody", Second::Nothing),
        ("a thread at another switch", Second::Elsewhere),
        ("a thread with a lane and a queue of its own", Second::Apart),
        ("a thread with the same lane and queue", Second::Together),
    ] {
        println!("switch beside {name} ns_per_frame={:.2}", beside(second));
    }
}
