//! Interrupt causes, mask, timers and the interrupt pin (82540EM manual, "Interrupt Control", "Interrupt Moderation").
//!
//! ```text
//! frame stored ---- RDTR? --> packet timer, absolute timer --\
//! descriptor with IDE ------> packet timer, absolute timer ---+--> ICR & IMS --> ITR, the host's moderation --> INTA
//! anything else ---------------------------------------------/         read: 0
//! ```
//!
//! The pin stays asserted until no enabled cause is left: until the driver reads ICR or disables the cause. It is not
//! asserted again before ITR units of 250 ns have passed since it last rose. Causes that wait for that are in ICR
//! meanwhile, so a driver that reads ICR earlier sees and clears them.

use super::cause;
use crate::moderation::{Moderation, Moderator, UNIT, Waiting, Work};

/// Unit of RDTR, RADV, TIDV and TADV in nanoseconds.
const DELAY_UNIT: u64 = 1024;
/// Causes that report transmission.
const SENT: u32 = cause::TXDW | cause::TXQE | cause::TXD_LOW;
/// Causes that report reception.
const RECEIVED: u32 = cause::RXT0 | cause::SRPD;

/// State of the interrupt pin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// True if INTA is asserted.
    pub asserted: bool,
    /// Time in nanoseconds at which to query the pin again even without an event; a time in the past: at once.
    pub next: Option<u64>,
}

/// Counters of interrupts, since the device was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of times the pin rose.
    pub raised: u64,
    /// Calls of [`Interrupts::raise`] that caused no interrupt: the pin was asserted already, or the causes disabled.
    pub suppressed: u64,
    /// Calls of [`Interrupts::raise`] whose interrupt was delayed: by a delay timer, ITR or the host's moderation.
    pub moderated: u64,
}

/// A delay timer: one delay counts from the last event, the other from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// RDTR and RADV.
    Receive,
    /// TIDV and TADV.
    Transmit,
}

#[derive(Clone, Copy, Debug)]
struct Delay {
    packet: u16,
    absolute: u16,
    /// Expiry of both delays; the second runs from the first event.
    running: Option<(u64, u64)>,
}

impl Delay {
    const OFF: Self = Self { packet: 0, absolute: 0, running: None };

    /// Records an event; returns false if it is not to be delayed.
    fn start(&mut self, now: u64) -> bool {
        if self.packet == 0 {
            return false;
        }
        let packet = now.saturating_add(u64::from(self.packet) * DELAY_UNIT);
        let absolute = match (self.absolute, self.running) {
            (0, _) => u64::MAX,
            (_, Some((_, absolute))) => absolute,
            (units, None) => now.saturating_add(u64::from(units) * DELAY_UNIT),
        };
        self.running = Some((packet, absolute));
        true
    }

    fn over(&self) -> Option<u64> {
        self.running.map(|(packet, absolute)| packet.min(absolute))
    }

    fn take_over(&mut self, now: u64) -> bool {
        let over = self.over().is_some_and(|at| now >= at);
        if over {
            self.running = None;
        }
        over
    }
}

/// The interrupt logic of one device, shared by its registers and its data path. `now` is in nanoseconds and monotonic.
#[derive(Clone, Debug)]
pub struct Interrupts {
    icr: u32,
    ims: u32,
    itr: u16,
    receive: Delay,
    transmit: Delay,
    host: Moderator,
    /// True if a caller queries the line when a waiting cause is due.
    kept: bool,
    /// True if the function may use its pin.
    connected: bool,
    asserted: bool,
    /// Time when the pin last rose.
    rose: Option<u64>,
    counts: Counts,
}

/// Interface for the data path and the VMM.
impl Interrupts {
    /// Creates the state at power-on: no cause, all causes disabled.
    pub const fn new(moderation: Moderation) -> Self {
        Self {
            icr: 0,
            ims: 0,
            itr: 0,
            receive: Delay::OFF,
            transmit: Delay::OFF,
            host: Moderator::new(moderation),
            kept: true,
            connected: true,
            asserted: false,
            rose: None,
            counts: Counts { raised: 0, suppressed: 0, moderated: 0 },
        }
    }

    /// Raises causes, which are bits of [`cause`]; called by the data path. With [`cause::RXT0`], `frames` frames have
    /// arrived. The caller then queries [`line`](Self::line).
    pub fn raise(&mut self, causes: u32, frames: u32, now: u64) {
        self.expire(now);
        let was = self.asserted;
        let (at_once, delayed) = self.delay(causes, frames, now);
        self.set(at_once, now);
        let rises = self.line(now).asserted;
        if (at_once | delayed) & self.ims == 0 || was {
            self.counts.suppressed += 1;
        } else if !rises {
            self.counts.moderated += 1;
        }
    }

