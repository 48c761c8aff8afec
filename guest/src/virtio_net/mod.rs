//! The virtio-net driver: one receive and one transmit queue for each vCPU.

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
use crate::pieces::{self, Gather};
use queue::Queue;
pub(crate) use transport::{QueueRegisters, Transport};

/// Receive buffers are posted and sent ones taken back in lots of this part of a ring: fewer lines cross the cores.
const LOTS: usize = 4;

/// Entries of the smallest ring that frames of many pieces come by: two of the longest, and they are not all posted.
const SMALLEST_FOR_PIECES: usize = 4 * pieces::MOST;

/// Entries of a control queue: room for one command of two descriptors, and no more is ever under way.
const CONTROL_ENTRIES: u16 = 16;

/// What a queue is to be like.
#[derive(Clone, Copy)]
struct QueueWish {
    /// The vCPU that it interrupts.
    vcpu: usize,
    /// Most entries.
    entries: u16,
    features: Features,
}

/// A device that is set up but does not run yet, with the queues of all vCPUs.
pub(crate) struct Device {
    transport: Transport,
    /// Whether IN_ORDER may be used.
    tuned: bool,
    ring_size: u16,
    vcpus: usize,
    /// Whether interrupts that tell of sent frames are delayed.
    delay_sent: bool,
}

impl Device {
    /// Resets the device in `info.slot`, which `vcpus` of them are to serve.
    pub(crate) fn open(info: &NicInfo, boot: &BootInfo, vcpus: usize) -> Option<Self> {
        let (ring_size, delay_sent) = (boot.ring_size as u16, boot.traffic.delay_sent != 0);
        let transport = Transport::new(info.slot)?;
        Some(Self { transport, tuned: info.tuned != 0, ring_size, vcpus, delay_sent })
    }

    /// What frames that leave by it may leave to be done.
    pub(crate) fn sendable(&self) -> Offloads {
        let long = usize::from(self.ring_size) >= SMALLEST_FOR_PIECES;
        if long { self.transport.sendable() } else { self.transport.sendable() & Offloads::CSUM }
    }

    /// Configures it: frames that come may leave this to be done.
    pub(crate) fn settle(&mut self, offloads: Offloads) -> Option<()> {
        self.transport.negotiate(self.tuned, self.vcpus > 1, offloads)
    }

    /// Its Ethernet address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.transport.mac()
    }

    /// The queue pair of one vCPU, in memory of that vCPU's arena.
    pub(crate) fn queue_pair(&self, vcpu: usize, arena: &mut Arena) -> Option<QueuePair> {
        self.transport.route(vcpu as u16, vcpu);
        let number = 2 * vcpu as u16;
        let features = self.transport.ring_features();
        let wish = QueueWish { vcpu, entries: self.ring_size, features };
        let (receive, receive_layout, receive_bell) = self.queue(number, wish, arena)?;
        let (transmit, transmit_layout, transmit_bell) = self.queue(number + 1, wish, arena)?;
        let layouts = [receive_layout, transmit_layout];
        let gather = Gather::new(self.transport.describes());
        Some(QueuePair {
            receive,
            receive_bell,
            gather,
            transmit,
            transmit_bell,
            layouts,
            sendable: self.transport.agreed(),
            delay_sent: self.delay_sent,
            cramped: false,
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

    /// Lets the device run, with a queue pair for each vCPU.
    pub(crate) fn run(&self, arena: &mut Arena) -> Option<()> {
        if self.vcpus == 1 {
            self.transport.run();
            return Some(());
        }
        let number = control::queue_number(&self.transport);
        // One command is sent: by the book it lies where in order it would.
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
    gather: Gather,
    transmit: Queue,
    transmit_bell: QueueRegisters,
    /// Where the receive and the transmit queue lie.
    layouts: [Layout; 2],
    /// What frames that are sent may leave to be done.
    sendable: Offloads,
    /// A sender that waits for room is interrupted when there is a lot of it.
    delay_sent: bool,
    /// Somebody waits for room.
    cramped: bool,
}

impl QueuePair {
    /// Entries of both queues together.
    pub(crate) fn entries(&self) -> usize {
        usize::from(self.receive.size()) + usize::from(self.transmit.size())
    }

    /// Takes received frames into an empty burst.
    #[inline(always)]
    pub(crate) fn receive(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        let octets = self.receive.receive(&mut self.gather, burst, pool, counters);
        if !burst.is_empty() {
            counters.rx_frames.add(burst.len() as u64);
            counters.rx_bytes.add(octets);
            counters.rx_bursts.add(1);
        }
    }

    /// Posts free buffers once a lot of them is missing.
    #[inline(always)]
    pub(crate) fn refill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        let lot = usize::from(self.receive.size()) / LOTS;
        if self.receive.free() < lot || pool.len() < lot {
            return;
        }
        let wanted = self.receive.post(pool);
        notify(wanted, self.receive_bell, counters);
    }

    /// Sends a burst and leaves it empty.
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
            // What is left found no room, and was not sent.
            octets -= burst.iter().map(Buffer::len).sum::<usize>();
            counters.drop_tx_full.add(burst.len() as u64);
        }
        counters.tx_frames.add((frames - burst.len()) as u64);
        counters.tx_bytes.add(octets as u64);
        for frame in burst.drain(..) {
            pool.give_frame(frame.into_token());
        }
    }

    /// How many frames can be sent now: at least a lot of them, or none, and then an interrupt is wanted when there is
    /// room for more.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        let lot = BURST.min(usize::from(self.transmit.size()) / LOTS);
        if self.transmit.free() < lot {
            self.transmit.reclaim(pool);
        }
        self.cramped = self.transmit.free() < lot;
        if self.cramped { 0 } else { self.transmit.free() }
    }

    /// What frames that are sent may leave to be done.
    pub(crate) fn sendable(&self) -> Offloads {
        self.sendable
    }

    /// Somebody waits for what is sent: an interrupt is wanted, once armed, when something has been.
    pub(crate) fn await_sent(&mut self) {
        self.cramped = true;
    }

    /// Takes back the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        self.transmit.reclaim(pool);
    }

    /// Where the receive and the transmit queue lie, and their doorbells: for who wants to go past the driver.
    pub(crate) fn exposed(&self) -> [(Layout, QueueRegisters); 2] {
        let [receive, transmit] = self.layouts;
        [(receive, self.receive_bell), (transmit, self.transmit_bell)]
    }

    /// Asks for an interrupt when a frame comes in, or there is room that somebody waits for; true if so.
    pub(crate) fn arm(&mut self) -> bool {
        let sent = core::mem::take(&mut self.cramped) && self.arm_transmit();
        self.receive.arm() || sent
    }

    fn arm_transmit(&mut self) -> bool {
        if self.delay_sent { self.transmit.arm_delayed() } else { self.transmit.arm() }
    }

    /// Asks for no interrupts: this vCPU polls.
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
