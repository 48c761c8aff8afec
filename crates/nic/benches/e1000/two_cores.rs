//! A forwarding guest on one core, and the device's end of both its rings on another: alternates between the two
//! models, in windows of a millisecond each.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ledger::NicDirection;
use port::Frame;
use ring::{BURST, Bytes};

use crate::models::{E1000, Model, Virtio};

const WINDOW: Duration = Duration::from_millis(1);
const WINDOWS: usize = 1000;
/// Length of a frame in octets.
const FRAME: u32 = 64;
/// Current phase: one of the models, or the end.
const VIRTIO: u32 = 0;
const E1000_TURN: u32 = 1;
const END: u32 = 2;

/// Pins this thread to one core.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        println!("not pinned to core {core}: {error}");
    }
}

/// One guest: sends every received frame back, with its addresses swapped. Buffers are posted and reclaimed in batches.
struct Forwarder<M> {
    model: M,
    pool: Vec<u16>,
    lot: usize,
}

impl<M: Model> Forwarder<M> {
    fn new(model: M, size: u16) -> Self {
        Self { model, pool: (0..4 * size).collect(), lot: usize::from(size) / 4 }
    }

    #[inline(always)]
    fn pass(&mut self) {
        let (model, pool) = (&mut self.model, &mut self.pool);
        let (missing, _) = model.free();
        if missing >= self.lot {
            model.post(pool.drain(pool.len().saturating_sub(missing)..));
        }
        let (mut burst, mut n) = ([0; BURST], 0);
        model.pop(|token| {
            burst[n] = token;
            n += 1;
        });
        if n == 0 {
            return;
        }
        model.prefetch();
        for &token in &burst[..n] {
            let frame = model.frame(token);
            let [to, from]: [[u8; 6]; 2] = [frame.read(0).unwrap(), frame.read(6).unwrap()];
            frame.write(0, from);
            frame.write(6, to);
        }
        if model.free().1 < n || pool.len() < self.lot {
            model.reclaim(|token| pool.push(token));
        }
        let room = model.free().1.min(n);
        model.send(burst[..room].iter().copied(), FRAME);
        pool.extend(&burst[room..n]);
    }
}

/// The host of one guest: generator and sink.
struct Host<M: Model> {
    rx: M::Rx,
    tx: M::Tx,
    ledgers: [NicDirection; 2],
    rates: Vec<f64>,
}

impl<M: Model> Host<M> {
    fn new(model: &M) -> Self {
        let (rx, tx) = model.devices();
        Self { rx, tx, ledgers: Default::default(), rates: Vec::new() }
    }

    fn window(&mut self, frames: &[Frame<'_>]) {
        let [rx_ledger, tx_ledger] = &self.ledgers;
        let (start, before, mut sum) = (Instant::now(), tx_ledger.frames.get(), 0);
        while start.elapsed() < WINDOW {
            for _ in 0..16 {
                M::fill(&mut self.rx, rx_ledger, frames);
                M::drain(&mut self.tx, tx_ledger, &mut |frames| {
                    for frame in frames {
                        sum ^= u64::from_le_bytes(frame.octets().read(0).unwrap_or_default());
                    }
                });
            }
        }
        black_box(sum);
        let sent = (tx_ledger.frames.get() - before) as f64;
        self.rates.push(sent / start.elapsed().as_secs_f64() / 1e6);
    }

    /// Returns the quantile `part` of the rates of all windows.
    fn rate(&mut self, part: f64) -> f64 {
        self.rates.sort_by(f64::total_cmp);
        self.rates[(self.rates.len() as f64 * part) as usize]
    }
}

pub(crate) fn compare(name: &str, size: u16) {
    pin(0);
    let (virtio, e1000) = (Virtio::new(size, 4 * size), E1000::new(size, 4 * size, true));
    let (mut virtio_host, mut e1000_host) = (Host::new(&virtio), Host::new(&e1000));
    let (mut first, mut second) = (Forwarder::new(virtio, size), Forwarder::new(e1000, size));
    let turn = AtomicU32::new(VIRTIO);
    let mut content = vec![[7u8; FRAME as usize]; BURST];
    let frames: Vec<Frame<'_>> =
        content.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            loop {
                match turn.load(Ordering::Relaxed) {
                    VIRTIO => first.pass(),
                    E1000_TURN => second.pass(),
                    _ => return,
                }
            }
        });
        for _ in 0..WINDOWS {
            turn.store(VIRTIO, Ordering::Relaxed);
            virtio_host.window(&frames);
            turn.store(E1000_TURN, Ordering::Relaxed);
            e1000_host.window(&frames);
        }
        turn.store(END, Ordering::Relaxed);
    });
    print!("{name:<34}");
    for (part, what) in [(0.5, "median"), (0.9, "90 %"), (0.99, "99 %")] {
        let (virtio, e1000) = (virtio_host.rate(part), e1000_host.rate(part));
        print!("  {what} {virtio:6.1} {e1000:6.1} {:4.2}x", e1000 / virtio);
    }
    println!();
}
