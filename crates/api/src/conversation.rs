//! Protocol state machine for one client, without its socket: octets in, requests out; answers in, octets
//! out.
//!
//! A client has one request in progress. Further requests stay in its own socket, so that back-pressure
//! reaches only that client. Buffers in both directions are bounded.

use std::time::{Duration, Instant};

use crate::line::{encode_answer, parse_request};
use crate::{Error, LONGEST_ANSWER, LONGEST_APPLY, LONGEST_REQUEST, Outcome, Request};

/// Resource limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most simultaneous clients.
    pub clients: usize,
    /// Most octets of answers that wait for the client to read them.
    pub output: usize,
    /// Longest time from the first octet of a line to its newline.
    pub line: Duration,
    /// Longest time without a request.
    pub idle: Duration,
    /// Longest time that answers may wait while the client reads nothing.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 16,
            output: LONGEST_ANSWER,
            line: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(10),
        }
    }
}

/// Result of parsing the octets received so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// No complete line, or the previous request is not answered yet.
    Nothing,
    /// A request, to be answered by [`Conversation::answer`].
    Request(Request),
    /// Invalid input; the client is sent one error and then disconnected.
    Garbage,
}

/// Reason for disconnecting a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// It has all its answers and has closed its side.
    Done,
    /// It reads too slowly for what it asks, or not at all.
    SlowReader,
    /// It began a line and did not end it.
    HalfLine,
    /// It sent no request for too long.
    Idle,
    /// Its connection is broken.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Listening,
    Answering,
    /// Input is ignored; pending output is sent.
    Leaving,
}

/// State of the protocol with one client.
#[derive(Debug)]
pub struct Conversation {
    limits: Limits,
    stage: Stage,
    input: Vec<u8>,
    /// Number of octets at the start of `input` without a newline.
    searched: usize,
    /// True if the client has closed its sending side.
    input_ended: bool,
    output: Vec<u8>,
    /// Number of octets of `output` already sent.
    sent: usize,
    overrun: bool,
    broken: bool,
    /// When the present line began, or when the last request was answered.
    heard: Instant,
    /// When the client last read something, or when output became pending.
    taken: Instant,
}

impl Conversation {
    /// Creates the state for a new client.
    pub fn new(limits: Limits, now: Instant) -> Self {
        Self {
            limits,
            stage: Stage::Listening,
            input: Vec::new(),
            searched: 0,
            input_ended: false,
            output: Vec::new(),
            sent: 0,
            overrun: false,
            broken: false,
            heard: now,
            taken: now,
        }
    }

    /// Returns true if octets should be received from the client now.
    pub fn listens(&self) -> bool {
        self.stage == Stage::Listening && !self.input_ended
    }

    /// Adds octets that were received.
    pub fn receive(&mut self, octets: &[u8], now: Instant) {
        if self.input.is_empty() && !octets.is_empty() {
            self.heard = now;
        }
        self.input.extend_from_slice(octets);
    }

    /// Notes that the client has closed its sending side; it may still want its answer.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Notes that the connection is broken.
    pub fn connection_broken(&mut self) {
        (self.broken, self.input_ended) = (true, true);
        (self.output, self.sent) = (Vec::new(), 0);
    }

    /// Returns true if [`Conversation::hear`] or [`Conversation::end`] has news although nothing was received
    /// or sent.
    pub fn is_due(&self) -> bool {
        let ended = self.overrun || self.broken;
        ended
            || match self.stage {
                Stage::Listening => self.input_ended || self.searched < self.input.len(),
                Stage::Answering => false,
                Stage::Leaving => self.unsent().is_empty(),
            }
    }

    /// Returns the next request, once the previous one is answered.
    pub fn hear(&mut self, now: Instant) -> Input {
        if self.stage != Stage::Listening {
            return Input::Nothing;
        }
        self.skip_empty_lines();
        let Some(line) = self.take_line() else { return self.hear_half(now) };
        match parse_request(&line).and_then(|request| fitting(request, line.len())) {
            Ok(request) => {
                (self.stage, self.heard) = (Stage::Answering, now);
                Input::Request(request)
            }
            Err(error) => self.refuse(error, now),
        }
    }

    fn skip_empty_lines(&mut self) {
        let empty = self.input.iter().take_while(|octet| matches!(octet, b'\n' | b'\r')).count();
        if empty > 0 {
            self.input.drain(..empty);
            self.searched = 0;
        }
    }

