//! Driver of virtio-net devices: one receive and one transmit queue for each vCPU.

mod control;
mod queue;
mod transport;

use bootinfo::{BootInfo, NicInfo};
use frame::offload::Offloads;
use ledger::RouterNic;
use ring::BURST;
use ring::split::{Features, Layout};
use router::{Buffer, Burst};

use crate::arena::Arena;
use crate::buffer::{FrameBuffer, Pool};
use crate::segments::{self, FrameAssembler};
use queue::Queue;
pub(crate) use transport::{QueueRegisters, Transport};

/// Receive buffers are posted, and sent ones reclaimed, in lots of 1 / LOTS of a ring, so that fewer cache lines cross
/// the cores.
const LOTS: usize = 4;

/// Entries of the smallest ring that may receive frames of many pieces: room for two of the longest, although not all
/// entries are posted.
const SMALLEST_FOR_PIECES: usize = 4 * segments::MOST;

/// Entries of a control queue: room for the single command of two descriptors that is ever in flight.
const CONTROL_ENTRIES: u16 = 16;

/// Parameters of a queue.
#[derive(Clone, Copy)]
struct QueueWish {
    /// vCPU that it interrupts.
    vcpu: usize,
    /// Most entries.
    entries: u16,
    features: Features,
}

/// Device that is initialised but does not run yet, with the queues of all vCPUs.
pub(crate) struct Device {
    transport: Transport,
    /// True if IN_ORDER may be used.
    tuned: bool,
    ring_size: u16,
    vcpus: usize,
    /// True if interrupts for sent frames are delayed.
    delay_sent: bool,
}

impl Device {
    /// Resets the device in `info.slot`, which `vcpus` vCPUs will serve.
    pub(crate) fn open(info: &NicInfo, boot: &BootInfo, vcpus: usize) -> Option<Self> {
        let (ring_size, delay_sent) = (boot.ring_size as u16, boot.traffic.delay_sent != 0);
        let transport = Transport::new(info.slot)?;
        Some(Self { transport, tuned: info.tuned != 0, ring_size, vcpus, delay_sent })
    }

    /// Offloads that frames sent by it may leave to the device.
    pub(crate) fn sendable(&self) -> Offloads {
        let long = usize::from(self.ring_size) >= SMALLEST_FOR_PIECES;
        if long { self.transport.sendable() } else { self.transport.sendable() & Offloads::CSUM }
    }

    /// Configures it; received frames may carry this offload metadata.
    pub(crate) fn negotiate(&mut self, offloads: Offloads) -> Option<()> {
        self.transport.negotiate(self.tuned, self.vcpus > 1, offloads)
    }

    /// Returns its Ethernet address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.transport.mac()
    }

    /// Creates the queue pair of one vCPU, in memory of that vCPU's arena.
    pub(crate) fn queue_pair(&self, vcpu: usize, arena: &mut Arena) -> Option<QueuePair> {
        self.transport.route(vcpu as u16, vcpu);
        let number = 2 * vcpu as u16;
        let features = self.transport.ring_features();
        let wish = QueueWish { vcpu, entries: self.ring_size, features };
        let (receive, receive_layout, receive_bell) = self.queue(number, wish, arena)?;
        let (transmit, transmit_layout, transmit_bell) = self.queue(number + 1, wish, arena)?;
        let layouts = [receive_layout, transmit_layout];
        let gather = FrameAssembler::new(self.transport.has_rx_headers());
        Some(QueuePair {
            receive,
            receive_bell,
            gather,
            transmit,
            transmit_bell,
            layouts,
            sendable: self.transport.agreed(),
            delay_sent: self.delay_sent,
            waits_for_room: false,
        })
    }

    fn queue(
        &self,
        number: u16,
        wish: QueueWish,
        arena: &mut Arena,
    ) -> Option<(Queue, Layout, QueueRegisters)> {
        let size = self.transport.select(number).min(wish.entries);
        if !size.is_power_of_two() {
            return None;
        }
        let layout = Layout::contiguous(size, arena.take(Layout::octets(size), 4096)?);
        let queue = Queue::new(&layout, wish.features, arena)?;
        let bell = self.transport.start_queue(number, &layout, wish.vcpu as u16);
        Some((queue, layout, bell))
    }

    /// Starts the device, with a queue pair for each vCPU.
    pub(crate) fn run(&self, arena: &mut Arena) -> Option<()> {
        if self.vcpus == 1 {
            self.transport.run();
            return Some(());
        }
        let number = control::queue_number(&self.transport);
        // A single command is sent: without IN_ORDER it has the same place in the ring as with it.
        let features = Features { in_order: false, ..self.transport.ring_features() };
        let wish = QueueWish { vcpu: 0, entries: CONTROL_ENTRIES, features };
        let (mut queue, _, bell) = self.queue(number, wish, arena)?;
        self.transport.run();
        control::set_queue_pairs(&mut queue, bell, self.vcpus as u16, arena)
    }
}

