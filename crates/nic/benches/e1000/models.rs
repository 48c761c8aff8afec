//! Drivers of both NIC models with the device's ends of their rings, behind a common interface.

use std::mem::MaybeUninit;
use std::sync::Arc;

use ledger::NicDirection;
use nic::e1000::{Filters, RxChecksum, RxSettings, RxSetup, TxSettings, TxSetup};
use nic::{e1000, virtio_net};
use port::Frame;
use ring::e1000::{Csb, DESCRIPTOR, Descriptor, HeadTail, Layout, RxDriver, TxDriver, TxSlot, tx};
use ring::split::{DeviceQueue, DriverQueue, Features, InOrderDriver};
use ring::{BURST, Bytes, Region};

use crate::support::Memory;

const FEATURES: Features = Features { in_order: true, event_idx: true, indirect: true };
/// Address of the station itself, with which the buffers are filled.
const OWN: [u8; 6] = [2; 6];
/// Length of virtio-net's header in octets.
const HEADER: u32 = 12;

/// The driver's ends of a receive and a transmit ring whose other ends poll. A token is the number of a
/// buffer.
pub(crate) trait Model: Send {
    type Rx: Send;
    type Tx: Send;
    /// Creates the device's ends.
    fn devices(&self) -> (Self::Rx, Self::Tx);
    /// Returns how many buffers can be posted, and how many frames sent.
    fn free(&self) -> (usize, usize);
    fn post(&mut self, tokens: impl Iterator<Item = u16>);
    fn pop(&mut self, take: impl FnMut(u16));
    /// Prefetches memory for the next `pop`.
    fn prefetch(&self);
    fn send(&mut self, tokens: impl Iterator<Item = u16>, len: u32);
    fn reclaim(&mut self, take: impl FnMut(u16));
    /// Returns the frame in a buffer.
    fn frame(&self, token: u16) -> Bytes<'static>;
    fn drain(tx: &mut Self::Tx, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>]));
    fn fill(rx: &mut Self::Rx, ledger: &NicDirection, frames: &[Frame<'_>]);
}

/// virtio-net with in-order split rings.
pub(crate) struct Virtio {
    memory: Memory,
    receive: InOrderDriver<'static, u16>,
    transmit: InOrderDriver<'static, u16>,
}

fn tokens<T>(size: u16) -> &'static mut [MaybeUninit<T>] {
    Vec::leak((0..size).map(|_| MaybeUninit::uninit()).collect())
}

impl Virtio {
    pub(crate) fn new(size: u16, buffers: u16) -> Self {
        let memory = Memory::new(2, size, buffers);
        let [receive, transmit] = [0, 1].map(|queue| {
            let mut queue =
                InOrderDriver::new(memory.region, &memory.layout(queue), FEATURES, tokens(size)).unwrap();
            queue.disarm();
            queue
        });
        Self { memory, receive, transmit }
    }
}

impl Model for Virtio {
    type Rx = virtio_net::rx::RxQueue;
    type Tx = virtio_net::tx::TxQueue;

    fn devices(&self) -> (Self::Rx, Self::Tx) {
        let queue =
            |number| DeviceQueue::new(self.memory.region, &self.memory.layout(number), FEATURES).unwrap();
        let mut rx = virtio_net::rx::RxQueue::new(queue(0), false);
        let mut tx = virtio_net::tx::TxQueue::new(queue(1), 1514);
        rx.disarm();
        tx.disarm();
        (rx, tx)
    }

    #[inline(always)]
    fn free(&self) -> (usize, usize) {
        (self.receive.free(), self.transmit.free())
    }

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
    fn prefetch(&self) {
        self.receive.prefetch_next(BURST, |token| self.frame(token).prefetch());
        self.transmit.prefetch_push(BURST);
    }

    #[inline(always)]
    fn send(&mut self, tokens: impl Iterator<Item = u16>, len: u32) {
        for token in tokens {
            self.transmit.push(token, self.memory.buffer(token), len + HEADER, false);
        }
        self.transmit.publish();
    }

    #[inline(always)]
    fn reclaim(&mut self, take: impl FnMut(u16)) {
        self.transmit.reclaim(usize::MAX, take).unwrap();
    }

