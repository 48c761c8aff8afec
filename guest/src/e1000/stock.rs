//! An 82540EM driven as Linux's driver does it: TDT is written for each frame; an interrupt is masked, both rings are
//! polled, and the interrupt is unmasked when there was less than a budget (or, if so told, when there is nothing to do).
//! Beside that, with send combining, TDT is written when the interrupt comes for the frames before.
//!
//! A frame that came is handled after its poll has returned it, so the poll ends with the next call of
//! [`Stock::attend`]. A frame that is sent on its own account, and not because one came, is followed at once by the
//! interrupt that it may have caused.

use ledger::RouterNic;
use ring::combine::{Combiner, Onset};
use ring::e1000::{Descriptor, RxDriver, TxDriver, tx};
use router::{Buffer, Burst};

use super::interrupt::Line;
use super::offload::Order;
use super::received::Assembly;
use super::registers as r;
use super::tail::Tail;
use crate::buffer::{FrameBuffer, HEADER, Pool};
use crate::halt;
use crate::pci::Registers;

/// Receive buffers are posted in lots of so many, and what is left at the end of a poll.
const LOT: usize = 16;
/// Frames that one poll takes at most.
const BUDGET: usize = ring::BURST;
/// Part of a ring that is to be free before a sender goes on that waits for room; at least a burst.
const LOTS: usize = 4;
/// CMD of a whole frame, beside its report.
const FRAME: u8 = tx::EOP | tx::IFCS;

/// Postponing TDT.
pub(super) struct Combining {
    shared: &'static Combiner,
    /// Most frames that wait; 0: no limit but the ring.
    limit: u32,
    /// Where frames wait only if they come faster than a rate.
    onset: Option<Onset>,
    /// Frames that wait, since `written`.
    waiting: u32,
    written: u32,
}

impl Combining {
    pub(super) fn new(shared: &'static Combiner, limit: u32, onset: Option<Onset>) -> Self {
        Self { shared, limit, onset, waiting: 0, written: 0 }
    }

    /// A frame lies in the ring up to `tail`.
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

    /// Lets go what waits; how often TDT was written. Not where the other vCPU writes it just now: then its interrupt does.
    fn flush(&self, tdt: Tail, counters: &RouterNic) -> u32 {
        self.shared.flush(|tail| tdt.write(tail, counters))
    }

    /// The interrupt has come, or another one.
    fn interrupted(&self, tdt: Tail, counters: &RouterNic) {
        self.shared.interrupted(|tail| tdt.write(tail, counters));
    }
}

/// How far the interrupt has been served that came last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Poll {
    /// Over: interrupts are not masked.
    Over,
    /// Masked, and frames may have come that were not taken yet.
    Due,
    /// Masked; all frames were taken.
    Done,
}

/// The interrupts of a device that are served where its frames are moved.
struct Served {
    line: Line,
    poll: Poll,
    interrupts: u64,
}

/// One device, with all its frames.
pub(crate) struct Stock {
    rx: RxDriver<'static, u64>,
    rdt: Tail,
    tx: TxDriver<'static, u64>,
    tdt: Tail,
    assembly: Assembly,
    registers: Registers,
    /// Its interrupts; none where another vCPU takes them: then the rings are polled without.
    served: Option<Served>,
    combining: Option<Combining>,
    /// What the last descriptor of a frame has in its CMD, so that its end is told.
    report: u8,
    deaf: bool,
    /// A poll goes on until the vCPU has nothing more to do, whoever has it.
    patient: bool,
    /// Somebody waits for room.
    cramped: bool,
}

