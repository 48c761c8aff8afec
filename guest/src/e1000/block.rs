//! An 82540EM with a status block: no register is touched while both sides poll (seed paper 001, section 3.3).

use ledger::RouterNic;
use ring::BURST;
use ring::e1000::{Descriptor, RxDriver, TxDriver, tx};
use router::{Buffer, Burst};

use super::interrupt::Line;
use super::offload::Order;
use super::received::Assembly;
use super::registers as r;
use super::tail::Tail;
use crate::buffer::{FrameBuffer, HEADER, Pool};
use crate::pci::Registers;

/// Receive buffers are posted in lots of this part of a ring: fewer lines cross the cores.
const LOTS: usize = 4;
/// CMD of a whole frame. No report (RS): the block says what was sent.
const FRAME: u8 = tx::EOP | tx::IFCS;

/// One device, with all its frames.
pub(crate) struct Block {
    rx: RxDriver<'static, u64>,
    rdt: Tail,
    tx: TxDriver<'static, u64>,
    tdt: Tail,
    assembly: Assembly,
    registers: Registers,
    deaf: bool,
    /// Somebody waits for room.
    cramped: bool,
    /// Its interrupts; none where another vCPU takes them.
    line: Option<Line>,
}

impl Block {
    pub(super) fn new(
        rx: RxDriver<'static, u64>,
        tx: TxDriver<'static, u64>,
        registers: Registers,
        [rdt, tdt]: [Tail; 2],
        line: Option<Line>,
    ) -> Self {
        Self { rx, rdt, tx, tdt, assembly: Assembly::default(), registers, deaf: false, cramped: false, line }
    }

    /// Whether another vCPU takes its interrupts.
    pub(crate) fn is_aided(&self) -> bool {
        self.line.is_none()
    }

    /// Entries of both rings together.
    pub(crate) fn entries(&self) -> usize {
        usize::from(self.rx.entries()) + usize::from(self.tx.entries())
    }

    /// Takes received frames into an empty burst.
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
        }
    }

    /// Posts free buffers once a lot of them is missing.
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

    /// Posts the first buffers, and lets causes through: whether there are any is the block's to say.
    pub(crate) fn fill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        if !self.deaf {
            self.post(pool, counters);
        }
        self.registers.write(r::IMS, r::WANTED);
    }

    /// Sends a burst and leaves it empty.
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
        // Those of the next burst, which the device has read since they were written last.
        self.tx.prefetch_push(BURST);
        counters.tx_frames.add((frames - burst.len()) as u64);
        counters.tx_bytes.add(octets);
        if !burst.is_empty() {
            // What is left found no room.
            counters.drop_tx_full.add(burst.len() as u64);
            burst.drain(..).for_each(|frame| pool.give_frame(frame.into_token()));
        }
    }

    /// Sends frames that may carry offload metadata, or lie in several buffers.
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

    /// How many frames can be sent now: at least a lot of them, or none, and then an interrupt is wanted when there is
    /// room for more.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        let lot = BURST.min(usize::from(self.tx.entries()) / LOTS);
        if self.tx.free() < lot {
            self.reclaim(pool);
        }
        self.cramped = self.tx.free() < lot;
        if self.cramped { 0 } else { self.tx.free() }
    }

    /// Somebody waits for what is sent: an interrupt is wanted, once armed, when something has been.
    pub(crate) fn await_sent(&mut self) {
        self.cramped = true;
    }

    /// Takes back the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        let result = self.tx.reclaim(usize::MAX, |token| pool.give_frame(token));
        // A device that breaks the block has stopped the ring; the ring says so by staying full.
        let _ = result;
    }

    /// Nobody takes frames from this NIC: no buffers are posted.
    pub(crate) fn do_not_listen(&mut self) {
        self.deaf = true;
    }

    /// Asks for an interrupt when a frame comes in; true if one has.
    pub(crate) fn arm(&mut self, counters: &RouterNic) -> bool {
        counters.arms.add(1);
        let sent = core::mem::take(&mut self.cramped) && self.tx.arm();
        let came = self.rx.arm() || sent;
        // An interrupt that was on its way when we declined would keep the next one from coming: the pin is up already.
        self.acknowledge() || came
    }

    /// Asks for no interrupts.
    pub(crate) fn disarm(&mut self) {
        self.rx.disarm();
        self.tx.disarm();
        self.acknowledge();
    }

    /// Lets the pin fall if it has risen, by a read of ICR (which in a virtual machine ring 0 has done).
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
