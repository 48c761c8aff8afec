//! Cost in nanoseconds per frame of the switch alone, in cache: pre-built frames of 64 octets in bursts of 64 enter at
//! one port and leave by the others into null ports ("switch") or into ingress queues that are drained at once
//! ("queued"). Prints the best of five slices, which was disturbed least.
//!
//! `cargo bench -p ringroad-switch`

use std::sync::Arc;
use std::time::{Duration, Instant};

use port::{Frame, Frames, IngressSource, Null, Sink, Source, ingress};
use ring::{BURST, Slots};
use switch::{Config, Switch, SwitchPort};

const SLICE: Duration = Duration::from_millis(50);
const LENGTH: usize = 64;

/// Calls `work`, which moves [`BURST`] frames, for several slices; returns the best in nanoseconds per frame.
fn measure(mut work: impl FnMut()) -> f64 {
    let slice = |work: &mut dyn FnMut()| {
        let (start, mut bursts) = (Instant::now(), 0u32);
        while start.elapsed() < SLICE {
            (0..64).for_each(|_| work());
            bursts += 64;
        }
        start.elapsed().as_nanos() as f64 / f64::from(bursts) / BURST as f64
    };
    (0..5).map(|_| slice(&mut work)).fold(f64::INFINITY, f64::min)
}

fn station(n: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, n as u8]
}

/// Returns a burst from station 0 to the stations 1 to `ports` - 1 in turn, with `run` frames to each.
fn burst(slots: &Slots, ports: usize, run: usize) -> Frames<'_> {
    let mut frames = Frames::new();
    for i in 0..BURST {
        let octets = slots.get(i, LENGTH).expect("there is a slot for each frame of a burst");
        octets.write(0, station(1 + i / run % (ports - 1)));
        octets.write(6, station(0));
        frames.push(Frame::new(octets));
    }
    frames
}

/// Sends a frame from each station, so that the switch learns its port.
fn introduce(ways: &[SwitchPort]) {
    for (n, way) in ways.iter().enumerate() {
        let slots = Slots::new(1, LENGTH);
        let octets = slots.get(0, LENGTH).expect("there is one slot");
        octets.write(0, station(n));
        octets.write(6, station(n));
        way.deliver(&[Frame::new(octets)]);
    }
}

fn add_ports(lan: &Switch, ports: usize, sink: &mut dyn FnMut() -> Arc<dyn Sink>) -> Vec<SwitchPort> {
    (0..ports).map(|n| lan.add_port(&n.to_string(), sink()).expect("a new name")).collect()
}

fn to_null(ports: usize, run: usize) {
    let lan = Switch::new("lan", Config::default());
    let ways = add_ports(&lan, ports, &mut || Arc::new(Null::new()));
    introduce(&ways);
    let slots = Slots::new(BURST, 2048);
    let frames = burst(&slots, ports, run);
    let ns = measure(|| {
        ways[0].deliver(&frames);
    });
    println!("switch ports={ports} run={run} ns_per_frame={ns:.2}");
}

fn to_queues(ports: usize, run: usize) {
    let lan = Switch::new("lan", Config::default());
    let mut sources: Vec<IngressSource> = Vec::new();
    let ways = add_ports(&lan, ports, &mut || {
        let (sink, source) = ingress(256).expect("an event descriptor");
        sources.push(source);
        sink
    });
    introduce(&ways);
    let slots = Slots::new(BURST, 2048);
    let frames = burst(&slots, ports, run);
    let null = Null::new();
    let ns = measure(|| {
        ways[0].deliver(&frames);
        for source in &mut sources {
            source.drain(BURST, &mut |shown| {
                null.deliver(shown);
            });
        }
    });
    println!("queued ports={ports} run={run} ns_per_frame={ns:.2}");
}

fn main() {
    for (ports, run) in [(2, 1), (8, 1), (8, 8)] {
        to_null(ports, run);
        to_queues(ports, run);
    }
}
