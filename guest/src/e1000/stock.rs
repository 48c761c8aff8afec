//! Driver of an 82540EM in the manner of Linux's driver: TDT is written for each frame; an interrupt is masked, both rings
//! are polled, and the interrupt is unmasked when less than a budget was found (or, if so configured, when there is nothing
//! left to do). With send combining, TDT is instead written when the interrupt for the previous frames comes.
//!
//! A received frame is handled after its poll has returned it, so the poll ends with the next call of [`InterruptDriver::attend`]. A
//! frame that is sent on the sender's own initiative, not in response to a received one, is followed at once by the
//! handling of the interrupt that it may have caused.

use ledger::RouterNic;
use ring::combine::{Combiner, RateDetector};
use ring::e1000::{Descriptor, RxDriver, TxDriver, tx};
use router::{Buffer, Burst};

use super::interrupt::InterruptPin;
use super::offload::Order;
use super::received::Assembly;
use super::registers as r;
use super::tail::Tail;
use crate::buffer::{FrameBuffer, HEADER, Pool};
use crate::halt;
use crate::pci::Registers;

/// Lot of receive buffers that are posted together; the remainder is posted at the end of a poll.
const LOT: usize = 16;
/// Budget of a poll, in frames.
const BUDGET: usize = ring::BURST;
/// A sender that waits for room continues when 1 / LOTS of the ring, or a burst if that is less, is free.
const LOTS: usize = 4;
/// CMD of a whole frame, without the bits that request a report.
const FRAME: u8 = tx::EOP | tx::IFCS;

/// Send combining: postponed writes of TDT.
pub(super) struct Combining {
    shared: &'static Combiner,
    /// Most frames that may wait; 0: only the ring limits them.
    limit: u32,
    /// Rate detector, if frames wait only above a rate.
    onset: Option<RateDetector>,
    /// Number of frames that wait since `written`.
    waiting: u32,
    written: u32,
}

impl Combining {
    pub(super) fn new(shared: &'static Combiner, limit: u32, onset: Option<RateDetector>) -> Self {
        Self { shared, limit, onset, waiting: 0, written: 0 }
    }

    /// Handles a new frame in the ring, which extends to `tail`.
    fn offer(&mut self, tail: u32, tdt: Tail, counters: &RouterNic) {
        let written = self.shared.written();
        if written != self.written {
            self.written = written;
            self.waiting = 0;
        }
        let waits = self.onset.as_mut().is_none_or(|onset| onset.note(halt::ticks()));
        if self.shared.offer(tail, |tail| tdt.write(tail, counters)) > 0 {
            return;
        }
        if !waits && self.flush(tdt, counters) > 0 {
            return;
        }
        counters.kicks_suppressed.add(1);
        self.waiting += 1;
        if self.limit != 0 && self.waiting >= self.limit {
            self.flush(tdt, counters);
        }
    }

    /// Sends the waiting frames; returns the number of writes to TDT. It is 0 if the other vCPU is writing it just now:
    /// that vCPU's interrupt handling sends them.
    fn flush(&self, tdt: Tail, counters: &RouterNic) -> u32 {
        self.shared.flush(|tail| tdt.write(tail, counters))
    }

    /// Handles an interrupt, whether for sent frames or another one.
    fn interrupted(&self, tdt: Tail, counters: &RouterNic) {
        self.shared.interrupted(|tail| tdt.write(tail, counters));
    }
}

/// Progress of serving the last interrupt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Poll {
    /// Completed: interrupts are unmasked.
    Over,
    /// Masked; there may be received frames that were not taken yet.
    Due,
    /// Masked; all frames have been taken.
    Done,
}

/// State of a device's interrupts, for a device whose interrupts are served by the vCPU that moves its frames.
struct Served {
    line: InterruptPin,
    poll: Poll,
    interrupts: u64,
}

/// One device whose frames this vCPU moves.
pub(crate) struct InterruptDriver {
    rx: RxDriver<'static, u64>,
    rdt: Tail,
    tx: TxDriver<'static, u64>,
    tdt: Tail,
    assembly: Assembly,
    registers: Registers,
    /// State of its interrupts; none if another vCPU serves them: then the rings are polled without interrupts.
    served: Option<Served>,
    combining: Option<Combining>,
    /// Bits in the CMD of a frame's last descriptor that request a report of its completion.
    report: u8,
    receive_disabled: bool,
    /// True if a poll continues until the whole vCPU, not only this device, has nothing left to do.
    patient: bool,
    /// True if a sender waits for room.
    waits_for_room: bool,
}

