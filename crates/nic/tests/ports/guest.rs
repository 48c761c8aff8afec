//! A simulated virtio-net driver: one queue with its buffers, with the driver's end from `ring`.

use std::mem::MaybeUninit;

use nic::queue::{RxQueue, TxQueue};
use nic::virtio_net::{rx, tx};
use ring::Region;
use ring::split::{DeviceQueue, Driver, DriverQueue, Features, InOrderDriver, Layout, Segment, Slot};

/// Guest-physical address of the memory.
const START: u64 = 0x10_0000;
/// Number of entries of the queue.
const SIZE: u16 = 128;
/// Size of a buffer in octets: header and the largest frame.
const BUFFER: u32 = 2048;
/// Distance of two buffers.
const STRIDE: u64 = 2112;
/// Length of the header before each frame in octets (virtio 1.2, section 5.1.6).
const HEADER: usize = 12;

/// Variant of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Chains of one buffer, suppression by flags.
    ByTheBook,
    /// Chains of one buffer, suppression by event indices.
    EventIndices,
    /// The transmit header in a buffer of its own.
    HeaderApart,
    /// IN_ORDER.
    InOrder,
}

impl Habit {
    /// All variants.
    pub(crate) const ALL: [Self; 4] = [Self::ByTheBook, Self::EventIndices, Self::HeaderApart, Self::InOrder];

    fn features(self) -> Features {
        let in_order = self == Self::InOrder;
        Features { event_idx: in_order || self == Self::EventIndices, indirect: false, in_order }
    }
}

enum Queue {
    ByTheBook(Driver<'static, u64>),
    InOrder(InOrderDriver<'static, u64>),
}

/// Runs the same code on either kind of queue.
macro_rules! either {
    ($self:expr, $queue:ident => $body:expr) => {
        match &mut $self {
            Queue::ByTheBook($queue) => $body,
            Queue::InOrder($queue) => $body,
        }
    };
}

/// The driver; tokens are the addresses of buffers.
pub(crate) struct Guest {
    region: Region,
    layout: Layout,
    habit: Habit,
    mergeable: bool,
    queue: Queue,
    free: Vec<u64>,
}

impl Guest {
    /// Creates a queue in memory of its own, which is leaked.
    pub(crate) fn new(habit: Habit, mergeable: bool) -> Self {
        let rings = Layout::octets(SIZE).next_multiple_of(4096);
        let len = rings + u64::from(SIZE) * STRIDE;
        let octets = Box::leak(vec![0_u8; len as usize + 64].into_boxed_slice());
        let skew = octets.as_ptr().align_offset(64);
        let region = Region::from_static(&mut octets[skew..], START);
        let (layout, features) = (Layout::contiguous(SIZE, START), habit.features());
        let queue = if features.in_order {
            let tokens = Box::leak(vec![MaybeUninit::uninit(); SIZE.into()].into_boxed_slice());
            Queue::InOrder(InOrderDriver::new(region, &layout, features, tokens).unwrap())
        } else {
            let slots = Box::leak(vec![Slot::EMPTY; SIZE.into()].into_boxed_slice());
            Queue::ByTheBook(Driver::new(region, &layout, features, slots).unwrap())
        };
        let free = (0..u64::from(SIZE)).rev().map(|n| START + rings + n * STRIDE).collect();
        Self { region, layout, habit, mergeable, queue, free }
    }

    /// Creates the device's end.
    fn device(&self) -> DeviceQueue {
        DeviceQueue::new(self.region, &self.layout, self.habit.features()).unwrap()
    }
}

impl super::Driver for Guest {
    fn receive_queue(&self) -> RxQueue {
        RxQueue::VirtioNet(Box::new(rx::RxQueue::new(self.device(), self.mergeable)))
    }

    fn transmit_queue(&self) -> TxQueue {
        TxQueue::VirtioNet(Box::new(tx::TxQueue::new(self.device(), super::LONGEST)))
    }

    fn shortest(&self) -> usize {
        tx::SHORTEST
    }

    fn post(&mut self) -> bool {
        while let Some(at) = self.free.pop() {
            assert!(either!(self.queue, queue => queue.push(at, at, BUFFER, true)));
        }
        either!(self.queue, queue => queue.publish())
    }

    fn received(&mut self) -> Vec<Vec<u8>> {
        let (mut frames, region, free) = (Vec::new(), self.region, &mut self.free);
        let taken = either!(self.queue, queue => queue.pop(usize::MAX, |at, written| {
            let bytes = region.bytes(at, written).unwrap();
            let mut octets = vec![0; bytes.len()];
            bytes.copy_to_slice(&mut octets);
            assert_eq!(octets[..HEADER], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
            frames.push(octets.split_off(HEADER));
            free.push(at);
        }));
        assert_eq!(taken, Ok(frames.len()));
        self.post();
        frames
    }

    fn send(&mut self, frames: &[Vec<u8>]) -> (usize, bool) {
        let free = &mut self.free;
        either!(self.queue, queue => queue.reclaim(usize::MAX, |at| free.push(at))).unwrap();
        let sent = frames.iter().take_while(|frame| self.send_one(frame)).count();
        (sent, either!(self.queue, queue => queue.publish()))
    }
}

impl Guest {
    fn send_one(&mut self, frame: &[u8]) -> bool {
        let Some(at) = self.free.pop() else { return false };
        let whole = [&[0; HEADER], frame].concat();
        let len = whole.len() as u32;
        self.region.bytes(at, len).unwrap().copy_from_slice(&whole);
        let header = Segment { address: at, len: HEADER as u32, writable: false };
        let rest = Segment { address: at + HEADER as u64, len: len - HEADER as u32, writable: false };
        let pushed = match &mut self.queue {
            Queue::ByTheBook(queue) if self.habit == Habit::HeaderApart => {
                queue.push_chain(at, &[header, rest])
            }
            Queue::ByTheBook(queue) => queue.push(at, at, len, false),
            Queue::InOrder(queue) => queue.push(at, at, len, false),
        };
        if !pushed {
            self.free.push(at);
        }
        pushed
    }
}
