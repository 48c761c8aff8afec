//! Interrupt causes, mask, timers and the line (82540EM manual, "Interrupt Control", "Interrupt Moderation").

use super::cause;
use crate::moderation::{Moderation, Moderator, UNIT, Work};

/// Nanoseconds of a unit of RDTR, RADV, TIDV and TADV.
const DELAY_UNIT: u64 = 1024;
/// What completes transmission.
const SENT: u32 = cause::TXDW | cause::TXQE | cause::TXD_LOW;

/// What the interrupt pin does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Whether INTA is asserted.
    pub asserted: bool,
    /// When to look again, at the latest, though nothing happens.
    pub next: Option<u64>,
}

/// How often what happened to interrupts, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The line rose.
    pub raised: u64,
    /// A cause came while the line was up or the driver had masked it: no interrupt was needed.
    pub suppressed: u64,
    /// A cause came that had to wait: for ITR, a delay timer or the host's moderation.
    pub moderated: u64,
}

/// A delay timer with its absolute companion.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    packet: u16,
    absolute: u16,
    /// Deadlines of both.
    running: Option<(u64, u64)>,
}

impl Delay {
    /// An event that is to be delayed; false if it is not.
    fn start(&mut self, now: u64) -> bool {
        if self.packet == 0 {
            return false;
        }
        let packet = now + u64::from(self.packet) * DELAY_UNIT;
        let absolute = match (self.running, self.absolute) {
            (_, 0) => u64::MAX,
            (Some((_, absolute)), _) => absolute,
            (None, units) => now + u64::from(units) * DELAY_UNIT,
        };
        self.running = Some((packet, absolute));
        true
    }

    fn deadline(&self) -> Option<u64> {
        self.running.map(|(packet, absolute)| packet.min(absolute))
    }

    fn expire(&mut self, now: u64) -> bool {
        let expired = self.deadline().is_some_and(|at| now >= at);
        if expired {
            self.running = None;
        }
        expired
    }
}

/// The interrupt logic of one device, shared by its registers and its data path. `now` is in nanoseconds.
#[derive(Clone, Debug)]
pub struct Interrupts {
    icr: u32,
    ims: u32,
    itr: u16,
    receive: Delay,
    transmit: Delay,
    host: Moderator,
    raised_at: Option<u64>,
    asserted: bool,
    waiting: bool,
    counts: Counts,
}

impl Interrupts {
    /// At power-on: no cause, all masked.
    pub const fn new(moderation: Moderation) -> Self {
        const OFF: Delay = Delay { packet: 0, absolute: 0, running: None };
        Self {
            icr: 0,
            ims: 0,
            itr: 0,
            receive: OFF,
            transmit: OFF,
            host: Moderator::new(moderation),
            raised_at: None,
            asserted: false,
            waiting: false,
            counts: Counts { raised: 0, suppressed: 0, moderated: 0 },
        }
    }

    /// The data path has something to tell: bits of [`cause`]. Where [`cause::RXT0`] is among them, `frames` have arrived.
    pub fn raise(&mut self, causes: u32, frames: u32, now: u64) {
        let mut causes = causes;
        if causes & cause::RXT0 != 0 {
            self.host.note(Work::Received(frames), now);
            if self.receive.start(now) {
                causes &= !cause::RXT0;
            }
        }
        if causes & cause::TXDW_DELAYED != 0 && !self.transmit.start(now) {
            causes |= cause::TXDW;
        }
        self.set(causes & cause::ALL, now);
    }

    fn set(&mut self, causes: u32, now: u64) {
        if causes & SENT != 0 {
            self.host.note(Work::Sent, now);
        }
        if causes & !(SENT | cause::RXT0) != 0 {
            self.host.note(Work::Other, now);
        }
        self.icr |= causes;
    }

    /// The driver reads ICR: the causes, all cleared.
    pub fn read_icr(&mut self, now: u64) -> u32 {
        self.expire(now);
        self.host.seen();
        std::mem::take(&mut self.icr)
    }

    /// What the line is now.
    pub fn line(&mut self, now: u64) -> Line {
        self.expire(now);
        let wanted = self.icr & self.ims != 0;
        let due = self.due();
        if !wanted {
            (self.asserted, self.waiting) = (false, false);
        } else if !self.asserted && now >= due {
            (self.asserted, self.waiting) = (true, false);
            self.raised_at = Some(now);
            self.host.raise(now);
            self.counts.raised += 1;
        } else if !self.asserted && !std::mem::replace(&mut self.waiting, true) {
            self.counts.moderated += 1;
        }
        let gate = (wanted && !self.asserted).then_some(due);
        let next = [gate, self.receive.deadline(), self.transmit.deadline()].into_iter().flatten().min();
        Line { asserted: self.asserted, next }
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn due(&self) -> u64 {
        let throttle = self.raised_at.map_or(0, |at| at + u64::from(self.itr) * UNIT);
        throttle.max(self.host.due())
    }

    fn expire(&mut self, now: u64) {
        if self.receive.expire(now) {
            self.set(cause::RXT0, now);
        }
        if self.transmit.expire(now) {
            self.set(cause::TXDW, now);
        }
    }
}
