//! Receive direction of an interface: shows frames in place, where the kernel has put them.

mod joined;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fmt, io};

use port::{Bell, Frame, Frames, Source};
use ring::BURST;
use rustix::event::epoll;

use super::XdpReadCounters;
use super::abi::{self, Descriptor};
use super::device::Queue;
use super::revival::QueueHandover;
use super::rings::{Consumer, Producer};

/// Receive half of one queue.
pub(super) struct Receiver {
    pub(super) queue: Arc<Queue>,
    pub(super) receive: Consumer<Descriptor>,
    pub(super) fill: Producer<u64>,
    /// Chunks in the fill ring that were not published to the kernel yet: fewer than a burst.
    unpublished: usize,
    /// Room for frames that lie in several chunks.
    joined: Box<[u8]>,
    /// True if the descriptors that follow belong to a frame that was too long, up to its last one.
    skips: bool,
}

/// Source of the frames received by some queues of an interface.
pub struct XdpSource {
    hand: ReceiveQueues,
    /// The queue to be drained first.
    turn: usize,
    /// True if the driver works when it is polled from here (SO_PREFER_BUSY_POLL).
    busy_poll: bool,
    counters: Arc<XdpReadCounters>,
    /// See [`super::XdpPorts::overflow`].
    overflows: Arc<AtomicBool>,
    /// True if it overflows, and half of a ring waited at the last look.
    is_crowded: bool,
    /// Hand-over slot for other queues, when the interface was deleted and created again.
    handover: Arc<QueueHandover>,
}

/// The queues that one source serves; empty while the interface does not exist.
pub(super) struct ReceiveQueues {
    receivers: Vec<Receiver>,
    /// Readable (epoll) while a frame waits in one of them, or other queues are handed over: the socket of a
    /// deleted interface is never readable again.
    any: OwnedFd,
}

impl ReceiveQueues {
    pub(super) fn new(receivers: Vec<Receiver>, handover: &QueueHandover) -> io::Result<Self> {
        let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let sockets = receivers.iter().map(|receiver| receiver.queue.socket.as_fd());
        for rings in sockets.chain([handover.bell()]) {
            epoll::add(&any, rings, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Self { receivers, any })
    }
}

impl fmt::Debug for XdpSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("XdpSource").field("queues", &self.hand.receivers.len()).finish_non_exhaustive()
    }
}

impl XdpSource {
    /// Creates a source that serves these queues. While `overflows` is set, many frames do not wait for room.
    pub(super) fn new(
        hand: ReceiveQueues,
        handover: Arc<QueueHandover>,
        busy_poll: bool,
        overflows: Arc<AtomicBool>,
    ) -> Self {
        Self { hand, turn: 0, busy_poll, counters: Arc::default(), overflows, is_crowded: false, handover }
    }

    /// Returns its counters, which any thread may read.
    pub fn counters(&self) -> Arc<XdpReadCounters> {
        Arc::clone(&self.counters)
    }

    fn waits_somewhere(&mut self) -> bool {
        self.hand.receivers.iter_mut().any(|receiver| receiver.receive.waiting(1) > 0)
    }

    /// Takes other queues over, if there are any.
    fn take_up(&mut self) {
        if let Some(hand) = self.handover.take() {
            (self.hand, self.turn) = (hand, 0);
        }
    }

    /// Shows what waits in the next queue where something does.
    fn show(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        for _ in 0..self.hand.receivers.len() {
            let turn = self.turn;
            self.turn = if turn + 1 < self.hand.receivers.len() { turn + 1 } else { 0 };
            let Some(receiver) = self.hand.receivers.get_mut(turn) else { continue };
            let shown = receiver.drain(budget, &self.counters, take);
            if shown > 0 {
                return shown;
            }
            receiver.queue.attend();
            if self.busy_poll {
                abi::kick_receive(receiver.queue.socket.as_fd());
            }
        }
        // All frames received by the old queues have been shown.
        self.take_up();
        self.counters.polls_empty.add(1);
        0
    }

    /// Looks whether so many frames wait that the kernel may soon have no place for others.
    fn look(&mut self) {
        let mut receivers = self.hand.receivers.iter_mut();
        self.is_crowded = self.overflows.load(Relaxed) && receivers.any(Receiver::is_crowded);
    }
}

impl Receiver {
    pub(super) fn new(queue: Arc<Queue>, receive: Consumer<Descriptor>, fill: Producer<u64>) -> Self {
        let joined = joined::room(queue.umem.layout);
        Self { queue, receive, fill, unpublished: 0, joined, skips: false }
    }

    /// Gives the kernel all receive chunks, once.
    pub(super) fn fill_up(&mut self) {
        for chunk in self.queue.umem.layout.receive_chunks() {
            self.fill.push(chunk);
        }
        self.fill.publish();
    }

    /// Returns true if half of the ring waits, or more.
    fn is_crowded(&mut self) -> bool {
        let half = self.receive.size() / 2;
        self.receive.waiting(half) >= half
    }

    /// Shows the available frames and returns their chunks.
    fn drain(
        &mut self,
        budget: usize,
        counters: &XdpReadCounters,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> usize {
        if self.queue.umem.layout.is_in_pieces() {
            return self.drain_joined(budget, counters, take);
        }
        let waiting = self.receive.waiting(budget.min(BURST) as u32);
        if waiting == 0 {
            if self.unpublished > 0 {
                self.refill(counters);
            }
            return 0;
        }
        let (mut frames, mut octets) = (Frames::new(), 0);
        for n in 0..waiting {
            let Descriptor { addr, len, .. } = self.receive.peek(n);
            match self.queue.umem.bytes(addr, len) {
                Some(bytes) => {
                    frames.push(Frame::new(bytes));
                    octets += u64::from(len);
                }
                None => counters.drop_bad_address.add(1),
            }
        }
        counters.frames.add(frames.len() as u64);
        counters.bytes.add(octets);
        counters.batches.add(1);
        if !frames.is_empty() {
            take(&frames);
        }
        let shown = frames.len();
        drop(frames);
        self.give_back(waiting, counters);
        shown
    }

    /// Returns chunks to the fill ring, which has room for every chunk. The kernel reads that ring on another
    /// CPU, so entries are published a burst at a time, and the rest when no frames arrive.
    fn give_back(&mut self, count: u32, counters: &XdpReadCounters) {
        for n in 0..count {
            let chunk = self.queue.umem.layout.chunk_of(self.receive.peek(n).addr);
            self.fill.push(chunk);
        }
        self.receive.release(count);
        self.unpublished += count as usize;
        if self.unpublished >= BURST {
            self.refill(counters);
        }
    }

    fn refill(&mut self, counters: &XdpReadCounters) {
        self.unpublished = 0;
        self.fill.publish();
        if self.fill.wants_wakeup() {
            counters.wakeups.add(1);
            abi::kick_receive(self.queue.socket.as_fd());
        }
    }
}

impl Source for XdpSource {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let shown = self.show(budget, take);
        self.look();
        shown
    }

    fn waits(&self) -> bool {
        !self.is_crowded
    }

    fn tend(&mut self) {
        self.look();
    }

    /// The descriptor is readable as long as frames wait, so it need not be armed; one check avoids a sleep.
    /// Frames that wait to be sent keep the thread awake, because nothing signals when they can be.
    fn arm(&mut self) -> bool {
        self.handover.is_laid()
            || self.waits_somewhere()
            || self.hand.receivers.iter().any(|receiver| receiver.queue.is_busy())
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Readable(self.hand.any.as_fd())
    }
}
