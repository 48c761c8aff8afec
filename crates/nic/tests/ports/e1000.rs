//! A simulated e1000 driver: one ring with its buffers, with the driver's end from `ring`.

use std::mem::MaybeUninit;
use std::sync::Arc;

use nic::e1000::{Filters, RxChecksum, RxSettings, RxSetup, TxSettings, TxSetup};
use nic::queue::{RxQueue, TxQueue};
use ring::Region;
use ring::e1000::{Csb, Descriptor, HeadTail, Layout, Received, RxDriver, TxDriver, TxSlot, rx, tx};

/// Guest-physical address of the memory: the status block, the ring, buffers.
const START: u64 = 0x10_0000;
const RING: u64 = START + 0x1000;
const FIRST_BUFFER: u64 = RING + 0x2000;
/// Number of entries of the ring.
const ENTRIES: u16 = 512;
/// Sizes of buffers for a whole frame, and for a part of one.
pub(crate) const BUFFERS: [u32; 2] = [2048, 512];
/// Distance of two buffers.
const STRIDE: u64 = 2112;

/// Way in which the driver learns of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// By the status block.
    Block,
    /// By DD, with RS in each frame's last descriptor.
    EachFrame,
    /// By DD, with RS in one descriptor of four.
    SomeFrames,
}

impl Style {
    /// All variants.
    pub(crate) const ALL: [Self; 3] = [Self::Block, Self::EachFrame, Self::SomeFrames];
}

/// The driver; tokens are the addresses of buffers.
pub(crate) struct Guest {
    region: Region,
    layout: Layout,
    style: Style,
    buffer: u32,
    ends: Arc<HeadTail>,
    rx: RxDriver<'static, u64>,
    tx: TxDriver<'static, u64>,
    free: Vec<u64>,
    sent: usize,
}

impl Guest {
    /// Creates a ring in memory of its own, which is leaked.
    pub(crate) fn new(style: Style, buffer: u32) -> Self {
        let len = (FIRST_BUFFER - START) + u64::from(ENTRIES) * STRIDE;
        let octets = Box::leak(vec![0_u8; len as usize + 64].into_boxed_slice());
        let skew = octets.as_ptr().align_offset(64);
        let region = Region::from_static(&mut octets[skew..skew + len as usize], START);
        let layout = Layout { base: RING, entries: ENTRIES };
        let csb = (style == Style::Block).then(|| Csb::map(&region, START).unwrap());
        let tokens = Box::leak(vec![MaybeUninit::uninit(); ENTRIES.into()].into_boxed_slice());
        let slots = Box::leak(vec![TxSlot::EMPTY; ENTRIES.into()].into_boxed_slice());
        let rx = RxDriver::new(region, &layout, csb, tokens).unwrap();
        let tx = TxDriver::new(region, &layout, csb, slots).unwrap();
        let free = (0..u64::from(ENTRIES)).rev().map(|n| FIRST_BUFFER + n * STRIDE).collect();
        Self { region, layout, style, buffer, ends: Arc::new(HeadTail::new()), rx, tx, free, sent: 0 }
    }

    fn block(&self) -> Option<u64> {
        (self.style == Style::Block).then_some(START)
    }

    /// Sends one frame, each piece in a buffer of its own; returns false if there is no room for all of it.
    fn send_one(&mut self, frame: &[u8]) -> bool {
        let pieces = frame.chunks(self.buffer as usize);
        let count = pieces.len();
        if self.tx.free() < count || self.free.len() < count {
            return false;
        }
        for (i, piece) in pieces.enumerate() {
            let at = self.free.pop().unwrap();
            self.region.bytes(at, piece.len() as u32).unwrap().copy_from_slice(piece);
            self.sent += 1;
            let last = i + 1 == count;
            let reports = match self.style {
                Style::Block => false,
                Style::EachFrame => last,
                Style::SomeFrames => self.sent.is_multiple_of(4),
            };
            let command = if last { tx::EOP | tx::IFCS } else { 0 } | if reports { tx::RS } else { 0 };
            assert!(self.tx.push(Descriptor::legacy(at, piece.len() as u16, command), Some(at)));
        }
        true
    }
}

impl super::Driver for Guest {
    fn receive_queue(&self) -> RxQueue {
        let filters = Filters {
            unicast: true,
            multicast: true,
            broadcast: true,
            hash: 0,
            addresses: [None; 16],
            hashes: [0; 128],
            vlans: None,
            canonical: None,
        };
        let settings = RxSettings {
            buffer_len: self.buffer,
            longest: super::LONGEST,
            fcs: false,
            vlan: false,
            vlan_type: 0x8100,
            filters: Arc::new(filters),
            checksum: RxChecksum::default(),
            threshold: 2,
            loopback: false,
        };
        let (layout, ends, block, statistics) =
            (self.layout, self.ends.clone(), self.block(), Arc::default());
        let setup = RxSetup { layout, ends, block, statistics, settings };
        RxQueue::E1000(Box::new(nic::e1000::rx::RxQueue::new(self.region, &setup).unwrap()))
    }

    fn transmit_queue(&self) -> TxQueue {
        let longest = super::LONGEST;
        let settings =
            TxSettings { pad_short: false, vlan: false, vlan_type: 0x8100, longest, low: 0, loopback: false };
        let (layout, ends, block, statistics) =
            (self.layout, self.ends.clone(), self.block(), Arc::default());
        let setup = TxSetup { layout, ends, block, statistics, settings };
        TxQueue::E1000(Box::new(nic::e1000::tx::TxQueue::new(self.region, &setup).unwrap()))
    }

    fn shortest(&self) -> usize {
        60
    }

    fn post(&mut self) -> bool {
        let room = self.rx.free().min(self.free.len());
        let buffers = self.free.drain(self.free.len() - room..).map(|at| (at, at));
        assert_eq!(self.rx.push_buffers(buffers), room);
        let kick = self.rx.publish();
        if self.style != Style::Block {
            self.ends.set_tail(self.rx.tail() as u16);
        }
        kick
    }

    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut pieces: Vec<(u64, Received)> = Vec::new();
        while self.rx.pop(usize::MAX, |at, received| pieces.push((at, received))).unwrap() > 0 {}
        let (mut frames, mut frame) = (Vec::new(), Vec::new());
        for (at, received) in pieces {
            let mut octets = vec![0; received.length.into()];
            self.region.bytes(at, octets.len() as u32).unwrap().copy_to_slice(&mut octets);
            frame.extend(octets);
            if received.status & rx::EOP != 0 {
                frames.push(std::mem::take(&mut frame));
            }
            self.free.push(at);
        }
        assert!(frame.is_empty(), "the head lies behind the end of a frame");
        self.post();
        frames
    }

    fn send(&mut self, frames: &[Vec<u8>]) -> (usize, bool) {
        let free = &mut self.free;
        self.tx.reclaim(usize::MAX, |at| free.push(at)).unwrap();
        let sent = frames.iter().take_while(|frame| self.send_one(frame)).count();
        let kick = self.tx.publish();
        if self.style != Style::Block {
            self.ends.set_tail(self.tx.tail() as u16);
        }
        (sent, kick)
    }
}
