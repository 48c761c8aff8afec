//! One virtqueue of either kind: in order where the device offers it, by the book where not.

use core::mem::MaybeUninit;

use ledger::RouterNic;
use ring::split::{Driver, DriverQueue, Features, InOrderDriver, Layout, Slot};
use ring::{BURST, Region};
use router::{Buffer, Burst};

use crate::arena::Arena;
use crate::buffer::{CAPACITY, FrameBuffer, HEADER, Pool};
use crate::pieces::{self, Gather};

/// A queue whose tokens are those of frames; the address of a buffer is that of a frame in one piece.
pub(crate) enum Queue {
    InOrder(InOrderDriver<'static, u64>),
    ByTheBook(Driver<'static, u64>),
}

/// Runs the same code on either kind, each compiled for itself.
macro_rules! either {
    ($self:expr, $queue:ident => $body:expr) => {
        match $self {
            Queue::InOrder($queue) => $body,
            Queue::ByTheBook($queue) => $body,
        }
    };
}

impl Queue {
    /// A queue over ring memory that is zero.
    pub(crate) fn new(layout: &Layout, features: Features, arena: &mut Arena) -> Option<Self> {
        let entries = u64::from(layout.size);
        let (start, len) = (layout.descriptors, Layout::octets(layout.size));
        // SAFETY: RAM of the arena, mapped one to one for ever, that only ring code touches.
        let region = unsafe { Region::new(start as *mut u8, start, len) };
        if features.in_order {
            let tokens = arena.slice::<MaybeUninit<u64>>(entries, MaybeUninit::uninit())?;
            return InOrderDriver::new(region, layout, features, tokens).ok().map(Self::InOrder);
        }
        let slots = arena.slice::<Slot<u64>>(entries, Slot::EMPTY)?;
        Driver::new(region, layout, features, slots).ok().map(Self::ByTheBook)
    }

    /// Entries.
    pub(crate) fn size(&self) -> u16 {
        either!(self, queue => queue.size())
    }

    /// Entries that are not in use.
    #[inline(always)]
    pub(crate) fn free(&self) -> usize {
        either!(self, queue => queue.free())
    }

    /// Appends received frames to an empty burst; returns their octets.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        gather: &mut Gather,
        burst: &mut Burst<FrameBuffer>,
        pool: &mut Pool,
        counters: &RouterNic,
    ) -> u64 {
        either!(self, queue => receive(queue, gather, burst, pool, counters))
    }

    /// Posts free buffers until the queue is full or the pool is empty; true if the device wants a kick.
    pub(crate) fn post(&mut self, pool: &mut Pool) -> bool {
        either!(self, queue => post(queue, pool))
    }

    /// Sends frames from the front of the burst as long as there is room; true if the device wants a kick.
    #[inline(always)]
    pub(crate) fn send(&mut self, burst: &mut Burst<FrameBuffer>) -> bool {
        either!(self, queue => send(queue, burst))
    }

    /// Takes back the buffers of sent frames.
    #[inline(always)]
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        let result = either!(self, queue => queue.reclaim(usize::MAX, |token| pool.give_frame(token)));
        // A device that breaks the ring has stopped it; the queue says so by staying full.
        let _ = result;
    }

    /// Lends one buffer to the device (control queue); the kick is the caller's.
    pub(crate) fn command(&mut self, request: (u64, u32), answer: (u64, u32)) -> bool {
        match self {
            Self::ByTheBook(queue) => {
                let segments = [
                    ring::split::Segment { address: request.0, len: request.1, writable: false },
                    ring::split::Segment { address: answer.0, len: answer.1, writable: true },
                ];
                queue.push_chain(0, &segments) && queue.publish()
            }
            Self::InOrder(_) => false,
        }
    }

    /// Asks for an interrupt when something comes back; true if something has.
    pub(crate) fn arm(&mut self) -> bool {
        either!(self, queue => queue.arm())
    }

    /// Asks for an interrupt when three quarters of what is lent has come back, for a transmit queue; true if it has.
    pub(crate) fn arm_delayed(&mut self) -> bool {
        either!(self, queue => queue.arm_delayed())
    }

    /// Asks for no interrupts.
    pub(crate) fn disarm(&mut self) {
        either!(self, queue => queue.disarm());
    }
}

#[inline(always)]
fn receive(
    queue: &mut impl DriverQueue<u64>,
    gather: &mut Gather,
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
        if len <= CAPACITY {
            queue.push(frame.into_token(), at, len, false);
        } else {
            send_pieces(queue, frame);
        }
    }
    queue.publish()
}

/// Sends a frame of several pieces by its list. Such frames come only where tables were agreed on, and there is room.
#[cold]
#[inline(never)]
fn send_pieces(queue: &mut impl DriverQueue<u64>, frame: FrameBuffer) {
    let Some((list, count)) = frame.pieces() else { return };
    let entries = pieces::cut(list, count, HEADER as usize + frame.len());
    queue.push_table(frame.into_token(), list, entries as u16);
}