impl InterruptDriver {
    pub(super) fn new(
        registers: Registers,
        (rx, tx): (RxDriver<'static, u64>, TxDriver<'static, u64>),
        line: Option<InterruptPin>,
        combining: Option<Combining>,
        report: u8,
    ) -> Self {
        let [rdt, tdt] = [r::RX_RING, r::TX_RING].map(|ring| Tail::new(registers, ring));
        let served = line.map(|line| Served { line, poll: Poll::Over, interrupts: 0 });
        Self {
            rx,
            rdt,
            tx,
            tdt,
            assembly: Assembly::default(),
            registers,
            served,
            combining,
            report,
            receive_disabled: false,
            patient: false,
            waits_for_room: false,
        }
    }

    /// Returns true if another vCPU serves its interrupts.
    pub(crate) fn is_aided(&self) -> bool {
        self.served.is_none()
    }

    /// Total number of entries in both rings.
    pub(crate) fn entries(&self) -> usize {
        usize::from(self.rx.entries()) + usize::from(self.tx.entries())
    }

    /// Number of interrupts served by this vCPU.
    pub(crate) fn interrupts(&self) -> u64 {
        self.served.as_ref().map_or(0, |served| served.interrupts)
    }

    /// Posts the first buffers and unmasks the interrupt.
    pub(crate) fn fill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        if !self.receive_disabled && self.post(usize::MAX, pool) && self.rx.publish() {
            self.rdt.write(self.rx.tail(), counters);
        }
        match &mut self.served {
            Some(served) => served.line.unmask(counters),
            None => self.registers.write(r::IMS, r::WANTED),
        }
    }

    /// Moves the frames of a due poll into an empty burst, and posts buffers in their place.
    pub(crate) fn receive(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        if self.served.as_ref().is_none_or(|served| served.poll != Poll::Over) {
            self.take(burst, pool, counters);
            if let Some(served) = &mut self.served {
                served.poll = if burst.len() < BUDGET { Poll::Done } else { Poll::Due };
            }
        }
        while self.rx.free() > 0 && self.post(LOT, pool) {
            self.rx.publish();
            self.rdt.write(self.rx.tail(), counters);
        }
    }

    fn take(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        let assembly = &mut self.assembly;
        let mut octets = 0;
        let taken = self.rx.pop(BUDGET, |at, received| {
            octets += assembly.take(at, received, burst, pool);
        });
        if taken.is_ok_and(|count| count > 0) {
            counters.rx_frames.add(burst.len() as u64);
            counters.rx_bytes.add(octets);
            counters.rx_bursts.add(1);
            self.assembly.count_discarded(counters);
        }
    }

    /// Posts up to `most` buffers; returns true if any was posted.
    fn post(&mut self, most: usize, pool: &mut Pool) -> bool {
        let n = self.rx.free().min(pool.len()).min(most);
        for _ in 0..n {
            let Some(at) = pool.take() else { break };
            self.rx.push(at, at + u64::from(HEADER));
        }
        n > 0
    }

    /// Sends a burst, frame by frame; the burst is empty afterwards. `own`: on the sender's own initiative, not in response
    /// to received frames.
    pub(crate) fn transmit(
        &mut self,
        burst: &mut Burst<FrameBuffer>,
        own: bool,
        pool: &mut Pool,
        counters: &RouterNic,
    ) {
        for frame in burst.drain(..) {
            if frame.is_marked() {
                self.transmit_order(Order::new(frame), own, pool, counters);
                continue;
            }
            let len = frame.len() as u16;
            let at = frame.into_token();
            if self.make_room(1, pool, counters) {
                self.tx.push(Descriptor::legacy(at + u64::from(HEADER), len, FRAME | self.report), Some(at));
                counters.tx_frames.add(1);
                counters.tx_bytes.add(u64::from(len));
                self.hand_over(own, pool, counters);
            } else {
                counters.drop_tx_full.add(1);
                pool.give(at);
            }
        }
    }

    /// Sends a frame that may have pending offload metadata or several pieces.
    fn transmit_order(&mut self, order: Order, own: bool, pool: &mut Pool, counters: &RouterNic) {
        if self.make_room(order.descriptors(), pool, counters) {
            counters.tx_frames.add(1);
            counters.tx_bytes.add(order.octets() as u64);
            order.push(&mut self.tx, self.report);
            self.hand_over(own, pool, counters);
        } else {
            counters.drop_tx_full.add(1);
            pool.give_frame(order.into_frame().into_token());
        }
    }

    /// Makes room for this many descriptors; frames whose sending is postponed are sent before the ring is full.
    fn make_room(&mut self, descriptors: usize, pool: &mut Pool, counters: &RouterNic) -> bool {
        if self.tx.free() >= descriptors {
            return true;
        }
        if let Some(combining) = &self.combining {
            combining.flush(self.tdt, counters);
        }
        self.reclaim(pool);
        self.tx.free() >= descriptors
    }

    /// Notifies the device of the last frame, now or later; then handles the interrupt, if there is one.
    fn hand_over(&mut self, own: bool, pool: &mut Pool, counters: &RouterNic) {
        self.tx.publish();
        match &mut self.combining {
            Some(combining) => combining.offer(self.tx.tail(), self.tdt, counters),
            None => self.tdt.write(self.tx.tail(), counters),
        }
        if self.begin(pool, counters) && own {
            self.finish_if_done(counters);
        }
    }

    /// Returns the number of frames that can be sent now: at least a lot, or 0, in which case an interrupt is requested
    /// when there is room for more.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        let lot = BUDGET.min(usize::from(self.tx.entries()) / LOTS);
        if self.tx.free() < lot {
            self.reclaim(pool);
        }
        self.waits_for_room = self.tx.free() < lot;
        if self.waits_for_room { 0 } else { self.tx.free() }
    }

    /// Records that a sender waits for sent frames: if not every frame raises an interrupt, one is requested once armed.
    pub(crate) fn await_sent(&mut self) {
        self.waits_for_room = true;
    }

    /// Reclaims the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        let result = self.tx.reclaim(usize::MAX, |token| pool.give_frame(token));
        // Without a status block the device supplies no index that could be invalid.
        let _ = result;
    }
}

