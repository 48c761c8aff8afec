//! Interrupt moderation: few interrupts for bulk traffic, and no added delay when the guest waits for a reply.
//!
//! A [`Moderator`] is independent of the device model. The owner of an interrupt line queries the earliest time
//! ([`Moderator::due`]); the sender of message interrupts requests them ([`Moderator::request`]). Times are nanoseconds
//! of any monotonic clock.
//!
//! [`Moderation::Every`] works like the ITR register (seed paper 001, section 3.1): every interrupt waits until the
//! interval since the last one has passed. That has a price. A guest that sends a request and waits for the reply
//! (TCP_RR) gets an interrupt for the request that it sent, and the one for the reply, which follows soon, is held
//! back: the paper measures 17.0 against 4.5 K transactions a second. [`Moderation::Adaptive`] therefore weighs both
//! rate and latency:
//!
//! 1. A *transmit completion* is never urgent: it waits until the oldest one is [`BULK`] ago, or is reported by the
//!    next interrupt for anything else. So the interrupt for the reply is the only one of a transaction.
//! 2. An *arrival of frames* is reported at once, unless they arrive in bulk. Bulk begins at 12 frames in 200 µs, where
//!    waiting for [`BULK`] gathers three or more; it ends below 8. In bulk an interrupt waits until the last one is
//!    [`BULK`] ago.
//! 3. Any other event is reported at once.
//!
//! So no event is delayed by more than [`BULK`], only bulk arrivals and transmit completions are delayed at all, and
//! there are at most 1 s / [`BULK`] = 20 000 interrupts a second for each of these two.

/// Unit of intervals in nanoseconds (82540EM manual, ITR; seed paper 001, section 3.1).
pub const UNIT: u64 = 250;
/// Maximum delay that [`Moderation::Adaptive`] adds to any event, in nanoseconds.
pub const BULK: u64 = 50_000;
/// Window in nanoseconds over which arrivals are counted to estimate their rate.
const WINDOW: u64 = 200_000;
/// Arrivals in a window from which on they are bulk.
const BULK_FROM: u64 = 12;
/// Arrivals in a window below which they are no longer bulk.
const BULK_BELOW: u64 = 8;

/// Policy of interrupt moderation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moderation {
    /// No moderation.
    #[default]
    Off,
    /// A minimum interval between interrupts, in [`UNIT`]s.
    Every(u16),
    /// Depends on the events to report.
    Adaptive,
}

/// Event that an interrupt reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Frames were sent: buffers are free again.
    Sent,
    /// This many frames have arrived.
    Received(u32),
    /// A rare event, such as a change of the link.
    Other,
}

/// Kinds of [`Work`] that wait to be reported.
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

/// Moderation state of one interrupt.
#[derive(Clone, Debug)]
pub struct Moderator {
    moderation: Moderation,
    /// True if a caller checks again when a waiting event is due.
    kept: bool,
    /// Time of the last interrupt.
    raised: Option<u64>,
    /// Time of the oldest transmit completion that was not reported.
    sent: Option<u64>,
    arrivals: Arrivals,
    /// For message interrupts only: events that wait.
    waiting: Waiting,
}

impl Moderator {
    /// Creates a moderator without any event to report.
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

    /// Returns the policy in use.
    pub const fn moderation(&self) -> Moderation {
        self.moderation
    }

    /// Sets whether the caller checks again when a waiting event is due; initially true. While it is false no event is
    /// delayed, because it would wait forever.
    pub fn set_timer_served(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// Records an event.
    pub fn note(&mut self, work: Work, now: u64) {
        match work {
            Work::Sent => self.sent = self.sent.or(Some(now)),
            Work::Received(frames) => self.arrivals.note(u64::from(frames), now),
            Work::Other => {}
        }
    }

    /// Records that all events so far have been reported.
    pub fn seen(&mut self) {
        (self.sent, self.waiting) = (None, Waiting::default());
    }

    /// Returns the earliest time for an interrupt that reports `waiting`; a time in the past: now.
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

    /// Records that the interrupt is raised now.
    pub fn raised(&mut self, now: u64) {
        self.raised = Some(now);
    }

    fn after_last(&self, gap: u64) -> u64 {
        self.raised.map_or(0, |raised| raised.saturating_add(gap))
    }
}

/// Message interrupts (MSI-X): one message is sent for all waiting events, and the driver does not read a cause
/// register.
impl Moderator {
    /// Records an event. Returns true if the message must be sent now, false if a later one reports the event, see
    /// [`next`](Self::next).
    #[must_use = "true means: send the message"]
    pub fn request(&mut self, work: Work, now: u64) -> bool {
        self.note(work, now);
        self.waiting.add(work);
        self.take_due(now)
    }

    /// Returns true if a delayed message must be sent now.
    #[must_use = "true means: send the message"]
    pub fn take_due(&mut self, now: u64) -> bool {
        let send = self.waiting.any() && now >= self.due(self.waiting);
        if send {
            self.raised(now);
            self.seen();
        }
        send
    }

    /// Returns the time to call [`take_due`](Self::take_due), if a message is delayed.
    pub fn next(&self) -> Option<u64> {
        self.waiting.any().then(|| self.due(self.waiting))
    }
}

/// Detector of bulk arrivals.
#[derive(Clone, Debug)]
struct Arrivals {
    /// Start of the window.
    start: u64,
    /// Frames that arrived since then.
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
