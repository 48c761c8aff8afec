//! State machine of one session (RFC 5880, section 6.8), in asynchronous mode.

use crate::jitter::Jitter;
use crate::packet::{Diagnostic, Packet, State};

/// Least interval at which a session sends that is not up, in microseconds (RFC 5880, 6.8.3).
const SLOW: u32 = 1_000_000;
/// Least interval that a session may ask for, in microseconds.
const LEAST: u32 = 1_000;

/// Settings of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Our number of the session (local discriminator); not 0.
    pub number: u32,
    /// Least interval, in microseconds, at which we would like to send.
    pub min_tx: u32,
    /// Least interval, in microseconds, at which we can receive.
    pub min_rx: u32,
    /// Detection multiplier.
    pub multiplier: u8,
    /// We send only once the other side has.
    pub is_passive: bool,
    /// The administrator holds the session down.
    pub is_shut: bool,
    /// Our BFD does not share the fate of the control plane.
    pub is_independent: bool,
}

impl Config {
    fn bounded(self) -> Self {
        Self {
            min_tx: self.min_tx.max(LEAST),
            min_rx: self.min_rx.max(LEAST),
            multiplier: self.multiplier.max(1),
            ..self
        }
    }
}

/// The other side, as its last packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its number of the session; 0: unknown, or nothing was heard for a detection time.
    pub number: u32,
    /// Its state.
    pub state: State,
    /// Reason of its last change of state.
    pub diagnostic: Diagnostic,
    /// Least interval at which it would like to send.
    pub desired_tx: u32,
    /// Least interval at which it can receive; 0: we do not send.
    pub required_rx: u32,
    /// Least interval at which it returns echo packets; 0: it does not return them.
    pub required_echo_rx: u32,
    /// Its detection multiplier.
    pub multiplier: u8,
    /// It works in demand mode.
    pub is_demand: bool,
    /// Its BFD does not share the fate of its control plane.
    pub is_independent: bool,
}

impl Remote {
    /// What is assumed before a packet has come (RFC 5880, 6.8.1).
    const UNKNOWN: Self = Self {
        number: 0,
        state: State::Down,
        diagnostic: Diagnostic::NONE,
        desired_tx: 0,
        required_rx: 1,
        required_echo_rx: 0,
        multiplier: 0,
        is_demand: false,
        is_independent: false,
    };

    const fn of(packet: &Packet) -> Self {
        Self {
            number: packet.mine,
            state: packet.state,
            diagnostic: packet.diagnostic,
            desired_tx: packet.desired_tx,
            required_rx: packet.required_rx,
            required_echo_rx: packet.required_echo_rx,
            multiplier: packet.multiplier,
            is_demand: packet.is_demand,
            is_independent: packet.is_independent,
        }
    }
}

/// Change of a session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// State before.
    pub from: State,
    /// State now.
    pub to: State,
    /// Reason.
    pub diagnostic: Diagnostic,
}

/// Poll sequence: packets ask for an answer until one comes (RFC 5880, 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poll {
    None,
    Asking,
    /// Settings have changed since the sequence began: its answer may be to the former ones.
    AskingAgain,
}

/// Session.
#[derive(Clone, Debug)]
pub struct Session {
    config: Config,
    state: State,
    diagnostic: Diagnostic,
    remote: Remote,
    poll: Poll,
    /// Intervals in force. While the session is up, a longer one for sending and a shorter one for receiving come into force
    /// when the other side has confirmed them.
    tx: u32,
    rx: u32,
    jitter: Jitter,
    /// When the last periodic packet was sent, and how long the next one waits from then.
    sent: u64,
    wait: u64,
    /// True if the next packet is not to wait, because it says something new.
    is_urgent: bool,
    /// True if a poll has to be answered.
    owes_final: bool,
    /// When the last packet was taken; `None` if none was for a detection time.
    heard: Option<u64>,
}

impl Session {
    /// Creates a session at time `now`; it sends its first packet after `hold` microseconds. Intervals are at least 1 ms, the
    /// multiplier at least 1.
    pub fn new(config: Config, now: u64, hold: u64, seed: u64) -> Self {
        let config = config.bounded();
        let mut session = Self {
            config,
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            remote: Remote::UNKNOWN,
            poll: Poll::None,
            tx: 0,
            rx: 0,
            jitter: Jitter::new(seed),
            sent: now,
            wait: hold,
            is_urgent: false,
            owes_final: false,
            heard: None,
        };
        if config.is_shut {
            (session.state, session.diagnostic) = (State::AdminDown, Diagnostic::ADMINISTRATIVE);
        }
        session.put_in_force();
        session
    }

