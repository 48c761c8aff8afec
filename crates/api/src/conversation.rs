//! One client's side of the talk, without its socket: octets in, requests out; answers in, octets out.
//!
//! A client has one request under way. What it sends meanwhile stays where it is, in its own socket, so that it waits
//! and nobody else does. What is kept for it has a bound each way.

use std::time::{Duration, Instant};

use crate::line::{encode_answer, parse_request};
use crate::{Error, LONGEST_ANSWER, LONGEST_APPLY, LONGEST_REQUEST, Outcome, Request};

/// What one client may take of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at the same time.
    pub clients: usize,
    /// Octets of answers that wait for the client to read them.
    pub output: usize,
    /// How long a line may take from its first octet to its newline.
    pub line: Duration,
    /// How long a client may ask nothing.
    pub idle: Duration,
    /// How long answers may wait while the client reads nothing.
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

/// What came of the octets received so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// No whole line, or the client is still to be answered.
    Nothing,
    /// A request, to be answered by [`Conversation::answer`].
    Request(Request),
    /// Something else; the client is told once what would be right, and then left.
    Garbage,
}

/// Why a client is to be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has all that it asked for and asks no more.
    Done,
    /// It reads too slowly for what it asks, or not at all.
    SlowReader,
    /// It began a line and did not end it.
    HalfLine,
    /// It asked nothing for too long.
    Idle,
    /// Its connection is broken.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Listening,
    Answering,
    /// Nothing more is heard; what is to be sent is sent.
    Leaving,
}

/// The talk with one client.
#[derive(Debug)]
pub struct Conversation {
    limits: Limits,
    stage: Stage,
    input: Vec<u8>,
    /// Octets at the start of `input` in which there is no newline.
    searched: usize,
    /// The client sends no more.
    input_ended: bool,
    output: Vec<u8>,
    /// Octets of `output` that have been sent.
    sent: usize,
    overrun: bool,
    broken: bool,
    /// When the line under way began, or when the client was answered last.
    heard: Instant,
    /// When the client took something last, or when it had something to take first.
    taken: Instant,
}

impl Conversation {
    /// A talk that begins.
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

    /// Whether octets of the client are to be received now.
    pub fn listens(&self) -> bool {
        self.stage == Stage::Listening && !self.input_ended
    }

    /// Takes octets that the client sent.
    pub fn receive(&mut self, octets: &[u8], now: Instant) {
        if self.input.is_empty() && !octets.is_empty() {
            self.heard = now;
        }
        self.input.extend_from_slice(octets);
    }

    /// The client sends no more; it may still want its answer.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// The connection is broken: nothing can be heard or said any more.
    pub fn break_off(&mut self) {
        (self.broken, self.input_ended) = (true, true);
        (self.output, self.sent) = (Vec::new(), 0);
    }

    /// Whether [`Conversation::hear`] or [`Conversation::end`] has news although nothing was received or sent.
    pub fn is_due(&self) -> bool {
        let ended = self.overrun || self.broken;
        ended
            || match self.stage {
                Stage::Listening => self.input_ended || self.searched < self.input.len(),
                Stage::Answering => false,
                Stage::Leaving => self.unsent().is_empty(),
            }
    }

    /// The next request, if the client is not still to be answered.
    pub fn hear(&mut self, now: Instant) -> Heard {
        if self.stage != Stage::Listening {
            return Heard::Nothing;
        }
        self.skip_empty_lines();
        let Some(line) = self.take_line() else { return self.hear_half(now) };
        match parse_request(&line).and_then(|request| fitting(request, line.len())) {
            Ok(request) => {
                (self.stage, self.heard) = (Stage::Answering, now);
                Heard::Request(request)
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

    /// Takes the first line out of the input, without its newline.
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

    /// What to do about a line that has not ended.
    fn hear_half(&mut self, now: Instant) -> Heard {
        let most = if may_be_apply(&self.input) { LONGEST_APPLY } else { LONGEST_REQUEST };
        if self.input.len() > most {
            return self.refuse(too_long(most), now);
        }
        if self.input_ended && !self.input.is_empty() {
            return self
                .refuse(Error::new("the last line has no end: each request ends with a newline"), now);
        }
        Heard::Nothing
    }

    fn refuse(&mut self, error: Error, now: Instant) -> Heard {
        self.send(&Err(error), now);
        self.leave();
        Heard::Garbage
    }

    /// Ends the talk once what there is to say has been sent.
    pub fn leave(&mut self) {
        self.stage = Stage::Leaving;
        self.input = Vec::new();
        self.searched = 0;
    }

    /// Answers the request under way; with `more`, further answers to it follow.
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

    /// What is still to be sent.
    pub fn unsent(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// The first `len` octets of [`Conversation::unsent`] have been sent.
    pub fn sent(&mut self, len: usize, now: Instant) {
        self.sent = (self.sent + len).min(self.output.len());
        self.taken = now;
        if self.sent == self.output.len() {
            (self.output, self.sent) = (Vec::new(), 0);
        }
    }

    /// Whether the client waits for an answer.
    pub fn is_asked(&self) -> bool {
        self.stage == Stage::Answering
    }

    /// Whether the client is to be left now, and why.
    pub fn end(&self, now: Instant) -> Option<End> {
        let since = |moment: Instant| now.saturating_duration_since(moment);
        if self.broken {
            return Some(End::Broken);
        }
        if self.overrun {
            return Some(End::SlowReader);
        }
        if !self.unsent().is_empty() {
            return (since(self.taken) >= self.limits.stall).then_some(End::SlowReader);
        }
        match self.stage {
            Stage::Leaving => Some(End::Done),
            Stage::Answering => None,
            Stage::Listening if self.input_ended && self.input.is_empty() => Some(End::Done),
            Stage::Listening if self.input.is_empty() => {
                (since(self.heard) >= self.limits.idle).then_some(End::Idle)
            }
            Stage::Listening => (since(self.heard) >= self.limits.line).then_some(End::HalfLine),
        }
    }

    /// Octets kept for the client.
    pub fn kept(&self) -> usize {
        self.input.len() + self.output.len()
    }
}

/// Whether a line that has not ended may become a request to apply a file: those may be longer than others.
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