/// One NIC as one vCPU uses it.
pub(crate) struct QueuePair {
    receive: Queue,
    receive_bell: QueueRegisters,
    gather: FrameAssembler,
    transmit: Queue,
    transmit_bell: QueueRegisters,
    /// Locations of the receive and the transmit queue.
    layouts: [Layout; 2],
    /// Offloads that sent frames may leave to the device.
    sendable: Offloads,
    /// True if a sender that waits for room is interrupted only when much room is free.
    delay_sent: bool,
    /// True if a sender waits for room.
    waits_for_room: bool,
}

impl QueuePair {
    /// Total number of entries in both queues.
    pub(crate) fn entries(&self) -> usize {
        usize::from(self.receive.size()) + usize::from(self.transmit.size())
    }

    /// Moves received frames into an empty burst.
    #[inline(always)]
    pub(crate) fn receive(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        let octets = self.receive.receive(&mut self.gather, burst, pool, counters);
        if !burst.is_empty() {
            counters.rx_frames.add(burst.len() as u64);
            counters.rx_bytes.add(octets);
            counters.rx_bursts.add(1);
        }
    }

    /// Posts free buffers once a whole lot of them is missing.
    #[inline(always)]
    pub(crate) fn refill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        let lot = usize::from(self.receive.size()) / LOTS;
        if self.receive.free() < lot || pool.len() < lot {
            return;
        }
        let wanted = self.receive.post(pool);
        notify(wanted, self.receive_bell, counters);
    }

    /// Sends a burst; the burst is empty afterwards.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        if self.transmit.free() < burst.len() {
            self.transmit.reclaim(pool);
        }
        let frames = burst.len();
        let mut octets: usize = burst.iter().map(Buffer::len).sum();
        let wanted = self.transmit.send(burst);
        notify(wanted, self.transmit_bell, counters);
        if !burst.is_empty() {
            // The remaining frames found no room, and were not sent.
            octets -= burst.iter().map(Buffer::len).sum::<usize>();
            counters.drop_tx_full.add(burst.len() as u64);
        }
        counters.tx_frames.add((frames - burst.len()) as u64);
        counters.tx_bytes.add(octets as u64);
        for frame in burst.drain(..) {
            pool.give_frame(frame.into_token());
        }
    }

    /// Returns the number of frames that can be sent now: at least a lot, or 0, in which case an interrupt is
    /// requested when there is room for more.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        let lot = BURST.min(usize::from(self.transmit.size()) / LOTS);
        if self.transmit.free() < lot {
            self.transmit.reclaim(pool);
        }
        self.waits_for_room = self.transmit.free() < lot;
        if self.waits_for_room { 0 } else { self.transmit.free() }
    }

    /// Offloads that sent frames may leave to the device.
    pub(crate) fn sendable(&self) -> Offloads {
        self.sendable
    }

    /// Records that a sender waits for sent frames: once armed, an interrupt is requested when some have been sent.
    pub(crate) fn await_sent(&mut self) {
        self.waits_for_room = true;
    }

    /// Reclaims the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        self.transmit.reclaim(pool);
    }

    /// Returns the locations of the receive and the transmit queue, and their doorbells, for code that bypasses the
    /// driver.
    pub(crate) fn exposed(&self) -> [(Layout, QueueRegisters); 2] {
        let [receive, transmit] = self.layouts;
        [(receive, self.receive_bell), (transmit, self.transmit_bell)]
    }

    /// Requests an interrupt for a received frame, or for room that a sender waits for; returns true if there is one
    /// already.
    pub(crate) fn arm(&mut self) -> bool {
        let sent = core::mem::take(&mut self.waits_for_room) && self.arm_transmit();
        self.receive.arm() || sent
    }

    fn arm_transmit(&mut self) -> bool {
        if self.delay_sent { self.transmit.arm_delayed() } else { self.transmit.arm() }
    }

    /// Suppresses interrupts: this vCPU polls.
    pub(crate) fn disarm(&mut self) {
        self.receive.disarm();
        self.transmit.disarm();
    }
}

#[inline(always)]
fn notify(wanted: bool, bell: QueueRegisters, counters: &RouterNic) {
    if wanted {
        bell.kick();
        counters.kicks.add(1);
    } else {
        counters.kicks_suppressed.add(1);
    }
}
