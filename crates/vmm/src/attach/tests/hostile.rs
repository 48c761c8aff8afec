//! Misbehaving drivers, while threads move frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bootinfo::TransmitMode;
use nic::e1000::register as r;
use port::pump;
use port::{Null, Sink};
use ring::BURST;
use ring::split::Broken;

use super::driver::{Driver, Registers, machine};
use super::{Bench, frames};

/// Octets of RAM.
const RAM: u32 = 12 << 20;
/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_reset_while_frames_move_hangs_nobody_and_loses_none_uncounted() {
    for mode in TransmitMode::ALL {
        let (machine, queues) = machine(&[mode], false);
        let queues = &queues[0];
        let out = Arc::new(Null::new());
        queues.transmit_in_access(out.clone());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut source = queues.source();
                while !over.load(Ordering::Acquire) {
                    pump(source.as_mut(), out.as_ref());
                    if source.arm() {
                        continue;
                    }
                    source.disarm();
                }
            });
            scope.spawn(|| {
                let (sink, mut octets) = (queues.sink(), frames(8));
                let shown: Vec<_> = octets
                    .iter_mut()
                    .map(|octets| port::Frame::new(ring::Bytes::from_slice(octets)))
                    .collect();
                let mut offered = 0;
                while !over.load(Ordering::Acquire) {
                    sink.deliver(&shown);
                    offered += 8;
                    sink.arm();
                    sink.disarm();
                }
                let ledger = queues.rx_ledger();
                let lost = [&ledger.drop_no_buffer, &ledger.drop_not_running, &ledger.drop_bad_ring]
                    .map(ledger::Counter::get);
                assert_eq!(ledger.frames.get() + lost.iter().sum::<u64>(), offered, "{mode:?}");
            });
            let start = Instant::now();
            // Often, and until a thread has run in between at least once.
            for turn in 0.. {
                if turn >= 150 && queues.tx_ledger().frames.get() > 0 || start.elapsed() > LIMIT {
                    break;
                }
                let mut driver = Driver::start(&machine, mode);
                driver.post();
                driver.send(&frames(20));
                thread::yield_now();
                driver.registers.write(r::CTRL, r::ctrl::RST);
                driver.send(&frames(1));
            }
            over.store(true, Ordering::Release);
            assert!(start.elapsed() < LIMIT, "{mode:?}: {:?}", start.elapsed());
        });
        assert!(queues.tx_ledger().frames.get() > 0, "{mode:?}: nothing was sent at all");
        machine.bus().clear();
    }
}

#[test]
fn two_vcpus_may_write_registers_at_random_while_frames_move() {
    for mode in TransmitMode::ALL {
        let (machine, queues) = machine(&[mode, mode], false);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for (queues, other) in [(&queues[0], &queues[1]), (&queues[1], &queues[0])] {
                // The frames of each go to the other.
                let sink: Arc<dyn Sink> = other.sink();
                queues.transmit_in_access(sink.clone());
                let over = &over;
                scope.spawn(move || {
                    let mut source = queues.source();
                    while !over.load(Ordering::Acquire) {
                        pump(source.as_mut(), sink.as_ref());
                        source.arm();
                        source.disarm();
                    }
                });
            }
            let vcpus = [1u64, 2].map(|seed| {
                let registers = [0, 1].map(|number| Registers::new(&machine, number));
                scope.spawn(move || scribble(seed, &registers))
            });
            for vcpu in vcpus {
                vcpu.join().expect("no panic");
            }
            over.store(true, Ordering::Release);
        });
        machine.bus().clear();
    }
}

/// Reads and writes registers, mostly those that matter, with nearly valid values.
fn scribble(seed: u64, registers: &[Registers; 2]) {
    const OFTEN: [u64; 16] = [
        r::CTRL,
        r::RCTL,
        r::TCTL,
        r::RDBAL,
        r::RDLEN,
        r::RDH,
        r::RDT,
        r::TDBAL,
        r::TDLEN,
        r::TDH,
        r::TDT,
        r::CSBAL,
        r::ICR,
        r::ICS,
        r::IMS,
        r::ITR,
    ];
    let mut state = seed;
    let mut next = || {
        // Knuth's multiplier; the high bits are good enough here.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    registers.iter().for_each(Registers::enable);
    for _ in 0..5_000 {
        let registers = &registers[(next() & 1) as usize];
        let register = match next() % 8 {
            0 => u64::from(next() % 0x8000) & !3,
            _ => OFTEN[next() as usize % OFTEN.len()],
        };
        let value = match register {
            r::CTRL => (u32::from(next() % 64 == 0)) << 26 | r::ctrl::SLU,
            r::RCTL | r::TCTL => (next() & 0x00ff_ffff) | 2,
            r::RDBAL | r::TDBAL | r::CSBAL => next() % (RAM + RAM / 8),
            r::RDLEN | r::TDLEN => next() % 0x2000,
            r::RDH | r::RDT | r::TDH | r::TDT => next() % 300,
            _ => next(),
        };
        if next() % 8 == 0 {
            registers.read(register);
        } else {
            registers.write(register, value);
        }
    }
}

#[test]
fn a_ring_outside_the_memory_is_refused_and_told_of_until_another_one_starts() {
    let mut bench = Bench::new(TransmitMode::Async, false);
    let registers = bench.driver.registers.clone();
    assert_eq!((bench.queues.tx_broken(), bench.queues.rx_broken()), (None, None));
    registers.write(r::TDBAL, RAM);
    registers.write(r::RDBAL, 0xffff_f000);
    assert_eq!(bench.queues.tx_broken(), Some(Broken::Address));
    assert_eq!(bench.queues.rx_broken(), Some(Broken::Address));
    assert_eq!(
        (bench.queues.tx_ledger().drop_bad_ring.get(), bench.queues.rx_ledger().drop_bad_ring.get()),
        (1, 1)
    );
    assert_eq!(bench.source.drain(BURST, &mut |_| panic!("from nowhere")), 0);
    registers.write(r::CTRL, r::ctrl::RST);
    bench.driver = Driver::start(&bench.machine, TransmitMode::Async);
    assert_eq!((bench.queues.tx_broken(), bench.queues.rx_broken()), (None, None));
    assert_eq!(bench.driver.send(&frames(1)), 1);
    assert_eq!(bench.source.drain(BURST, &mut |_| {}), 1);
}