impl Stock {
    pub(super) fn new(
        registers: Registers,
        (rx, tx): (RxDriver<'static, u64>, TxDriver<'static, u64>),
        line: Option<Line>,
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
            deaf: false,
            patient: false,
            cramped: false,
        }
    }

    /// Whether another vCPU takes its interrupts.
    pub(crate) fn is_aided(&self) -> bool {
        self.served.is_none()
    }

    /// Entries of both rings together.
    pub(crate) fn entries(&self) -> usize {
        usize::from(self.rx.entries()) + usize::from(self.tx.entries())
    }

    /// Interrupts that were served here.
    pub(crate) fn interrupts(&self) -> u64 {
        self.served.as_ref().map_or(0, |served| served.interrupts)
    }

    /// Posts the first buffers and unmasks the interrupt.
    pub(crate) fn fill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        if !self.deaf && self.post(usize::MAX, pool) && self.rx.publish() {
            self.rdt.write(self.rx.tail(), counters);
        }
        match &mut self.served {
            Some(served) => served.line.unmask(counters),
            None => self.registers.write(r::IMS, r::WANTED),
        }
    }

    /// Takes the frames of a poll that is due into an empty burst, and posts buffers in their place.
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
        }
    }

    /// Posts up to `most` buffers; true if there was one.
    fn post(&mut self, most: usize, pool: &mut Pool) -> bool {
        let n = self.rx.free().min(pool.len()).min(most);
        for _ in 0..n {
            let Some(at) = pool.take() else { break };
            self.rx.push(at, at + u64::from(HEADER));
        }
        n > 0
    }

    /// Sends a burst, frame by frame, and leaves it empty. `own`: not because frames have come.
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

    /// Sends a frame that may leave something to be done, or lies in several buffers.
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

    /// Whether there is room for so many descriptors; what waits to be sent has to go before there is none.
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

    /// Tells the device of the last frame, now or later; then comes the interrupt, if there is one.
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

    /// How many frames can be sent now: at least a lot of them, or none, and then an interrupt is wanted when there is
    /// room for more.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        let lot = BUDGET.min(usize::from(self.tx.entries()) / LOTS);
        if self.tx.free() < lot {
            self.reclaim(pool);
        }
        self.cramped = self.tx.free() < lot;
        if self.cramped { 0 } else { self.tx.free() }
    }

    /// Somebody waits for what is sent: where no interrupt tells of each frame, one is wanted, once armed.
    pub(crate) fn await_sent(&mut self) {
        self.cramped = true;
    }

    /// Takes back the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        let result = self.tx.reclaim(usize::MAX, |token| pool.give_frame(token));
        // Without a block there is no index that could be wrong.
        let _ = result;
    }
}

/// The interrupt.
impl Stock {
    /// Nobody takes frames from this NIC: no buffers are posted.
    pub(crate) fn do_not_listen(&mut self) {
        self.deaf = true;
    }

    /// A poll ends only when the vCPU is about to sleep, and not as soon as it has taken less than its budget: with
    /// frames a little further apart than an interrupt takes, whatever waits behind the driver would never have its turn
    /// (Mogul and Ramakrishnan, "Eliminating receive livelock in an interrupt-driven kernel", section 6.4).
    pub(crate) fn poll_while_busy(&mut self) {
        self.patient = true;
    }

    /// Goes on with the poll that is under way, or serves an interrupt that has come; true if one has.
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

    /// Ends the poll; true if an interrupt or a frame is there, so that it is no time to sleep.
    pub(crate) fn arm(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        let Some(served) = &self.served else { return self.rx.arm() || self.cramped && self.tx.arm() };
        if served.poll != Poll::Over {
            self.reclaim(pool);
            if self.has_frames() {
                return true;
            }
            self.finish(counters);
        }
        self.served.as_ref().is_some_and(|served| served.line.rang())
    }

    /// If an interrupt has come and is not masked: masks it, and lets go what waited for it.
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

    /// Ends a poll that has only taken back what was sent.
    fn finish_if_done(&mut self, counters: &RouterNic) {
        if !self.has_frames() && !self.patient {
            self.finish(counters);
        }
    }

    /// The end of a poll: the next interrupt may come.
    fn finish(&mut self, counters: &RouterNic) {
        if let Some(served) = &mut self.served {
            served.poll = Poll::Over;
            served.line.unmask(counters);
        }
    }

    /// Whether the poll has taken all that there was.
    fn is_polled(&self) -> bool {
        self.deaf || self.served.as_ref().is_some_and(|served| served.poll == Poll::Done)
    }

    /// Whether frames have come that somebody will take.
    fn has_frames(&mut self) -> bool {
        !self.deaf && self.rx.arm()
    }
}
