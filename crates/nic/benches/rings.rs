//! Cost of a frame at each end of a virtqueue, on one core with warm caches: `cargo bench -p ringroad-nic`. Prints one
//! number a line, in nanoseconds per frame (median over rounds). Not a test: it has no pass criterion.

mod support;

use std::mem::MaybeUninit;
use std::time::Instant;

use ledger::NicDirection;
use nic::virtio_net::rx::RxQueue;
use nic::virtio_net::tx::{HEADER, TxQueue};
use ring::BURST;
use ring::split::{DeviceQueue, Driver, DriverQueue, Features, InOrderDriver, Slot};
use support::Memory;

const ROUNDS: usize = 4000;

/// Nanoseconds per frame of each step, one sample a round.
#[derive(Default)]
struct Costs {
    transmit_driver: Vec<f64>,
    device: Vec<f64>,
    receive_driver: Vec<f64>,
}

/// Moves a whole ring of frames from one guest's transmit ring to another's receive ring, `ROUNDS` times.
fn run<D: DriverQueue<u16>>(
    frame: usize,
    (memory, other): (&Memory, &Memory),
    (transmit, receive): (&mut D, &mut D),
    features: Features,
    copy: bool,
) -> Costs {
    let mut tx = TxQueue::new(DeviceQueue::new(memory.region, &memory.layout(0), features).unwrap(), 1514);
    let mut rx = RxQueue::new(DeviceQueue::new(other.region, &other.layout(0), features).unwrap(), false);
    let (tx_ledger, rx_ledger) = (NicDirection::default(), NicDirection::default());
    let size = transmit.size();
    let per_frame = |since: Instant| since.elapsed().as_secs_f64() * 1e9 / f64::from(size);
    let len = (HEADER + frame) as u32;
    let mut costs = Costs::default();
    tx.disarm();
    rx.disarm();
    transmit.disarm();
    receive.disarm();
    for entry in 0..size {
        receive.push(entry, other.buffer(entry), 2048, true);
    }
    receive.publish();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for burst in 0..size / BURST as u16 {
            for entry in burst * BURST as u16..(burst + 1) * BURST as u16 {
                transmit.push(entry, memory.buffer(entry), len, false);
            }
            transmit.publish();
        }
        costs.transmit_driver.push(per_frame(start));
        let start = Instant::now();
        for _ in 0..usize::from(size) / BURST {
            tx.drain(BURST, &tx_ledger, &mut |frames| {
                if copy {
                    rx.fill(frames, &rx_ledger);
                }
            });
        }
        costs.device.push(per_frame(start));
        let start = Instant::now();
        transmit.reclaim(usize::from(size), |_| {}).unwrap();
        let mut back = [(0, 0); BURST];
        for _ in 0..usize::from(size) / BURST {
            let mut n = 0;
            receive
                .pop(BURST, |token, len| {
                    back[n] = (token, len);
                    n += 1;
                })
                .unwrap();
            for &(token, _) in &back[..n] {
                receive.push(token, other.buffer(token), 2048, true);
            }
            receive.publish();
        }
        costs.receive_driver.push(per_frame(start));
    }
    assert_eq!(tx_ledger.frames.get(), ROUNDS as u64 * u64::from(size));
    assert_eq!(rx_ledger.frames.get(), if copy { ROUNDS as u64 * u64::from(size) } else { 0 });
    costs
}

fn print(name: &str, mut costs: Costs) {
    let median = |samples: &mut Vec<f64>| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    };
    let (driver, device) = (median(&mut costs.transmit_driver), median(&mut costs.device));
    println!(
        "{name:<28} device {device:6.2} ({:5.0} Mpps)  transmit driver {driver:6.2}  receive driver and reclaim {:6.2}",
        1e3 / device,
        median(&mut costs.receive_driver)
    );
}

fn in_order(size: u16, frame: usize, copy: bool) -> Costs {
    let (memory, other) = (Memory::new(1, size, size), Memory::new(1, size, size));
    let features = Features { in_order: true, event_idx: true, indirect: true };
    let mut tokens = [(); 2].map(|()| vec![MaybeUninit::uninit(); usize::from(size)]);
    let [a, b] = &mut tokens;
    let mut transmit = InOrderDriver::new(memory.region, &memory.layout(0), features, a).unwrap();
    let mut receive = InOrderDriver::new(other.region, &other.layout(0), features, b).unwrap();
    run(frame, (&memory, &other), (&mut transmit, &mut receive), features, copy)
}

fn by_the_book(size: u16, frame: usize, copy: bool) -> Costs {
    let (memory, other) = (Memory::new(1, size, size), Memory::new(1, size, size));
    let features = Features { in_order: false, event_idx: true, indirect: true };
    let mut slots = [(); 2].map(|()| vec![Slot::EMPTY; usize::from(size)]);
    let [a, b] = &mut slots;
    let mut transmit = Driver::new(memory.region, &memory.layout(0), features, a).unwrap();
    let mut receive = Driver::new(other.region, &other.layout(0), features, b).unwrap();
    run(frame, (&memory, &other), (&mut transmit, &mut receive), features, copy)
}

/// Runs the cases whose name contains every word of the command line.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let chosen = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
    for size in [256, 1024] {
        for frame in [64, 1514] {
            for (copy, what) in [(false, "shown"), (true, "one copy")] {
                let name = format!("in-order {size} {frame} {what}");
                if chosen(&name) {
                    print(&name, in_order(size, frame, copy));
                }
                let name = format!("by the book {size} {frame} {what}");
                if chosen(&name) {
                    print(&name, by_the_book(size, frame, copy));
                }
            }
        }
    }
}
