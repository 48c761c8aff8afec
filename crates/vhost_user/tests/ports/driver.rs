//! One queue of a virtio driver, in memory that its device accesses as well.

use std::mem::MaybeUninit;

use nic::virtio_net::features;
use ring::Region;
use ring::split::{Driver, DriverQueue, InOrderDriver, Layout, Slot};

use super::OFFLOADS;

/// Entries of the queue.
pub(crate) const ENTRIES: u16 = 128;
/// Octets that a queue takes with its buffers, rounded up.
pub(crate) const OCTETS: u64 = 0x5_0000;
/// Octets of the rings, rounded up.
const RINGS: u64 = 0x4000;
/// Octets of a buffer: header and the largest frame that needs no segmentation.
const BUFFER: u32 = 2048;
/// Octets of the header before each frame (virtio 1.2, section 5.1.6).
const HEADER: usize = 12;
/// Offset of the header's field for the number of buffers of a frame (num_buffers).
const BUFFERS: usize = 10;

const _: () = assert!(Layout::octets(ENTRIES) <= RINGS && RINGS + ENTRIES as u64 * BUFFER as u64 <= OCTETS);

enum Ring {
    ByTheBook(Driver<'static, u64>),
    InOrder(InOrderDriver<'static, u64>),
}

/// Runs the same code on each kind of ring.
macro_rules! either {
    ($self:expr, $ring:ident => $body:expr) => {
        match &mut $self {
            Ring::ByTheBook($ring) => $body,
            Ring::InOrder($ring) => $body,
        }
    };
}

/// The queue; tokens are the addresses of buffers.
pub(crate) struct Queue {
    region: Region,
    layout: Layout,
    ring: Ring,
    free: Vec<u64>,
    /// True if the device may leave offloads to this driver.
    offloads: bool,
}

impl Queue {
    /// Creates a queue at `start` in zeroed memory, for a driver with these features.
    pub(crate) fn new(region: Region, start: u64, picked: u64) -> Self {
        let (layout, agreed) = (Layout::contiguous(ENTRIES, start), features::ring_features(picked));
        let ring = if agreed.in_order {
            let tokens = Box::leak(vec![MaybeUninit::uninit(); ENTRIES.into()].into_boxed_slice());
            Ring::InOrder(InOrderDriver::new(region, &layout, agreed, tokens).expect("a ring"))
        } else {
            let slots = Box::leak(vec![Slot::EMPTY; ENTRIES.into()].into_boxed_slice());
            Ring::ByTheBook(Driver::new(region, &layout, agreed, slots).expect("a ring"))
        };
        let buffer = |number| start + RINGS + number * u64::from(BUFFER);
        let free = (0..u64::from(ENTRIES)).rev().map(buffer).collect();
        Self { region, layout, ring, free, offloads: picked & OFFLOADS != 0 }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Posts all free buffers for receive; returns true if the device wants a kick.
    pub(crate) fn post(&mut self) -> bool {
        while let Some(at) = self.free.pop() {
            assert!(
                either!(self.ring, ring => ring.push(at, at, BUFFER, true)),
                "as many as there are entries"
            );
        }
        either!(self.ring, ring => ring.publish())
    }

    /// Returns the frames received since the last call, and whether the device wants a kick for their
    /// buffers, which are posted again.
    pub(crate) fn received(&mut self) -> (Vec<Vec<u8>>, bool) {
        let (mut buffers, region, free) = (Vec::new(), self.region, &mut self.free);
        let taken = either!(self.ring, ring => ring.pop(usize::MAX, |at, written| {
            let bytes = region.bytes(at, written).expect("what was written lies in the buffer");
            let mut octets = vec![0; bytes.len()];
            bytes.copy_to_slice(&mut octets);
            buffers.push(octets);
            free.push(at);
        }));
        assert_eq!(taken, Ok(buffers.len()), "a sound ring");
        let (mut frames, mut buffers) = (Vec::new(), buffers.into_iter());
        while let Some(mut octets) = buffers.next() {
            let frame = octets.split_off(HEADER);
            let [low, high] = octets[BUFFERS..] else { panic!("the header ends here") };
            assert!(
                self.offloads || octets[..BUFFERS] == [0; BUFFERS],
                "something is left that was not agreed on"
            );
            let more = usize::from(u16::from_le_bytes([low, high])) - 1;
            let more: Vec<_> = buffers.by_ref().take(more).collect();
            frames.push([frame, more.concat()].concat());
        }
        (frames, self.post())
    }

    /// Sends as many of the frames as there are buffers for; returns their number, and whether the device
    /// wants a kick.
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) -> (usize, bool) {
        let free = &mut self.free;
        either!(self.ring, ring => ring.reclaim(usize::MAX, |at| free.push(at))).expect("a sound ring");
        let sent = frames.iter().take_while(|frame| self.send_one(frame)).count();
        (sent, either!(self.ring, ring => ring.publish()))
    }

    fn send_one(&mut self, frame: &[u8]) -> bool {
        let Some(at) = self.free.pop() else { return false };
        let whole = [&[0; HEADER], frame].concat();
        let len = whole.len() as u32;
        self.region.bytes(at, len).expect("a buffer").copy_from_slice(&whole);
        assert!(either!(self.ring, ring => ring.push(at, at, len, false)), "as many as there are entries");
        true
    }
}