/// Interrupt handling.
impl InterruptDriver {
    /// Declares that no frames are to be received: no buffers are posted.
    pub(crate) fn disable_receive(&mut self) {
        self.receive_disabled = true;
    }

    /// Lets a poll end only when the vCPU is about to sleep, not as soon as it has taken less than its budget: if frames
    /// arrive a little further apart than an interrupt takes, the stages behind the driver would otherwise starve (Mogul
    /// and Ramakrishnan, "Eliminating receive livelock in an interrupt-driven kernel", section 6.4).
    pub(crate) fn poll_while_busy(&mut self) {
        self.patient = true;
    }

    /// Continues the current poll, or serves a pending interrupt; returns true if there was one.
    pub(crate) fn attend(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        let Some(served) = &self.served else { return false };
        if served.poll != Poll::Over {
            self.reclaim(pool);
            if self.is_polled() && !self.patient {
                self.finish(counters);
            }
        }
        let began = self.begin(pool, counters);
        if began {
            self.finish_if_done(counters);
        }
        began
    }

    /// Ends the poll; returns true if an interrupt or a frame is pending, in which case the vCPU must not sleep.
    pub(crate) fn arm(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        let Some(served) = &self.served else { return self.rx.arm() || self.waits_for_room && self.tx.arm() };
        if served.poll != Poll::Over {
            self.reclaim(pool);
            if self.has_frames() {
                return true;
            }
            self.finish(counters);
        }
        self.served.as_ref().is_some_and(|served| served.line.rang())
    }

    /// If an unmasked interrupt is pending, masks it and sends the frames that waited for it.
    #[inline(always)]
    fn begin(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        let rang = self.served.as_ref().is_some_and(|served| served.poll == Poll::Over && served.line.rang());
        rang && self.begin_poll(pool, counters)
    }

    fn begin_poll(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        let Some(served) = &mut self.served else { return false };
        let causes = served.line.take();
        if causes == 0 {
            return false;
        }
        served.poll = Poll::Due;
        served.interrupts += 1;
        if let Some(combining) = self.combining.as_ref().filter(|_| causes & r::TXDW != 0) {
            combining.interrupted(self.tdt, counters);
        }
        self.reclaim(pool);
        true
    }

    /// Ends a poll that has only reclaimed sent frames.
    fn finish_if_done(&mut self, counters: &RouterNic) {
        if !self.has_frames() && !self.patient {
            self.finish(counters);
        }
    }

    /// Ends a poll: unmasks the interrupt.
    fn finish(&mut self, counters: &RouterNic) {
        if let Some(served) = &mut self.served {
            served.poll = Poll::Over;
            served.line.unmask(counters);
        }
    }

    /// Returns true if the poll has taken all received frames.
    fn is_polled(&self) -> bool {
        self.receive_disabled || self.served.as_ref().is_some_and(|served| served.poll == Poll::Done)
    }

    /// Returns true if received frames are waiting to be taken.
    fn has_frames(&mut self) -> bool {
        !self.receive_disabled && self.rx.arm()
    }
}
