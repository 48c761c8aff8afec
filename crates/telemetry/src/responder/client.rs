//! A client, from its first octet to the end of its answer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::ResponderCounters;
use crate::request::{self, Asked, Status};

/// Octets per read.
const CHUNK: usize = 2048;
/// Chunks read from one client before the others get their turn.
const CHUNKS: usize = 8;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    socket: OwnedFd,
    end: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The request received so far.
    Asks(Vec<u8>),
    /// The request is complete, and the page is pending.
    Waits,
    /// The answer is being sent.
    Sending { answer: Vec<u8>, sent: usize },
    /// The answer was sent; further input is discarded until the client closes. Closing earlier would reset
    /// the connection and lose data that the client has not read yet.
    Draining,
}

/// Result of a read or write.
enum Step {
    /// There may be more to do.
    On,
    /// The socket is not ready.
    Later,
    /// The connection has ended.
    Over,
}

impl Client {
    pub(super) fn new(socket: OwnedFd, end: Instant) -> Self {
        Self { socket, end, state: State::Asks(Vec::new()) }
    }

    /// When it is disconnected.
    pub(super) fn end(&self) -> Instant {
        self.end
    }

    /// Returns true if it waits for a page.
    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::Waits)
    }

    /// Returns true if its answer was sent completely.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.state, State::Draining)
    }

    /// Events to poll for.
    pub(super) fn interest(&self) -> Option<PollFlags> {
        match self.state {
            State::Asks(_) | State::Draining => Some(PollFlags::IN),
            State::Sending { .. } => Some(PollFlags::OUT),
            // Polling here would wake the loop repeatedly even after a hang-up; its deadline ends the wait.
            State::Waits => None,
        }
    }

    /// Reads and writes without blocking. Returns false if the client is to be dropped.
    pub(super) fn go_on(&mut self, now: Instant, longest: usize, counters: &ResponderCounters) -> bool {
        if now >= self.end {
            if !self.is_answered() {
                counters.dropped_slow.add(1);
            }
            return false;
        }
        for _ in 0..CHUNKS {
            let step = match &self.state {
                State::Asks(_) => self.read(longest, counters),
                State::Sending { .. } => self.write(counters),
                State::Draining => self.read_away(),
                State::Waits => Step::Later,
            };
            match step {
                Step::On => {}
                Step::Later => return true,
                Step::Over => {
                    if !self.is_answered() {
                        counters.gone.add(1);
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Sends the answer. Returns false if the client is to be dropped.
    pub(super) fn answer(&mut self, answer: Vec<u8>, counters: &ResponderCounters) -> bool {
        self.state = State::Sending { answer, sent: 0 };
        loop {
            match self.write(counters) {
                Step::On if matches!(self.state, State::Sending { .. }) => {}
                Step::On | Step::Later => return true,
                Step::Over => {
                    counters.gone.add(1);
                    return false;
                }
            }
        }
    }

    fn read(&mut self, longest: usize, counters: &ResponderCounters) -> Step {
        let mut chunk = [0u8; CHUNK];
        let State::Asks(request) = &mut self.state else { return Step::Later };
        let n = match recv(&self.socket, &mut chunk[..], RecvFlags::empty()) {
            Ok((0, _)) => return Step::Over,
            Ok((n, _)) => n,
            Err(error) => return failed(error),
        };
        request.extend(chunk.iter().take(n));
        let asked = match request::parse(request) {
            None if request.len() > longest => Some(Asked::Refused(Status::HeaderTooLarge)),
            asked => asked,
        };
        match asked {
            None => {}
            Some(Asked::Page) => self.state = State::Waits,
            Some(Asked::Refused(status)) => {
                counters.refused.add(1);
                let answer = request::refusal_of(request, status);
                self.state = State::Sending { answer, sent: 0 };
            }
        }
        Step::On
    }

    fn write(&mut self, counters: &ResponderCounters) -> Step {
        let State::Sending { answer, sent } = &mut self.state else { return Step::Later };
        match send(&self.socket, answer.get(*sent..).unwrap_or_default(), SendFlags::NOSIGNAL) {
            Ok(n) => *sent += n,
            Err(error) => return failed(error),
        }
        if *sent >= answer.len() {
            if answer.starts_with(request::OK) {
                counters.served.add(1);
            }
            self.state = State::Draining;
            // If the connection is gone already, the next read reports that.
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
        Step::On
    }

    fn read_away(&self) -> Step {
        let mut chunk = [0u8; CHUNK];
        match recv(&self.socket, &mut chunk[..], RecvFlags::empty()) {
            Ok((0, _)) => Step::Over,
            Ok(_) => Step::On,
            Err(error) => failed(error),
        }
    }
}

fn failed(error: Errno) -> Step {
    match error {
        Errno::AGAIN => Step::Later,
        Errno::INTR => Step::On,
        _ => Step::Over,
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
