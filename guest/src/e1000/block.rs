//! Driver of an 82540EM with a status block: no register is accessed while both sides poll (seed paper 001, section
//! 3.3).

use ledger::RouterNic;
use ring::BURST;
use ring::e1000::{Descriptor, RxDriver, TxDriver, tx};
use router::{Buffer, Burst};

use super::interrupt::InterruptPin;
use super::offload::Order;
use super::received::Assembly;
use super::registers as r;
use super::tail::Tail;
use crate::buffer::{FrameBuffer, HEADER, Pool};
use crate::pci::Registers;

/// Receive buffers are posted in lots of 1 / LOTS of the ring, so that fewer cache lines cross the cores.
const LOTS: usize = 4;
/// CMD of a whole frame, without RS (report status): the status block tells what was sent.
const FRAME: u8 = tx::EOP | tx::IFCS;

/// One device whose frames this vCPU moves.
pub(crate) struct StatusBlockDriver {
    rx: RxDriver<'static, u64>,
    rdt: Tail,
    tx: TxDriver<'static, u64>,
    tdt: Tail,
    assembly: Assembly,
    registers: Registers,
    receive_disabled: bool,
    /// True if a sender waits for room in the transmit ring.
    waits_for_room: bool,
    /// Its interrupt pin; none if another vCPU serves the interrupts.
    line: Option<InterruptPin>,
}

impl StatusBlockDriver {
    pub(super) fn new(
        rx: RxDriver<'static, u64>,
        tx: TxDriver<'static, u64>,
        registers: Registers,
        [rdt, tdt]: [Tail; 2],
        line: Option<InterruptPin>,
    ) -> Self {
        Self {
            rx,
            rdt,
            tx,
            tdt,
            assembly: Assembly::default(),
            registers,
            receive_disabled: false,
            waits_for_room: false,
            line,
        }
    }

    /// Returns true if another vCPU serves its interrupts.
    pub(crate) fn is_aided(&self) -> bool {
        self.line.is_none()
    }

    /// Total number of entries in both rings.
    pub(crate) fn entries(&self) -> usize {
        usize::from(self.rx.entries()) + usize::from(self.tx.entries())
    }

    /// Moves received frames into an empty burst.
    #[inline(always)]
    pub(crate) fn receive(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        let assembly = &mut self.assembly;
        let mut octets = 0;
        let taken = self.rx.pop(BURST, |at, received| {
            octets += assembly.take(at, received, burst, pool);
        });
        if taken.is_ok_and(|count| count > 0) {
            self.rx.prefetch_next(BURST, |at| ring::prefetch::write(at as *const u8));
            counters.rx_frames.add(burst.len() as u64);
            counters.rx_bytes.add(octets);
            counters.rx_bursts.add(1);
            self.assembly.count_discarded(counters);
        }
    }

    /// Posts free buffers once a whole lot of them is missing.
    #[inline(always)]
    pub(crate) fn refill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        let lot = usize::from(self.rx.entries()) / LOTS;
        if self.rx.free() < lot || pool.len() < lot {
            return;
        }
        self.post(pool, counters);
    }

    fn post(&mut self, pool: &mut Pool, counters: &RouterNic) {
        let buffers = core::iter::from_fn(|| pool.take().map(|at| (at, at + u64::from(HEADER))));
        self.rx.push_buffers(buffers);
        notify(self.rx.publish(), self.rdt, self.rx.tail(), counters);
    }

    /// Posts the first buffers, and unmasks the interrupt causes: from then on the status block controls whether
    /// interrupts are raised.
    pub(crate) fn fill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        if !self.receive_disabled {
            self.post(pool, counters);
        }
        self.registers.write(r::IMS, r::WANTED);
    }

    /// Sends a burst; the burst is empty afterwards.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        if burst.iter().fold(false, |marked, frame| marked | frame.is_marked()) {
            return self.transmit_orders(burst, pool, counters);
        }
        if self.tx.free() < burst.len() {
            self.reclaim(pool);
        }
        let (room, frames) = (self.tx.free(), burst.len());
        let mut octets = 0;
        self.tx.push_frames(burst.drain(..room.min(frames)).map(|frame| {
            let len = frame.len() as u16;
            octets += u64::from(len);
            let at = frame.into_token();
            (Descriptor::legacy(at + u64::from(HEADER), len, FRAME), at)
        }));
        notify(self.tx.publish(), self.tdt, self.tx.tail(), counters);
        // Descriptors of the next burst, which the device has read since they were last written.
        self.tx.prefetch_push(BURST);
        counters.tx_frames.add((frames - burst.len()) as u64);
        counters.tx_bytes.add(octets);
        if !burst.is_empty() {
            // The remaining frames found no room.
            counters.drop_tx_full.add(burst.len() as u64);
            burst.drain(..).for_each(|frame| pool.give_frame(frame.into_token()));
        }
    }

    /// Sends frames that may have pending offload metadata or several pieces.
    fn transmit_orders(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        for frame in burst.drain(..) {
            let order = Order::new(frame);
            if self.tx.free() < order.descriptors() {
                self.reclaim(pool);
            }
            if self.tx.free() < order.descriptors() {
                counters.drop_tx_full.add(1);
                pool.give_frame(order.into_frame().into_token());
                continue;
            }
            counters.tx_frames.add(1);
            counters.tx_bytes.add(order.octets() as u64);
            order.push(&mut self.tx, 0);
        }
        notify(self.tx.publish(), self.tdt, self.tx.tail(), counters);
    }

    /// Returns the number of frames that can be sent now: at least a lot, or 0, in which case an interrupt is requested
    /// when there is room for more.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        let lot = BURST.min(usize::from(self.tx.entries()) / LOTS);
        if self.tx.free() < lot {
            self.reclaim(pool);
        }
        self.waits_for_room = self.tx.free() < lot;
        if self.waits_for_room { 0 } else { self.tx.free() }
    }

    /// Records that a sender waits for sent frames: once armed, an interrupt is requested when some have been sent.
    pub(crate) fn await_sent(&mut self) {
        self.waits_for_room = true;
    }

    /// Reclaims the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        let result = self.tx.reclaim(usize::MAX, |token| pool.give_frame(token));
        // A device that violates the block's protocol has stopped the ring, which then stays full.
        let _ = result;
    }

    /// Declares that no frames are to be received: no buffers are posted.
    pub(crate) fn disable_receive(&mut self) {
        self.receive_disabled = true;
    }

    /// Requests an interrupt for the next received frame; returns true if one is already there.
    pub(crate) fn arm(&mut self, counters: &RouterNic) -> bool {
        counters.arms.add(1);
        let sent = core::mem::take(&mut self.waits_for_room) && self.tx.arm();
        let came = self.rx.arm() || sent;
        // An interrupt that was in flight when we disarmed would block the next one: the pin is already raised.
        self.acknowledge() || came
    }

    /// Suppresses interrupts.
    pub(crate) fn disarm(&mut self) {
        self.rx.disarm();
        self.tx.disarm();
        self.acknowledge();
    }

    /// Lowers the pin if it was raised, by a read of ICR (in a virtual machine, ring 0 has done that already).
    fn acknowledge(&mut self) -> bool {
        let Some(line) = self.line.as_mut().filter(|line| line.rang()) else { return false };
        line.take() != 0
    }
}

#[inline(always)]
fn notify(wanted: bool, tail: Tail, value: u32, counters: &RouterNic) {
    if wanted {
        tail.write(value, counters);
    } else {
        counters.kicks_suppressed.add(1);
    }
}
