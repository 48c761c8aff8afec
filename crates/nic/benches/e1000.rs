//! What one frame costs at each end of an e1000's rings with a status block, beside virtio-net's split rings in order:
//! all on one core and in its caches, in turn. `cargo bench -p ringroad-nic --bench e1000`
//! Prints nanoseconds a frame (median over rounds), and how much faster the e1000 is. Not a test: it judges nothing.

mod support;

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Instant;

use ledger::NicDirection;
use nic::e1000::{Filters, RxChecksum, RxSettings, RxSetup, TxSettings, TxSetup};
use nic::{e1000, virtio_net};
use ring::e1000::{Csb, Descriptor, Ends, RxDriver, TxDriver, TxSlot, tx};
use ring::split::{DeviceQueue, DriverQueue, Features, InOrderDriver};
use ring::{BURST, Region};
use support::Memory;
use switch::Frame;

const ROUNDS: usize = 2000;
const FEATURES: Features = Features { in_order: true, event_idx: true, indirect: true };
/// The own station's address: the buffers' content.
const OWN: [u8; 6] = [2; 6];

/// Both rings of one guest, with its device's ends. A token is the number of a buffer.
trait Model {
    type Tx;
    type Rx;
    fn post(&mut self, tokens: impl Iterator<Item = u16>);
    fn pop(&mut self, take: impl FnMut(u16));
    fn send(&mut self, tokens: impl Iterator<Item = u16>, len: u32);
    fn reclaim(&mut self);
    /// The device's end of the transmit ring.
    fn tx(&mut self) -> &mut Self::Tx;
    /// The device's end of the receive ring.
    fn rx(&mut self) -> &mut Self::Rx;
    /// Both of them poll from now on.
    fn disarm(&mut self);
    fn drain(tx: &mut Self::Tx, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>]));
    fn fill(rx: &mut Self::Rx, ledger: &NicDirection, frames: &[Frame<'_>]);
}

struct Virtio {
    memory: Memory,
    receive: InOrderDriver<'static, u16>,
    transmit: InOrderDriver<'static, u16>,
    rx: virtio_net::rx::RxQueue,
    tx: virtio_net::tx::TxQueue,
}

fn tokens<T>(size: u16) -> &'static mut [MaybeUninit<T>] {
    Vec::leak((0..size).map(|_| MaybeUninit::uninit()).collect())
}

impl Virtio {
    fn new(size: u16) -> Self {
        let memory = Memory::new(2, size, size);
        let [receive, transmit] = [0, 1].map(|queue| {
            let mut queue =
                InOrderDriver::new(memory.region, &memory.layout(queue), FEATURES, tokens(size)).unwrap();
            queue.disarm();
            queue
        });
        let [rx, tx] =
            [0, 1].map(|queue| DeviceQueue::new(memory.region, &memory.layout(queue), FEATURES).unwrap());
        let rx = virtio_net::rx::RxQueue::new(rx, false);
        let tx = virtio_net::tx::TxQueue::new(tx, 1514);
        Self { memory, receive, transmit, rx, tx }
    }
}

/// Octets of virtio-net's header.
const HEADER: u32 = 12;

impl Model for Virtio {
    type Tx = virtio_net::tx::TxQueue;
    type Rx = virtio_net::rx::RxQueue;

    #[inline(always)]
    fn post(&mut self, tokens: impl Iterator<Item = u16>) {
        for token in tokens {
            self.receive.push(token, self.memory.buffer(token), 2048, true);
        }
        self.receive.publish();
    }

    #[inline(always)]
    fn pop(&mut self, mut take: impl FnMut(u16)) {
        self.receive.pop(BURST, |token, _| take(token)).unwrap();
    }

    #[inline(always)]
    fn send(&mut self, tokens: impl Iterator<Item = u16>, len: u32) {
        for token in tokens {
            self.transmit.push(token, self.memory.buffer(token), len + HEADER, false);
        }
        self.transmit.publish();
    }

    #[inline(always)]
    fn reclaim(&mut self) {
        self.transmit.reclaim(usize::MAX, |_| {}).unwrap();
    }

    #[inline(always)]
    fn tx(&mut self) -> &mut Self::Tx {
        &mut self.tx
    }

    #[inline(always)]
    fn rx(&mut self) -> &mut Self::Rx {
        &mut self.rx
    }

    fn disarm(&mut self) {
        self.tx.disarm();
        self.rx.disarm();
    }

    #[inline(always)]
    fn drain(tx: &mut Self::Tx, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>])) {
        tx.drain(BURST, ledger, take);
    }

    #[inline(always)]
    fn fill(rx: &mut Self::Rx, ledger: &NicDirection, frames: &[Frame<'_>]) {
        rx.fill(frames, ledger);
    }
}

struct E1000 {
    memory: Memory,
    receive: RxDriver<'static, u16>,
    transmit: TxDriver<'static, u16>,
    rx: e1000::rx::RxQueue,
    tx: e1000::tx::TxQueue,
}