    /// Removes the first line from the input, and returns it without its newline.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let unsearched = self.input.get(self.searched..).unwrap_or_default();
        let Some(at) = unsearched.iter().position(|octet| *octet == b'\n') else {
            self.searched = self.input.len();
            return None;
        };
        let rest = self.input.split_off(self.searched + at + 1);
        let mut line = std::mem::replace(&mut self.input, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// Checks an incomplete line.
    fn hear_half(&mut self, now: Instant) -> Input {
        let most = if may_be_apply(&self.input) { LONGEST_APPLY } else { LONGEST_REQUEST };
        if self.input.len() > most {
            return self.refuse(too_long(most), now);
        }
        if self.input_ended && !self.input.is_empty() {
            return self
                .refuse(Error::new("the last line has no end: each request ends with a newline"), now);
        }
        Input::Nothing
    }

    fn refuse(&mut self, error: Error, now: Instant) -> Input {
        self.send(&Err(error), now);
        self.leave();
        Input::Garbage
    }

    /// Disconnects the client once pending output is sent.
    pub fn leave(&mut self) {
        self.stage = Stage::Leaving;
        self.input = Vec::new();
        self.searched = 0;
    }

    /// Answers the request in progress; with `more`, further answers follow.
    pub fn answer(&mut self, outcome: &Outcome, more: bool, now: Instant) {
        if self.stage != Stage::Answering {
            return;
        }
        self.send(outcome, now);
        if !more {
            (self.stage, self.heard) = (Stage::Listening, now);
        }
    }

    fn send(&mut self, outcome: &Outcome, now: Instant) {
        let line = encode_answer(outcome)
            .and_then(
                |line| if line.len() > self.limits.output { Err(unsayable(line.len())) } else { Ok(line) },
            )
            .or_else(|error| encode_answer(&Err(error)))
            .unwrap_or_default();
        if self.unsent().is_empty() {
            self.taken = now;
        }
        if self.unsent().len() + line.len() > self.limits.output {
            self.overrun = true;
            return;
        }
        self.output.drain(..self.sent);
        self.sent = 0;
        self.output.extend_from_slice(&line);
    }

    /// Octets to send.
    pub fn unsent(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// Notes that the first `len` octets of [`Conversation::unsent`] were sent.
    pub fn sent(&mut self, len: usize, now: Instant) {
        self.sent = (self.sent + len).min(self.output.len());
        self.taken = now;
        if self.sent == self.output.len() {
            (self.output, self.sent) = (Vec::new(), 0);
        }
    }

    /// Returns true if the client waits for an answer.
    pub fn is_asked(&self) -> bool {
        self.stage == Stage::Answering
    }

    /// Returns the reason if the client is to be disconnected now.
    pub fn end(&self, now: Instant) -> Option<DisconnectReason> {
        let since = |moment: Instant| now.saturating_duration_since(moment);
        if self.broken {
            return Some(DisconnectReason::Broken);
        }
        if self.overrun {
            return Some(DisconnectReason::SlowReader);
        }
        if !self.unsent().is_empty() {
            return (since(self.taken) >= self.limits.stall).then_some(DisconnectReason::SlowReader);
        }
        match self.stage {
            Stage::Leaving => Some(DisconnectReason::Done),
            Stage::Answering => None,
            Stage::Listening if self.input_ended && self.input.is_empty() => Some(DisconnectReason::Done),
            Stage::Listening if self.input.is_empty() => {
                (since(self.heard) >= self.limits.idle).then_some(DisconnectReason::Idle)
            }
            Stage::Listening => (since(self.heard) >= self.limits.line).then_some(DisconnectReason::HalfLine),
        }
    }

    /// Octets buffered for the client.
    pub fn kept(&self) -> usize {
        self.input.len() + self.output.len()
    }
}

/// Returns true if an incomplete line may be a request to apply a file, which may be longer than others.
fn may_be_apply(line: &[u8]) -> bool {
    const FAR_ENOUGH: usize = 128;
    let start = line.get(..FAR_ENOUGH).unwrap_or(line);
    start.windows(APPLY.len()).any(|window| window == APPLY)
}

const APPLY: &[u8] = b"\"apply\"";

fn fitting(request: Request, len: usize) -> Result<Request, Error> {
    let most = if matches!(request, Request::Apply { .. }) { LONGEST_APPLY } else { LONGEST_REQUEST };
    if len > most { Err(too_long(most)) } else { Ok(request) }
}

fn too_long(most: usize) -> Error {
    Error::new(format!("the request is too long: at most {most} octets fit into its line"))
}

fn unsayable(len: usize) -> Error {
    Error::new(format!("the answer would have {len} octets, which is too long: ask for less at a time"))
}

#[cfg(test)]
mod tests;
