//! Virtqueue driver of either kind: in-order if the device offers it, otherwise regular.

use core::mem::MaybeUninit;

use ledger::RouterNic;
use ring::split::{Driver, DriverQueue, Features, InOrderDriver, Layout, Slot};
use ring::{BURST, Region};
use router::{Buffer, Burst};

use crate::arena::Arena;
use crate::buffer::{CAPACITY, FrameBuffer, HEADER, Pool, SURELY};
use crate::segments::FrameAssembler;

/// Queue whose tokens are those of frames; the token of a frame in one piece is the address of its buffer.
pub(crate) enum Queue {
    InOrder(InOrderDriver<'static, u64>),
    Regular(Driver<'static, u64>),
}

/// Runs the same code on either kind, compiled separately for each.
macro_rules! either {
    ($self:expr, $queue:ident => $body:expr) => {
        match $self {
            Queue::InOrder($queue) => $body,
            Queue::Regular($queue) => $body,
        }
    };
}

impl Queue {
    /// Creates a queue over zeroed ring memory.
    pub(crate) fn new(layout: &Layout, features: Features, arena: &mut Arena) -> Option<Self> {
        let entries = u64::from(layout.size);
        let (start, len) = (layout.descriptors, Layout::octets(layout.size));
        // SAFETY: RAM of the arena, permanently mapped one to one, that only ring code accesses.
        let region = unsafe { Region::new(start as *mut u8, start, len) };
        if features.in_order {
            let tokens = arena.slice::<MaybeUninit<u64>>(entries, MaybeUninit::uninit())?;
            return InOrderDriver::new(region, layout, features, tokens).ok().map(Self::InOrder);
        }
        let slots = arena.slice::<Slot<u64>>(entries, Slot::EMPTY)?;
        Driver::new(region, layout, features, slots).ok().map(Self::Regular)
    }

    /// Number of entries.
    pub(crate) fn size(&self) -> u16 {
        either!(self, queue => queue.size())
    }

    /// Number of entries that are not in use.
    #[inline(always)]
    pub(crate) fn free(&self) -> usize {
        either!(self, queue => queue.free())
    }

    /// Appends received frames to an empty burst; returns their octets.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        gather: &mut FrameAssembler,
        burst: &mut Burst<FrameBuffer>,
        pool: &mut Pool,
        counters: &RouterNic,
    ) -> u64 {
        either!(self, queue => receive(queue, gather, burst, pool, counters))
    }

    /// Posts free buffers until the queue is full or the pool is empty; returns true if the device wants a kick.
    pub(crate) fn post(&mut self, pool: &mut Pool) -> bool {
        either!(self, queue => post(queue, pool))
    }

    /// Sends frames from the front of the burst as long as there is room; returns true if the device wants a kick.
    #[inline(always)]
    pub(crate) fn send(&mut self, burst: &mut Burst<FrameBuffer>) -> bool {
        either!(self, queue => send(queue, burst))
    }

    /// Reclaims the buffers of sent frames.
    #[inline(always)]
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        let result = either!(self, queue => queue.reclaim(usize::MAX, |token| pool.give_frame(token)));
        // A device that violates the ring's protocol has stopped it; the queue then stays full.
        let _ = result;
    }

    /// Makes a command and its answer buffer available (control queue); returns true if the caller must kick.
    pub(crate) fn command(&mut self, request: (u64, u32), answer: (u64, u32)) -> bool {
        match self {
            Self::Regular(queue) => {
                let segments = [
                    ring::split::Segment { address: request.0, len: request.1, writable: false },
                    ring::split::Segment { address: answer.0, len: answer.1, writable: true },
                ];
                queue.push_chain(0, &segments) && queue.publish()
            }
            Self::InOrder(_) => false,
        }
    }

    /// Requests an interrupt for the next returned buffer; returns true if one has returned already.
    pub(crate) fn arm(&mut self) -> bool {
        either!(self, queue => queue.arm())
    }

    /// Requests an interrupt for when three quarters of the outstanding buffers have returned (transmit queue);
    /// returns true if they have.
    pub(crate) fn arm_delayed(&mut self) -> bool {
        either!(self, queue => queue.arm_delayed())
    }

    /// Suppresses interrupts.
    pub(crate) fn disarm(&mut self) {
        either!(self, queue => queue.disarm());
    }
}

#[inline(always)]
fn receive(
    queue: &mut impl DriverQueue<u64>,
    gather: &mut FrameAssembler,
    burst: &mut Burst<FrameBuffer>,
    pool: &mut Pool,
    counters: &RouterNic,
) -> u64 {
    let mut octets = 0;
    let taken = queue.pop(BURST, |at, written| {
        octets += gather.take((at, written), burst, pool, counters);
    });
    if taken.is_ok_and(|count| count > 0) {
        queue.prefetch_next(BURST, |at| ring::prefetch::write(at as *const u8));
    }
    octets
}

fn post(queue: &mut impl DriverQueue<u64>, pool: &mut Pool) -> bool {
    let n = queue.free().min(pool.len());
    for _ in 0..n {
        let Some(at) = pool.take() else { break };
        queue.push(at, at, CAPACITY, true);
    }
    queue.publish()
}

#[inline(always)]
fn send(queue: &mut impl DriverQueue<u64>, burst: &mut Burst<FrameBuffer>) -> bool {
    let room = queue.free().min(burst.len());
    for mut frame in burst.drain(..room) {
        frame.seal_header();
        let (len, at) = (HEADER + frame.len() as u32, frame.address());
        if len <= SURELY {
            queue.push(frame.into_token(), at, len, false);
        } else {
            send_long(queue, frame);
        }
    }
    queue.publish()
}

/// Sends a long frame: by its list if it has several pieces. Such frames exist only if indirect descriptors were negotiated and
/// there is room.
#[cold]
#[inline(never)]
fn send_long(queue: &mut impl DriverQueue<u64>, frame: FrameBuffer) {
    match frame.table() {
        Some((list, entries, _)) => {
            queue.push_table(frame.into_token(), list, entries as u16);
        }
        None => {
            let (len, at) = (HEADER + frame.len() as u32, frame.address());
            queue.push(frame.into_token(), at, len, false);
        }
    }
}
