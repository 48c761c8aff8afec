//! When an interrupt may be raised: few interrupts in bulk, and none later where somebody waits for an answer.
//!
//! A [`Moderator`] knows no device. An interrupt line asks it for the earliest time ([`Moderator::due`]); messages are
//! requested from it ([`Moderator::request`]). Times are nanoseconds of any clock that does not go back.
//!
//! [`Moderation::Every`] is what the ITR register does (seed paper 001, section 3.1): all interrupts wait until the
//! last one is so long ago. That has a price. A guest that asks and waits for the answer (TCP_RR) gets an interrupt for
//! the request that it sent, and the answer's, which follows soon, is held back: the paper measures 17.0 against
//! 4.5 K transactions a second. Hence [`Moderation::Adaptive`], which is judged by both rate and latency:
//!
//! 1. *That frames were sent* is urgent to nobody: it waits until the oldest of them is [`BULK`] ago, or goes with the
//!    next interrupt for anything else. So an answer's interrupt is a transaction's only one.
//! 2. *That frames have arrived* is told at once, unless they come in bulk. Bulk is from 12 frames in 200 µs on, where
//!    waiting for [`BULK`] gathers three or more; under 8 it is over. In bulk an interrupt waits until the last one is
//!    [`BULK`] ago.
//! 3. Anything else is told at once.
//!
//! So nothing is ever told later than [`BULK`], nothing but bulk arrivals and transmissions later at all, and there
//! are at most 1 s / [`BULK`] = 20 000 interrupts a second for each of these two.

/// Nanoseconds of the unit in which intervals are told (82540EM manual, ITR; seed paper 001, section 3.1).
pub const UNIT: u64 = 250;
/// The longest time by which [`Moderation::Adaptive`] delays anything, in nanoseconds.
pub const BULK: u64 = 50_000;
/// Nanoseconds over which arrivals are counted to judge their rate.
const WINDOW: u64 = 200_000;
/// From so many arrivals in a window on they are bulk.
const BULK_FROM: u64 = 12;
/// Below so many they are no longer.
const BULK_BELOW: u64 = 8;

/// How interrupts are moderated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moderation {
    /// Not at all.
    #[default]
    Off,
    /// At least so many [`UNIT`]s from one interrupt to the next.
    Every(u16),
    /// By what there is to tell.
    Adaptive,
}

/// What an interrupt would tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Frames were sent: buffers are free again.
    Sent,
    /// So many frames have arrived.
    Received(u32),
    /// Something rare, such as a change of the link.
    Other,
}

/// Which kinds of [`Work`] wait to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// [`Work::Sent`].
    pub sent: bool,
    /// [`Work::Received`].
    pub received: bool,
    /// [`Work::Other`].
    pub other: bool,
}

impl Waiting {
    fn add(&mut self, work: Work) {
        match work {
            Work::Sent => self.sent = true,
            Work::Received(_) => self.received = true,
            Work::Other => self.other = true,
        }
    }

    fn any(self) -> bool {
        self.sent || self.received || self.other
    }
}

/// The state of one interrupt's moderation.
#[derive(Clone, Debug)]
pub struct Moderator {
    moderation: Moderation,
    /// Whether somebody looks when the time of what waits has come.
    kept: bool,
    /// When the last interrupt was raised.
    raised: Option<u64>,
    /// Since when a transmission has not been told.
    sent: Option<u64>,
    arrivals: Arrivals,
    /// Of messages only: what waits.
    waiting: Waiting,
}

impl Moderator {
    /// Nothing to tell yet.
    pub const fn new(moderation: Moderation) -> Self {
        Self {
            moderation,
            kept: true,
            raised: None,
            sent: None,
            arrivals: Arrivals { start: 0, frames: 0, bulk: false },
            waiting: Waiting { sent: false, received: false, other: false },
        }
    }

    /// The way in use.
    pub const fn moderation(&self) -> Moderation {
        self.moderation
    }

    /// Another way from now on, also for what waits.
    pub fn set_moderation(&mut self, moderation: Moderation) {
        self.moderation = moderation;
    }

    /// Whether somebody looks when the time of what waits has come; at first somebody does. While nobody does, nothing
    /// waits: it would wait for ever.
    pub fn keep_time(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// Something happened.
    pub fn note(&mut self, work: Work, now: u64) {
        match work {
            Work::Sent => self.sent = self.sent.or(Some(now)),
            Work::Received(frames) => self.arrivals.note(u64::from(frames), now),
            Work::Other => {}
        }
    }

    /// All that happened has been told.
    pub fn seen(&mut self) {
        (self.sent, self.waiting) = (None, Waiting::default());
    }

    /// The earliest time at which to interrupt for this; a time that has passed: now.
    pub fn due(&self, waiting: Waiting) -> u64 {
        match self.moderation {
            _ if !self.kept => 0,
            Moderation::Off => 0,
            Moderation::Every(units) => self.after_last(u64::from(units) * UNIT),
            Moderation::Adaptive if waiting.other => 0,
            Moderation::Adaptive => {
                let sent = self.sent.unwrap_or(0).saturating_add(BULK);
                let received = if self.arrivals.bulk { self.after_last(BULK) } else { 0 };
                match (waiting.sent, waiting.received) {
                    (true, true) => sent.min(received),
                    (true, false) => sent,
                    _ => received,
                }
            }
        }
    }

    /// The interrupt is raised now.
    pub fn raised(&mut self, now: u64) {
        self.raised = Some(now);
    }

    fn after_last(&self, gap: u64) -> u64 {
        self.raised.map_or(0, |raised| raised.saturating_add(gap))
    }
}

/// Interrupts that are messages (MSI-X): raised once for all that waits, and not asked about again.
impl Moderator {
    /// There is something to tell. True: send the message now. False: it goes with a later one, see
    /// [`next`](Self::next).
    #[must_use = "true means: send the message"]
    pub fn request(&mut self, work: Work, now: u64) -> bool {
        self.note(work, now);
        self.waiting.add(work);
        self.take_due(now)
    }

    /// Whether a message that was put off is to be sent now.
    #[must_use = "true means: send the message"]
    pub fn take_due(&mut self, now: u64) -> bool {
        let send = self.waiting.any() && now >= self.due(self.waiting);
        if send {
            self.raised(now);
            self.seen();
        }
        send
    }

    /// When to call [`take_due`](Self::take_due), if a message is put off.
    pub fn next(&self) -> Option<u64> {
        self.waiting.any().then(|| self.due(self.waiting))
    }
}

/// Judges whether frames come in bulk.
#[derive(Clone, Debug)]
struct Arrivals {
    /// When the window began.
    start: u64,
    /// Frames since then.
    frames: u64,
    bulk: bool,
}

impl Arrivals {
    fn note(&mut self, frames: u64, now: u64) {
        let elapsed = now.saturating_sub(self.start);
        if elapsed >= WINDOW {
            let enough = if self.bulk { BULK_BELOW } else { BULK_FROM };
            self.bulk =
                u128::from(self.frames) * u128::from(WINDOW) >= u128::from(enough) * u128::from(elapsed);
            (self.start, self.frames) = (now, 0);
        }
        self.frames = self.frames.saturating_add(frames);
        self.bulk |= self.frames >= BULK_FROM;
    }
}

#[cfg(test)]
mod tests;
