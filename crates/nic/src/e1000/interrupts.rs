//! Interrupt causes, mask, timers and the pin (82540EM manual, "Interrupt Control", "Interrupt Moderation").
//!
//! ```text
//! frame stored ---- RDTR? --> packet timer, absolute timer --\
//! descriptor with IDE ------> packet timer, absolute timer ---+--> ICR & IMS --> ITR, the host's moderation --> INTA
//! anything else ---------------------------------------------/         read: 0
//! ```
//!
//! The pin stays asserted until no enabled cause is left, which is when ICR is read, or the cause disabled. It is not
//! asserted again before ITR units of 250 ns have passed since it last rose. What waits for that is in ICR meanwhile,
//! and so goes with any earlier look of the driver.

use super::cause;
use crate::moderation::{Moderation, Moderator, UNIT, Waiting, Work};

/// Nanoseconds of a unit of RDTR, RADV, TIDV and TADV.
const DELAY_UNIT: u64 = 1024;
/// Causes that tell of transmission.
const SENT: u32 = cause::TXDW | cause::TXQE | cause::TXD_LOW;
/// Causes that tell of reception.
const RECEIVED: u32 = cause::RXT0 | cause::SRPD;

/// What the interrupt pin does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Whether INTA is asserted.
    pub asserted: bool,
    /// When to look again though nothing happens, in nanoseconds; a time that has passed: at once.
    pub next: Option<u64>,
}

/// How often what happened to interrupts, since the device was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The pin rose.
    pub raised: u64,
    /// Calls of [`Interrupts::raise`] that needed no interrupt: the pin was asserted already, or the causes disabled.
    pub suppressed: u64,
    /// Calls of [`Interrupts::raise`] whose interrupt had to wait: for a delay timer, ITR or the host's moderation.
    pub moderated: u64,
}

/// Two delays, one from the last event and one from the first.
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
    /// When each is over; the second not before the first event.
    running: Option<(u64, u64)>,
}

impl Delay {
    const OFF: Self = Self { packet: 0, absolute: 0, running: None };

    /// An event; false if it is not to be delayed.
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

/// The interrupt logic of one device, shared by its registers and its data path. `now` is in nanoseconds and does not go
/// back.
#[derive(Clone, Debug)]
pub struct Interrupts {
    icr: u32,
    ims: u32,
    itr: u16,
    receive: Delay,
    transmit: Delay,
    host: Moderator,
    /// Whether somebody looks when the time of what waits has come.
    kept: bool,
    /// Whether the function may use its pin.
    connected: bool,
    asserted: bool,
    /// When the pin last rose.
    rose: Option<u64>,
    counts: Counts,
}

/// What the data path and the VMM do.
impl Interrupts {
    /// At power-on: no cause, all disabled.
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

    /// The data path tells what happened: bits of [`cause`]. With [`cause::RXT0`], `frames` have arrived. Then ask
    /// [`line`](Self::line).
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

    /// What the pin does now. To be asked after each register access with
    /// [`Effect::LineChanged`](super::Effect::LineChanged), and when [`Line::next`] has come.
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

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Another way for the host to moderate, from now on.
    pub fn set_moderation(&mut self, moderation: Moderation) {
        self.host.set_moderation(moderation);
    }

    /// Whether somebody asks for [`line`](Self::line) when [`Line::next`] has come; at first somebody does. While nobody
    /// does, nothing waits, neither for a delay timer nor for ITR: it would wait for ever. Then ask for the line.
    pub fn keep_time(&mut self, kept: bool, now: u64) {
        self.kept = kept;
        self.host.keep_time(kept);
        if !kept {
            self.flush(Timer::Receive, now);
            self.flush(Timer::Transmit, now);
        }
    }

    /// When the pin may change by itself. While it is asserted a timer changes nothing that the driver would not see
    /// when it reads ICR.
    fn next(&self, wanted: bool, due: u64) -> Option<u64> {
        if !self.connected || self.asserted {
            return None;
        }
        let enabled = |cause| self.ims & cause != 0;
        let receive = self.receive.over().filter(|_| enabled(cause::RXT0));
        let transmit = self.transmit.over().filter(|_| enabled(cause::TXDW));
        [wanted.then_some(due), receive, transmit].into_iter().flatten().min()
    }

    /// Starts delay timers: the causes that come at once, and those that wait for one.
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

/// What the driver does by registers.
impl Interrupts {
    /// ICR: the causes, all cleared.
    pub(super) fn read_icr(&mut self, now: u64) -> u32 {
        self.expire(now);
        self.host.seen();
        let causes = std::mem::take(&mut self.icr);
        // A pin that was due but not looked at has not risen; one that was up falls.
        self.asserted = false;
        causes
    }

    /// A write to ICR clears what it names.
    pub(super) fn write_icr(&mut self, causes: u32, now: u64) {
        self.expire(now);
        self.icr &= !causes;
        if self.icr & SENT == 0 {
            self.host.seen();
        }
    }

    /// ICS.
    pub(super) fn set_causes(&mut self, causes: u32, now: u64) {
        self.set(causes, now);
    }

    /// IMS, as it is read.
    pub(super) fn enabled(&self) -> u32 {
        self.ims
    }

    /// IMS.
    pub(super) fn enable(&mut self, causes: u32) {
        self.ims |= causes & cause::ALL;
    }

    /// IMC.
    pub(super) fn disable(&mut self, causes: u32) {
        self.ims &= !causes;
    }

    /// ITR.
    pub(super) fn itr(&self) -> u16 {
        self.itr
    }

    /// ITR.
    pub(super) fn set_itr(&mut self, units: u16) {
        self.itr = units;
    }

    /// The delays of a timer: after the last event, and after the first.
    pub(super) fn delays(&self, timer: Timer) -> (u16, u16) {
        let delay = match timer {
            Timer::Receive => &self.receive,
            Timer::Transmit => &self.transmit,
        };
        (delay.packet, delay.absolute)
    }

    /// RDTR, TIDV; the timer that runs is not changed.
    pub(super) fn set_packet_delay(&mut self, timer: Timer, units: u16) {
        self.timer(timer).packet = units;
    }

    /// RADV, TADV; the timer that runs is not changed.
    pub(super) fn set_absolute_delay(&mut self, timer: Timer, units: u16) {
        self.timer(timer).absolute = units;
    }

    /// FPD: what waits for the timer waits no longer.
    pub(super) fn flush(&mut self, timer: Timer, now: u64) {
        if let Some((packet, absolute)) = &mut self.timer(timer).running {
            (*packet, *absolute) = (0, 0);
        }
        self.expire(now);
    }

    /// All registers as at power-on.
    pub(super) fn reset(&mut self) {
        let (counts, connected, kept) = (self.counts, self.connected, self.kept);
        *self = Self { counts, connected, kept, ..Self::new(self.host.moderation()) };
        self.host.keep_time(kept);
    }

    /// Whether the function may use its pin.
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
