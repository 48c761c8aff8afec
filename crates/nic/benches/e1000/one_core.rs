//! Cost of a frame at each end of the rings, on one core with warm caches: nanoseconds, median over rounds.

use std::time::Instant;

use ledger::NicDirection;
use ring::BURST;

use crate::models::{E1000, Model, Virtio};

const ROUNDS: usize = 2000;

/// Nanoseconds per frame of each step, one sample a round.
#[derive(Default)]
struct Costs {
    transmit: Vec<f64>,
    device: Vec<f64>,
    receive: Vec<f64>,
    all: Vec<f64>,
}

/// A path of frames from one guest to another.
struct Lane<M: Model> {
    from: M,
    tx: M::Tx,
    to: M,
    rx: M::Rx,
    costs: Costs,
    ledgers: [NicDirection; 2],
}

impl<M: Model> Lane<M> {
    fn new(from: M, mut to: M, size: u16) -> Self {
        let ((_, tx), (rx, _)) = (from.devices(), to.devices());
        to.post(0..size - 1);
        Self { from, tx, to, rx, costs: Costs::default(), ledgers: Default::default() }
    }

    /// Moves a ring of frames, less a burst, from one guest's transmit ring to the other's receive ring.
    fn round(&mut self, size: u16, frame: u32, copy: bool) {
        let (bursts, frames) = (size / BURST as u16 - 1, f64::from(size - BURST as u16));
        let per_frame = |since: Instant| since.elapsed().as_secs_f64() * 1e9 / frames;
        let all = Instant::now();
        let start = Instant::now();
        for burst in 0..bursts {
            self.from.send(burst * BURST as u16..(burst + 1) * BURST as u16, frame);
        }
        self.costs.transmit.push(per_frame(start));
        let start = Instant::now();
        let (source, sink) = (&mut self.tx, &mut self.rx);
        let [tx_ledger, rx_ledger] = &self.ledgers;
        for _ in 0..bursts {
            M::drain(source, tx_ledger, &mut |frames| {
                if copy {
                    M::fill(sink, rx_ledger, frames);
                }
            });
        }
        self.costs.device.push(per_frame(start));
        let start = Instant::now();
        self.from.reclaim(|_| {});
        let mut back = [0; BURST];
        for _ in 0..bursts {
            let mut n = 0;
            self.to.pop(|token| {
                back[n] = token;
                n += 1;
            });
            self.to.post(back[..n].iter().copied());
        }
        self.costs.receive.push(per_frame(start));
        self.costs.all.push(per_frame(all));
    }

    fn medians(mut self, rounds: usize, size: u16, copy: bool) -> [f64; 4] {
        let frames = (rounds as u64) * u64::from(size - BURST as u16);
        assert_eq!(self.ledgers[0].frames.get(), frames);
        assert_eq!(self.ledgers[1].frames.get(), if copy { frames } else { 0 });
        let Costs { transmit, device, receive, all } = &mut self.costs;
        [transmit, device, receive, all].map(|samples| {
            samples.sort_by(f64::total_cmp);
            samples[samples.len() / 2]
        })
    }
}

pub(crate) fn compare(name: &str, size: u16, frame: u32, copy: bool, promiscuous: bool) {
    let mut virtio = Lane::new(Virtio::new(size, size), Virtio::new(size, size), size);
    let [from, to] = [(); 2].map(|()| E1000::new(size, size, promiscuous));
    let mut e1000 = Lane::new(from, to, size);
    for _ in 0..ROUNDS {
        virtio.round(size, frame, copy);
        e1000.round(size, frame, copy);
    }
    let (virtio, e1000) = (virtio.medians(ROUNDS, size, copy), e1000.medians(ROUNDS, size, copy));
    print!("{name:<34}");
    for (step, (v, e)) in ["transmit", "device", "receive", "all"].iter().zip(virtio.iter().zip(&e1000)) {
        print!("  {step} {v:6.2} {e:6.2} {:4.2}x", v / e);
    }
    println!();
}