impl E1000 {
    fn new(size: u16, promiscuous: bool) -> Self {
        let memory = Memory::new(3, size, size);
        let block = memory.layout(2).descriptors;
        let layout = |queue| {
            let base = memory.layout(queue).descriptors;
            ring::e1000::Layout::new(base, u32::from(size) * ring::e1000::DESCRIPTOR).unwrap()
        };
        let csb = Csb::map(&memory.region, block).unwrap();
        let mut receive = RxDriver::new(memory.region, &layout(0), Some(csb), tokens(size)).unwrap();
        let slots = Vec::leak(vec![TxSlot::EMPTY; size.into()]);
        let mut transmit = TxDriver::new(memory.region, &layout(1), Some(csb), slots).unwrap();
        receive.disarm();
        transmit.disarm();
        let rx = receive_queue(memory.region, layout(0), block, promiscuous);
        let tx = transmit_queue(memory.region, layout(1), block);
        Self { memory, receive, transmit, rx, tx }
    }
}

fn receive_queue(
    region: Region,
    layout: ring::e1000::Layout,
    block: u64,
    promiscuous: bool,
) -> e1000::rx::RxQueue {
    let filters = Filters {
        unicast: promiscuous,
        multicast: promiscuous,
        broadcast: true,
        hash: 0,
        addresses: std::array::from_fn(|i| (i == 0).then_some(OWN)),
        hashes: [0; 128],
        vlans: None,
        canonical: None,
    };
    let settings = RxSettings {
        buffer_len: 2048,
        longest: 1518,
        fcs: false,
        vlan: false,
        vlan_type: 0x8100,
        filters: Arc::new(filters),
        checksum: RxChecksum::default(),
        threshold: 2,
        loopback: false,
    };
    let (ends, statistics) = (Arc::new(Ends::new()), Arc::default());
    let setup = RxSetup { layout, ends, block: Some(block), statistics, settings };
    e1000::rx::RxQueue::new(region, &setup).unwrap()
}

fn transmit_queue(region: Region, layout: ring::e1000::Layout, block: u64) -> e1000::tx::TxQueue {
    let settings = TxSettings {
        pad_short: false,
        vlan: false,
        vlan_type: 0x8100,
        longest: 1514,
        low: 0,
        loopback: false,
    };
    let (ends, statistics) = (Arc::new(Ends::new()), Arc::default());
    let setup = TxSetup { layout, ends, block: Some(block), statistics, settings };
    e1000::tx::TxQueue::new(region, &setup).unwrap()
}

impl Model for E1000 {
    type Tx = e1000::tx::TxQueue;
    type Rx = e1000::rx::RxQueue;

    #[inline(always)]
    fn post(&mut self, tokens: impl Iterator<Item = u16>) {
        self.receive.push_buffers(tokens.map(|token| (token, self.memory.buffer(token))));
        self.receive.publish();
    }

    #[inline(always)]
    fn pop(&mut self, mut take: impl FnMut(u16)) {
        self.receive.pop(BURST, |token, _| take(token)).unwrap();
    }

    #[inline(always)]
    fn send(&mut self, tokens: impl Iterator<Item = u16>, len: u32) {
        let frame = |token| Descriptor::legacy(self.memory.buffer(token), len as u16, tx::EOP | tx::IFCS);
        self.transmit.push_frames(tokens.map(|token| (frame(token), token)));
        self.transmit.publish();
    }

    #[inline(always)]
    fn reclaim(&mut self) {
        self.transmit.reclaim(usize::MAX, |_| {}).unwrap();
    }

    #[inline(always)]
    fn tx(&mut self) -> &mut Self::Tx {
        &mut self.tx
    }

    #[inline(always)]
    fn rx(&mut self) -> &mut Self::Rx {
        &mut self.rx
    }

    fn disarm(&mut self) {
        self.tx.disarm();
        self.rx.disarm();
    }

    #[inline(always)]
    fn drain(tx: &mut Self::Tx, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>])) {
        tx.drain(BURST, ledger, take);
    }

    #[inline(always)]
    fn fill(rx: &mut Self::Rx, ledger: &NicDirection, frames: &[Frame<'_>]) {
        rx.fill(frames, ledger);
    }
}

/// Nanoseconds a frame of each step, one sample a round.
#[derive(Default)]
struct Costs {
    transmit: Vec<f64>,
    device: Vec<f64>,
    receive: Vec<f64>,
    all: Vec<f64>,
}

/// A lane of frames from one guest to another.
struct Lane<M> {
    from: M,
    to: M,
    costs: Costs,
    ledgers: [NicDirection; 2],
}

impl<M: Model> Lane<M> {
    fn new(mut from: M, mut to: M, size: u16) -> Self {
        from.disarm();
        to.disarm();
        to.post(0..size - 1);
        Self { from, to, costs: Costs::default(), ledgers: Default::default() }
    }

    /// All but a burst of a ring of frames goes from one transmit ring to the other receive ring.
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
        let (source, sink) = (self.from.tx(), self.to.rx());
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
        self.from.reclaim();
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

fn compare(name: &str, size: u16, frame: u32, copy: bool, promiscuous: bool) {
    let mut virtio = Lane::new(Virtio::new(size), Virtio::new(size), size);
    let mut e1000 = Lane::new(E1000::new(size, promiscuous), E1000::new(size, promiscuous), size);
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

/// Runs the cases whose name holds every word of the command line.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    println!("nanoseconds a frame: virtio-net, e1000 with a status block, and how much faster that is");
    for size in [256, 1024] {
        for frame in [64, 1514] {
            for (copy, what) in [(false, "shown"), (true, "one copy")] {
                for (promiscuous, filter) in [(true, "promiscuous"), (false, "own address")] {
                    let name = format!("{size} {frame} {what} {filter}");
                    if words.iter().all(|word| name.contains(word.as_str())) {
                        compare(&name, size, frame, copy, promiscuous);
                    }
                }
            }
        }
    }
}