    /// State.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Reason of the last change of state.
    pub const fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }

    /// The other side.
    pub const fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Gives the session another number, which the other side learns by the next packet (RFC 5880, 6.8.6). It stays up.
    pub const fn renumber(&mut self, number: u32) {
        self.config.number = number;
        self.is_urgent = true;
    }

    /// Changes the settings, except the session's number.
    pub fn configure(&mut self, config: Config, now: u64) -> Option<Change> {
        let config = Config { number: self.config.number, ..config.bounded() };
        let former = std::mem::replace(&mut self.config, config);
        let before = self.state;
        match (former.is_shut, config.is_shut) {
            (false, true) => self.enter(State::AdminDown, Diagnostic::ADMINISTRATIVE),
            (true, false) => self.enter(State::Down, Diagnostic::NONE),
            _ if (former.min_tx, former.min_rx) != (config.min_tx, config.min_rx) => self.ask(),
            _ => {}
        }
        self.is_urgent |= former != self.config;
        self.put_in_force();
        self.wait_less(now);
        self.change_from(before)
    }

    /// Takes a packet of the other side, which was checked to belong to this session.
    pub fn take(&mut self, packet: &Packet, now: u64) -> Option<Change> {
        self.remote = Remote::of(packet);
        self.heard = Some(now);
        if packet.is_final {
            self.answered();
        }
        self.wait_less(now);
        if self.state == State::AdminDown {
            return None;
        }
        self.owes_final |= packet.is_poll;
        let before = self.state;
        match (self.state, packet.state) {
            (State::Down, State::Down) => self.enter(State::Init, self.diagnostic),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                self.enter(State::Up, Diagnostic::NONE);
            }
            (State::Up, State::Down) | (State::Init | State::Up, State::AdminDown) => {
                self.enter(State::Down, Diagnostic::NEIGHBOUR_DOWN);
            }
            _ => {}
        }
        self.change_from(before)
    }

    /// Takes the time: the session goes down if nothing was heard for the detection time.
    pub fn expire(&mut self, now: u64) -> Option<Change> {
        if self.expires().is_none_or(|at| now < at) {
            return None;
        }
        self.heard = None;
        // A side that has asked for silence and is gone must not silence us for good.
        (self.remote.number, self.remote.required_rx) = (0, Remote::UNKNOWN.required_rx);
        let before = self.state;
        if matches!(before, State::Init | State::Up) {
            self.enter(State::Down, Diagnostic::EXPIRED);
        }
        self.wait_less(now);
        self.change_from(before)
    }

    /// Returns a packet if one has to be sent now; call it again until there is none.
    pub fn send(&mut self, now: u64) -> Option<Packet> {
        if std::mem::take(&mut self.owes_final) {
            return Some(Packet { is_final: true, ..self.packet() });
        }
        if self.sends().is_none_or(|at| now < at) {
            return None;
        }
        let interval = self.interval();
        (self.sent, self.is_urgent) = (now, false);
        self.wait = self.jitter.shortened(interval, self.config.multiplier);
        Some(Packet { is_poll: self.poll != Poll::None, ..self.packet() })
    }

    /// Time at which [`Session::expire`] or [`Session::send`] has something to do; `None` if only a packet can change that.
    pub fn due(&self) -> Option<u64> {
        if self.owes_final {
            return Some(0);
        }
        [self.sends(), self.expires()].into_iter().flatten().min()
    }

    /// Interval at which packets are sent, before jitter, in microseconds.
    pub fn interval(&self) -> u64 {
        self.tx.max(self.remote.required_rx).into()
    }

    /// Time without a packet after which the session is down, in microseconds.
    pub fn detection_time(&self) -> u64 {
        u64::from(self.remote.multiplier) * u64::from(self.rx.max(self.remote.desired_tx))
    }

    fn packet(&self) -> Packet {
        Packet {
            diagnostic: self.diagnostic,
            state: self.state,
            is_independent: self.config.is_independent,
            multiplier: self.config.multiplier,
            mine: self.config.number,
            yours: self.remote.number,
            desired_tx: self.desired_tx(),
            required_rx: self.config.min_rx,
            ..Packet::default()
        }
    }

    const fn desired_tx(&self) -> u32 {
        if matches!(self.state, State::Up) || self.config.min_tx > SLOW { self.config.min_tx } else { SLOW }
    }

    /// When the next periodic packet is sent.
    fn sends(&self) -> Option<u64> {
        let both_up = self.state == State::Up && self.remote.state == State::Up;
        let is_silent = self.remote.required_rx == 0
            || self.config.is_passive && self.remote.number == 0
            || self.remote.is_demand && both_up && self.poll == Poll::None;
        let at = if self.is_urgent { self.sent } else { self.sent + self.wait };
        (!is_silent).then_some(at)
    }

    fn expires(&self) -> Option<u64> {
        self.heard.map(|at| at + self.detection_time())
    }

    fn enter(&mut self, state: State, diagnostic: Diagnostic) {
        (self.state, self.diagnostic, self.is_urgent) = (state, diagnostic, true);
        self.poll = Poll::None;
        if state == State::Up && self.config.min_tx != self.tx {
            self.ask();
        }
        self.put_in_force();
    }

    fn change_from(&self, before: State) -> Option<Change> {
        let change = Change { from: before, to: self.state, diagnostic: self.diagnostic };
        (before != self.state).then_some(change)
    }

    /// Begins a poll sequence, if the session is up; otherwise settings come into force at once.
    fn ask(&mut self) {
        if self.state == State::Up {
            self.poll = if self.poll == Poll::None { Poll::Asking } else { Poll::AskingAgain };
        }
    }

    /// The other side has answered a poll.
    fn answered(&mut self) {
        self.poll = match self.poll {
            Poll::AskingAgain => Poll::Asking,
            Poll::None | Poll::Asking => Poll::None,
        };
        self.put_in_force();
    }

    /// Brings the settings into force that may be now.
    fn put_in_force(&mut self) {
        let (tx, rx) = (self.desired_tx(), self.config.min_rx);
        if self.poll == Poll::None || self.state != State::Up {
            (self.tx, self.rx) = (tx, rx);
        } else {
            (self.tx, self.rx) = (self.tx.min(tx), self.rx.max(rx));
        }
    }

    /// Sends the next packet earlier if the interval has become shorter.
    fn wait_less(&mut self, now: u64) {
        let interval = self.interval();
        if self.wait > interval && self.sent.saturating_add(self.wait) > now {
            self.wait = self.jitter.shortened(interval, self.config.multiplier);
        }
    }
}

#[cfg(test)]
mod tests;
