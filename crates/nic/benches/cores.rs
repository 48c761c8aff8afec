//! A forwarding guest on one core and the device's end of both its queues on another, in one program:
//! measures the rate that the rings allow, without a virtual machine.
//! `cargo bench -p ringroad-nic --bench cores`
//! Not a test: it has no pass criterion. On a busy host only the best windows are meaningful.

mod support;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ledger::NicDirection;
use nic::virtio_net::rx::RxQueue;
use nic::virtio_net::tx::{HEADER, TxQueue};
use port::Frame;
use ring::split::{DeviceQueue, DriverQueue, Features, InOrderDriver};
use ring::{BURST, Bytes};
use support::Memory;

const SIZE: u16 = 1024;
const FEATURES: Features = Features { in_order: true, event_idx: true, indirect: true };
/// Number of buffers refilled and reclaimed at a time.
const LOT: usize = 256;
const WINDOW: Duration = Duration::from_millis(1);

/// Pins this thread to one core.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        println!("not pinned to core {core}: {error}");
    }
}

/// The guest: sends every received buffer back, with its addresses swapped.
fn forward(memory: &Memory, stop: &AtomicBool) {
    pin(1);
    let mut tokens = [(); 2].map(|()| vec![MaybeUninit::uninit(); SIZE.into()]);
    let [a, b] = &mut tokens;
    let mut rx = InOrderDriver::<u16>::new(memory.region, &memory.layout(0), FEATURES, a).unwrap();
    let mut tx = InOrderDriver::<u16>::new(memory.region, &memory.layout(1), FEATURES, b).unwrap();
    let mut pool: Vec<u16> = (0..4 * SIZE).collect();
    rx.disarm();
    tx.disarm();
    let octets = |token: u16| memory.region.bytes(memory.buffer(token), 2048).unwrap();
    let mut burst = [(0, 0); BURST];
    while !stop.load(Ordering::Relaxed) {
        if rx.free() >= LOT {
            for token in pool.drain(pool.len().saturating_sub(rx.free())..) {
                rx.push(token, memory.buffer(token), 2048, true);
            }
            rx.publish();
        }
        let mut n = 0;
        rx.pop(BURST, |token, len| {
            burst[n] = (token, len);
            n += 1;
        })
        .unwrap();
        if n == 0 {
            continue;
        }
        rx.prefetch_next(BURST, |token| octets(token).prefetch());
        tx.prefetch_push(n);
        for &(token, _) in &burst[..n] {
            let frame = octets(token).skip(HEADER as u32);
            let [to, from]: [[u8; 6]; 2] = [frame.read(0).unwrap(), frame.read(6).unwrap()];
            frame.write(0, from);
            frame.write(6, to);
        }
        if tx.free() < n || pool.len() < LOT {
            tx.reclaim(usize::from(SIZE), |token| pool.push(token)).unwrap();
        }
        for &(token, len) in &burst[..n] {
            if !tx.push(token, memory.buffer(token), len, false) {
                pool.push(token);
            }
        }
        tx.publish();
    }
}

/// The host: generator and sink. Returns millions of frames a second, for each window of [`WINDOW`].
fn serve(mut rx: RxQueue, mut tx: TxQueue, windows: usize) -> Vec<f64> {
    let mut content = vec![[7u8; 64]; BURST];
    let frames: Vec<Frame<'_>> =
        content.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    let ledgers = [(); 2].map(|()| NicDirection::default());
    let (mut rates, mut sum) = (Vec::new(), 0u64);
    rx.disarm();
    tx.disarm();
    while rates.len() < windows {
        let (start, before) = (Instant::now(), ledgers[1].frames.get());
        while start.elapsed() < WINDOW {
            for _ in 0..16 {
                rx.fill(&frames, &ledgers[0]);
                tx.drain(BURST, &ledgers[1], &mut |frames| {
                    for frame in frames {
                        sum ^= u64::from_le_bytes(frame.octets().read(0).unwrap_or_default());
                    }
                });
            }
        }
        rates.push((ledgers[1].frames.get() - before) as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    std::hint::black_box(sum);
    rates.sort_by(f64::total_cmp);
    rates
}

fn main() {
    pin(0);
    let memory = Memory::new(2, SIZE, 4 * SIZE);
    let stop = AtomicBool::new(false);
    let rx = RxQueue::new(DeviceQueue::new(memory.region, &memory.layout(0), FEATURES).unwrap(), false);
    let tx = TxQueue::new(DeviceQueue::new(memory.region, &memory.layout(1), FEATURES).unwrap(), 1514);
    let rates = std::thread::scope(|scope| {
        scope.spawn(|| forward(&memory, &stop));
        let rates = serve(rx, tx, 2000);
        stop.store(true, Ordering::Relaxed);
        rates
    });
    let at = |share: f64| rates[(rates.len() as f64 * share) as usize];
    println!("Mpps in windows of 1 ms: median {:.1}, 90 % {:.1}, 99 % {:.1}", at(0.5), at(0.9), at(0.99));
}