    /// Returns the state of the pin. Must be called after each register access that yields
    /// [`Effect::LineChanged`](super::Effect::LineChanged), and at the time [`Line::next`].
    pub fn line(&mut self, now: u64) -> Line {
        self.expire(now);
        let wanted = self.connected && self.icr & self.ims != 0;
        let due = self.due();
        if wanted && !self.asserted && now >= due {
            self.rose = Some(now);
            self.host.raised(now);
            self.counts.raised += 1;
            self.asserted = true;
        }
        self.asserted &= wanted;
        Line { asserted: self.asserted, next: self.next(wanted, due) }
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Sets whether the caller queries [`line`](Self::line) at the time [`Line::next`]; initially true. While it is
    /// false no cause waits for a delay timer or for ITR, because it would wait forever. Query the line after this
    /// call.
    pub fn set_timer_served(&mut self, kept: bool, now: u64) {
        self.kept = kept;
        self.host.set_timer_served(kept);
        if !kept {
            self.flush(Timer::Receive, now);
            self.flush(Timer::Transmit, now);
        }
    }

    /// Returns the time when the pin may change by itself. While it is asserted, a timer changes nothing that the
    /// driver would not see when it reads ICR.
    fn next(&self, wanted: bool, due: u64) -> Option<u64> {
        if !self.connected || self.asserted {
            return None;
        }
        let enabled = |cause| self.ims & cause != 0;
        let receive = self.receive.over().filter(|_| enabled(cause::RXT0));
        let transmit = self.transmit.over().filter(|_| enabled(cause::TXDW));
        [wanted.then_some(due), receive, transmit].into_iter().flatten().min()
    }

    /// Starts delay timers; returns the causes that are raised at once, and those that wait for a timer.
    fn delay(&mut self, causes: u32, frames: u32, now: u64) -> (u32, u32) {
        let (mut at_once, mut delayed) = (causes & cause::ALL, 0);
        if causes & cause::RXT0 != 0 {
            self.host.note(Work::Received(frames), now);
            if self.kept && self.receive.start(now) {
                (at_once, delayed) = (at_once & !cause::RXT0, cause::RXT0);
            }
        }
        if causes & cause::TXDW_DELAYED != 0 {
            let waits = self.kept && self.transmit.start(now);
            *(if waits { &mut delayed } else { &mut at_once }) |= cause::TXDW;
        }
        (at_once, delayed)
    }

    fn set(&mut self, causes: u32, now: u64) {
        if causes & SENT != 0 {
            self.host.note(Work::Sent, now);
        }
        self.icr |= causes & cause::ALL;
    }

    fn due(&self) -> u64 {
        let causes = self.icr & self.ims;
        let waiting = Waiting {
            sent: causes & SENT != 0,
            received: causes & RECEIVED != 0,
            other: causes & !(SENT | RECEIVED) != 0,
        };
        if !self.kept {
            return 0;
        }
        let throttle = self.rose.map_or(0, |at| at.saturating_add(u64::from(self.itr) * UNIT));
        throttle.max(self.host.due(waiting))
    }

    fn expire(&mut self, now: u64) {
        if self.receive.take_over(now) {
            self.set(cause::RXT0, now);
        }
        if self.transmit.take_over(now) {
            self.set(cause::TXDW, now);
        }
    }
}

/// Interface for the driver's register accesses.
impl Interrupts {
    /// Reads ICR: returns the causes and clears them all.
    pub(super) fn read_icr(&mut self, now: u64) -> u32 {
        self.expire(now);
        self.host.seen();
        let causes = std::mem::take(&mut self.icr);
        // A pin that was due but not yet queried has not risen; one that was asserted falls.
        self.asserted = false;
        causes
    }

    /// Writes ICR: clears the causes given.
    pub(super) fn write_icr(&mut self, causes: u32, now: u64) {
        self.expire(now);
        self.icr &= !causes;
        if self.icr & SENT == 0 {
            self.host.seen();
        }
    }

    /// Writes ICS.
    pub(super) fn set_causes(&mut self, causes: u32, now: u64) {
        self.set(causes, now);
    }

    /// Reads IMS.
    pub(super) fn enabled(&self) -> u32 {
        self.ims
    }

    /// Writes IMS.
    pub(super) fn enable(&mut self, causes: u32) {
        self.ims |= causes & cause::ALL;
    }

    /// Writes IMC.
    pub(super) fn disable(&mut self, causes: u32) {
        self.ims &= !causes;
    }

    /// Reads ITR.
    pub(super) fn itr(&self) -> u16 {
        self.itr
    }

    /// Writes ITR.
    pub(super) fn set_itr(&mut self, units: u16) {
        self.itr = units;
    }

    /// Returns the delays of a timer: after the last event, and after the first.
    pub(super) fn delays(&self, timer: Timer) -> (u16, u16) {
        let delay = match timer {
            Timer::Receive => &self.receive,
            Timer::Transmit => &self.transmit,
        };
        (delay.packet, delay.absolute)
    }

    /// Writes RDTR or TIDV; does not change a running timer.
    pub(super) fn set_packet_delay(&mut self, timer: Timer, units: u16) {
        self.timer(timer).packet = units;
    }

    /// Writes RADV or TADV; does not change a running timer.
    pub(super) fn set_absolute_delay(&mut self, timer: Timer, units: u16) {
        self.timer(timer).absolute = units;
    }

    /// Handles FPD: expires the timer at once.
    pub(super) fn flush(&mut self, timer: Timer, now: u64) {
        if let Some((packet, absolute)) = &mut self.timer(timer).running {
            (*packet, *absolute) = (0, 0);
        }
        self.expire(now);
    }

    /// Resets all registers to their power-on state.
    pub(super) fn reset(&mut self) {
        let (counts, connected, kept) = (self.counts, self.connected, self.kept);
        *self = Self { counts, connected, kept, ..Self::new(self.host.moderation()) };
        self.host.set_timer_served(kept);
    }

    /// Sets whether the function may use its pin.
    pub(super) fn connect(&mut self, connected: bool) {
        self.connected = connected;
    }

    fn timer(&mut self, timer: Timer) -> &mut Delay {
        match timer {
            Timer::Receive => &mut self.receive,
            Timer::Transmit => &mut self.transmit,
        }
    }
}
