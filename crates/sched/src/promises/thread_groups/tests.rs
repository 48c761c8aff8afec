use std::collections::BTreeMap;
use std::time::Instant;

use super::*;
use crate::guarantee::{Basis, Machine};

const HERTZ: f64 = 1e9;

/// Vhost thread of a router between TAPs, without remembered costs.
fn part() -> ThreadGroup {
    let kind = Kind { class: Class::Vhost, path: Path::Tap, exits: false, far: false };
    let way = CostKey { kind, device: "kvm shared virtio-net/tap".to_owned(), cpus: 1 };
    ThreadGroup {
        router: "edge".to_owned(),
        cpu: 1,
        class: Class::Vhost,
        threads: vec!["edge/vhost".to_owned()],
        octets: 60.0,
        model: Model::new(kind),
        way,
        polls: false,
        batch: BATCH,
        known: None,
        seen: None,
    }
}

/// Counters so far.
#[derive(Default)]
struct Sight {
    part: Option<ThreadGroup>,
    counters: BTreeMap<String, u64>,
    cpu_ns: BTreeMap<String, u64>,
    delivered: u64,
}

impl Sight {
    /// Adds a tenth of a second with so many packets at this cost, in passes of this length; 0: no pass was
    /// timed.
    fn sees(&mut self, frames: u64, cycles: u64, pass: u64) -> &ThreadGroup {
        let name = "edge/vhost";
        *self.cpu_ns.entry(name.to_owned()).or_default() += frames * cycles;
        self.delivered += frames;
        if let Some(passes) = frames.checked_div(pass) {
            *self.counters.entry(format!("{name}.work.frames")).or_default() += frames;
            *self.counters.entry(format!("{name}.work.passes")).or_default() += passes;
        }
        let came = TrafficTotals {
            delivered: self.delivered,
            dropped: 0,
            octets: 60 * self.delivered,
            sees_queue: true,
        };
        let part = self.part.get_or_insert_with(part);
        let reading = Reading {
            counters: &self.counters,
            cpu_ns: &self.cpu_ns,
            cores: BTreeMap::new(),
            at: Instant::now(),
            day: "2026-11-22".parse().ok(),
        };
        let machine = Machine { cpu: String::new(), kernel: String::new(), ringroad: String::new() };
        let mut costs = Costs::nowhere(None, machine, reading.at);
        part.learn(&reading, (&came, Demand::Less), HERTZ, &mut costs);
        part
    }
}

#[test]
fn a_dozen_packets_are_no_price() {
    let estimate = part().price();
    assert_eq!(estimate.basis, Basis::Default);
    let mut sight = Sight::default();
    sight.sees(0, 0, 0);
    // A sleepy router: it wakes up for each packet, and usually no pass is timed.
    for n in 0..100 {
        let seen = sight.sees(12, 40_000, n % 2);
        assert_eq!((seen.price(), seen.cost()), (estimate, estimate));
    }
    // Nor with more packets while their CPU sleeps: that shows the cost of waking up.
    for _ in 0..100 {
        let seen = sight.sees(4000, 40_000, 2);
        assert_eq!(seen.price(), estimate);
        assert_ne!(seen.cost(), estimate, "shares follow what is seen");
    }
}

#[test]
fn threads_of_the_kernel_are_priced_by_frames_of_their_nics_and_by_their_sleeps() {
    let kind = Kind { class: Class::Vhost, path: Path::Kernel, exits: false, far: false };
    let threads = ["edge/wan-napi0", "edge/lan-napi0"].map(str::to_owned);
    let way = CostKey { kind, device: "kernel veth".to_owned(), cpus: 1 };
    let mut part = ThreadGroup { threads: threads.to_vec(), model: Model::new(kind), way, ..part() };
    let estimate = part.price();
    let machine = Machine { cpu: String::new(), kernel: String::new(), ringroad: String::new() };
    let mut costs = Costs::nowhere(None, machine, Instant::now());
    let mut counters = BTreeMap::new();
    // Between two readings both threads receive 3200 frames at 1000 cycles each, and sleep 16 times together.
    for look in 0..4 {
        for (thread, sleeps) in threads.iter().zip([5, 11]) {
            counters.insert(format!("{thread}.frames"), look * 3200);
            counters.insert(format!("{thread}.sleeps"), look * sleeps);
        }
        assert_eq!(part.polled(&counters), [look * 6400, look * 16 + look * 100]);
        let cpu_ns = threads.iter().map(|thread| (thread.clone(), look * 3_200_000)).collect();
        let reading = Reading {
            counters: &counters,
            cpu_ns: &cpu_ns,
            cores: BTreeMap::new(),
            at: Instant::now(),
            day: "2026-11-22".parse().ok(),
        };
        let (delivered, octets) = (look * 6400, look * 6400 * 60);
        let came = TrafficTotals { delivered, dropped: 0, octets, sees_queue: true };
        part.learn(&reading, (&came, Demand::Own), HERTZ, &mut costs);
    }
    assert!((part.batch - BATCH) > 5.0, "passes of 55 frames: {}", part.batch);
    let cost = part.cost();
    assert_eq!(cost.basis, Basis::Measured { frames: 3 * 6400 });
    assert!(cost.cycles < estimate.cycles && cost.cycles > 900.0, "{cost:?} {estimate:?}");
    let known = costs.cost(&part.way, 60.0).expect("10000 packets are enough");
    assert!((known.cycles - 1000.0).abs() < 1.0, "{known:?}");
}