    #[inline(always)]
    fn frame(&self, token: u16) -> Bytes<'static> {
        self.memory.region.bytes(self.memory.buffer(token), 2048).unwrap_or(Bytes::EMPTY).skip(HEADER)
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

/// An e1000 with a status block.
pub(crate) struct E1000 {
    memory: Memory,
    size: u16,
    promiscuous: bool,
    receive: RxDriver<'static, u16>,
    transmit: TxDriver<'static, u16>,
}

impl E1000 {
    pub(crate) fn new(size: u16, buffers: u16, promiscuous: bool) -> Self {
        let memory = Memory::new(3, size, buffers);
        let csb = Some(Csb::map(&memory.region, block(&memory)).unwrap());
        let slots = Vec::leak(vec![TxSlot::EMPTY; size.into()]);
        let mut receive = RxDriver::new(memory.region, &layout(&memory, 0, size), csb, tokens(size)).unwrap();
        let mut transmit = TxDriver::new(memory.region, &layout(&memory, 1, size), csb, slots).unwrap();
        receive.disarm();
        transmit.disarm();
        Self { memory, size, promiscuous, receive, transmit }
    }
}

/// Returns the address of the status block, which takes the place of a third queue.
fn block(memory: &Memory) -> u64 {
    memory.layout(2).descriptors
}

fn layout(memory: &Memory, ring: u64, size: u16) -> Layout {
    Layout::new(memory.layout(ring).descriptors, u32::from(size) * DESCRIPTOR).unwrap()
}

fn receive_settings(promiscuous: bool) -> RxSettings {
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
    RxSettings {
        buffer_len: 2048,
        longest: 1518,
        fcs: false,
        vlan: false,
        vlan_type: 0x8100,
        filters: Arc::new(filters),
        checksum: RxChecksum::default(),
        threshold: 2,
        loopback: false,
    }
}

const TRANSMIT: TxSettings =
    TxSettings { pad_short: false, vlan: false, vlan_type: 0x8100, longest: 1514, low: 0, loopback: false };

fn receive_queue(region: Region, layout: Layout, block: u64, promiscuous: bool) -> e1000::rx::RxQueue {
    let (ends, statistics, settings) =
        (Arc::new(HeadTail::new()), Arc::default(), receive_settings(promiscuous));
    let setup = RxSetup { layout, ends, block: Some(block), statistics, settings };
    e1000::rx::RxQueue::new(region, &setup).unwrap()
}

fn transmit_queue(region: Region, layout: Layout, block: u64) -> e1000::tx::TxQueue {
    let (ends, statistics) = (Arc::new(HeadTail::new()), Arc::default());
    let setup = TxSetup { layout, ends, block: Some(block), statistics, settings: TRANSMIT };
    e1000::tx::TxQueue::new(region, &setup).unwrap()
}

impl Model for E1000 {
    type Rx = e1000::rx::RxQueue;
    type Tx = e1000::tx::TxQueue;

    fn devices(&self) -> (Self::Rx, Self::Tx) {
        let (memory, size) = (&self.memory, self.size);
        let mut rx = receive_queue(memory.region, layout(memory, 0, size), block(memory), self.promiscuous);
        let mut tx = transmit_queue(memory.region, layout(memory, 1, size), block(memory));
        rx.disarm();
        tx.disarm();
        (rx, tx)
    }

    #[inline(always)]
    fn free(&self) -> (usize, usize) {
        (self.receive.free(), self.transmit.free())
    }

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
    fn prefetch(&self) {
        self.receive.prefetch_next(BURST, |token| self.frame(token).prefetch());
        self.transmit.prefetch_push(BURST);
    }

    #[inline(always)]
    fn send(&mut self, tokens: impl Iterator<Item = u16>, len: u32) {
        let frame = |token| Descriptor::legacy(self.memory.buffer(token), len as u16, tx::EOP | tx::IFCS);
        self.transmit.push_frames(tokens.map(|token| (frame(token), token)));
        self.transmit.publish();
    }

    #[inline(always)]
    fn reclaim(&mut self, take: impl FnMut(u16)) {
        self.transmit.reclaim(usize::MAX, take).unwrap();
    }

    #[inline(always)]
    fn frame(&self, token: u16) -> Bytes<'static> {
        self.memory.region.bytes(self.memory.buffer(token), 2048).unwrap_or(Bytes::EMPTY)
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
