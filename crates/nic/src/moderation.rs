//! When an interrupt may be raised: fewer interrupts in bulk, none later where somebody waits for an answer.
//!
//! A [`Moderator`] knows no device: an interrupt line asks it for the earliest time ([`Moderator::due`]), a message is
//! requested from it ([`Moderator::request`]). Times are nanoseconds of any clock that does not go back.

/// Nanoseconds of the unit in which intervals are told (82540EM manual, ITR; seed paper 001, section 3.1).
pub const UNIT: u64 = 250;
/// The longest time by which [`Moderation::Adaptive`] delays anything, in nanoseconds.
pub const BULK: u64 = 50_000;
/// Nanoseconds over which arrivals are counted to judge their rate.
const WINDOW: u64 = 200_000;
/// From so many arrivals in a window on they are bulk: waiting for [`BULK`] gathers three or more.
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

/// The state of one interrupt's moderation.
#[derive(Clone, Debug)]
pub struct Moderator {
    moderation: Moderation,
    raised: Option<u64>,
    sent: Option<u64>,
    received: bool,
    other: bool,
    pending: bool,
    window: Option<u64>,
    arrivals: u64,
    bulk: bool,
}

impl Moderator {
    /// Nothing to tell yet.
    pub const fn new(moderation: Moderation) -> Self {
        Self {
            moderation,
            raised: None,
            sent: None,
            received: false,
            other: false,
            pending: false,
            window: None,
            arrivals: 0,
            bulk: false,
        }
    }

    /// Sets the way, for interrupts from now on.
    pub fn set(&mut self, moderation: Moderation) {
        self.moderation = moderation;
    }

    /// There is something to tell.
    pub fn note(&mut self, work: Work, now: u64) {
        match work {
            Work::Sent => self.sent = self.sent.or(Some(now)),
            Work::Received(frames) => {
                self.received = true;
                self.arrived(u64::from(frames), now);
            }
            Work::Other => self.other = true,
        }
    }

    /// What was to be told has been seen.
    pub fn seen(&mut self) {
        (self.sent, self.received, self.other, self.pending) = (None, false, false, false);
    }

    /// The earliest time at which to interrupt for what was noted.
    pub fn due(&self) -> u64 {
        let since = |gap| self.raised.map_or(0, |raised| raised + gap);
        match self.moderation {
            Moderation::Off => 0,
            Moderation::Every(units) => since(u64::from(units) * UNIT),
            Moderation::Adaptive if self.other => 0,
            Moderation::Adaptive => {
                let sent = self.sent.map_or(u64::MAX, |first| first + BULK);
                let received = match (self.received, self.bulk) {
                    (false, _) => u64::MAX,
                    (true, false) => 0,
                    (true, true) => since(BULK),
                };
                match sent.min(received) {
                    u64::MAX => 0,
                    due => due,
                }
            }
        }
    }

    /// The interrupt is raised now.
    pub fn raise(&mut self, now: u64) {
        self.raised = Some(now);
    }

    /// For messages: there is `work` to tell. True: send the message now. Otherwise [`take_due`](Self::take_due) says when.
    pub fn request(&mut self, work: Work, now: u64) -> bool {
        self.note(work, now);
        self.pending = true;
        self.take_due(now)
    }

    /// For messages: whether one that was put off has to be sent now.
    pub fn take_due(&mut self, now: u64) -> bool {
        let send = self.pending && now >= self.due();
        if send {
            self.raise(now);
            self.seen();
        }
        send
    }

    /// For messages: when to call [`take_due`](Self::take_due) at the latest.
    pub fn next(&self) -> Option<u64> {
        self.pending.then(|| self.due())
    }

    fn arrived(&mut self, frames: u64, now: u64) {
        let start = *self.window.get_or_insert(now);
        let elapsed = now.saturating_sub(start);
        if elapsed >= WINDOW {
            let rate = self.arrivals * WINDOW / elapsed;
            self.bulk = rate >= if self.bulk { BULK_BELOW } else { BULK_FROM };
            (self.window, self.arrivals) = (Some(now), 0);
        }
        self.arrivals += frames;
        self.bulk |= self.arrivals >= BULK_FROM;
    }
}
