//! Standard error of a data plane: a pipe of its own, whose lines the supervisor passes on to where its own go.
//!
//! Neither end waits for the other. The supervisor reads so many octets a second and no more; then the pipe fills, and what the
//! data plane says is lost at once: its end does not block, and is an open file that it shares with nobody. What is read is cleaned
//! of control characters, and of lines that are too many only the number is told.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use telemetry::{Kind, one_line};

use super::Supervisor;

/// What is counted together.
const SPAN: Duration = Duration::from_secs(1);
/// Octets that are read within that time: as many as a pipe holds.
pub(super) const MOST_OCTETS: usize = 64 << 10;
/// Lines that are passed on within that time; a panic with its whole backtrace has some hundred.
pub(super) const MOST_LINES: usize = 200;
/// Octets that are kept of a line; what is shown of it is less.
const LONGEST: usize = 4096;
/// Octets that are read at once.
const PIECE: usize = 4096;

/// What a data plane has said on its standard error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) lines: Vec<String>,
    /// Lines beside these that came too fast.
    pub(super) lost: u64,
    /// More may have come that found no room.
    pub(super) is_cut: bool,
}

impl Said {
    /// And what it said then.
    pub(super) fn add(&mut self, mut later: Self) {
        self.lines.append(&mut later.lines);
        self.lost += later.lost;
        self.is_cut |= later.is_cut;
    }
}

/// The supervisor's end of the pipe.
pub(super) struct Stderr {
    lines: Lines,
    span: Span,
}

/// What came since a moment.
struct Span {
    since: Instant,
    octets: usize,
    lines: usize,
    lost: u64,
}

/// Lines out of a pipe.
struct Lines {
    /// None: nobody has its other end any more, and all of it was read.
    pipe: Option<OwnedFd>,
    /// A line whose end has not come.
    begun: Vec<u8>,
}

impl Stderr {
    /// A pipe: this end, and the data plane's.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(super) fn pair(now: Instant) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let lines = Lines { pipe: Some(ours), begun: Vec::new() };
        Ok((Self { lines, span: Span::new(now) }, theirs))
    }

    /// What has been said since the last time, as far as this second's budget goes.
    pub(super) fn hear(&mut self, now: Instant) -> Said {
        let mut said = Said::default();
        if now.saturating_duration_since(self.span.since) >= SPAN {
            let before = std::mem::replace(&mut self.span, Span::new(now));
            (said.lost, said.is_cut) = (before.lost, before.is_used_up());
        }
        let Self { lines, span } = self;
        let room = MOST_OCTETS - span.octets;
        span.octets += lines.read(room, |line| {
            if span.lines < MOST_LINES {
                span.lines += 1;
                said.lines.push(line);
            } else {
                span.lost += 1;
            }
        });
        said
    }

    /// What is left when whoever said it is dead: the last lines, with the one that it has not ended.
    pub(super) fn rest(&mut self) -> Said {
        let (mut last, mut lost, is_cut) = (VecDeque::new(), self.span.lost, self.span.is_used_up());
        let mut keep = |line| {
            last.push_back(line);
            if last.len() > MOST_LINES {
                last.pop_front();
                lost += 1;
            }
        };
        // No more is in it; and should somebody else have its other end, then no more is waited for.
        self.lines.read(MOST_OCTETS, &mut keep);
        if !self.lines.begun.is_empty() {
            keep(self.lines.ended());
        }
        Said { lines: last.into(), lost, is_cut }
    }

    /// What to poll for reading, while this second's budget lasts.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.lines.pipe.as_ref().filter(|_| !self.span.is_used_up()).map(AsFd::as_fd)
    }

    /// When to look again whatever comes: there is something to tell, or the budget was used up.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.span.lost > 0 || self.span.is_used_up()).then(|| self.span.since + SPAN)
    }
}

impl Span {
    fn new(now: Instant) -> Self {
        Self { since: now, octets: 0, lines: 0, lost: 0 }
    }

    fn is_used_up(&self) -> bool {
        self.octets >= MOST_OCTETS
    }
}

impl Lines {
    /// Reads so many octets at most, without waiting; how many there were.
    fn read(&mut self, most: usize, mut heed: impl FnMut(String)) -> usize {
        let (mut octets, mut count) = ([0; PIECE], 0);
        while let Some(pipe) = self.pipe.as_ref().filter(|_| count < most) {
            let room = PIECE.min(most - count);
            match read(pipe, octets.get_mut(..room).unwrap_or_default()) {
                Ok(0) => self.pipe = None,
                Ok(n) => {
                    count += n;
                    self.take(octets.get(..n).unwrap_or_default(), &mut heed);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.pipe = None,
            }
        }
        count
    }

    fn take(&mut self, octets: &[u8], heed: &mut impl FnMut(String)) {
        for octet in octets {
            match octet {
                b'\n' => heed(self.ended()),
                _ if self.begun.len() < LONGEST => self.begun.push(*octet),
                _ => {}
            }
        }
    }

    /// The line that was begun, fit to be shown.
    fn ended(&mut self) -> String {
        let line = one_line(String::from_utf8_lossy(&self.begun).into_owned());
        self.begun.clear();
        line
    }
}

impl Supervisor {
    /// Passes on what the data plane, or the process of a router, has said on its standard error.
    pub(super) fn repeat(&mut self, whom: Option<&str>, said: Said, now: Instant) {
        if said == Said::default() {
            return;
        }
        said.lines.iter().for_each(|line| self.events.repeat(line));
        if said.lost > 0 || said.is_cut {
            let more = if said.is_cut { ", and what its pipe had no room for" } else { "" };
            let what = format!("{} lines came too fast on standard error and were lost{more}", said.lost);
            match whom {
                Some(name) => self.tell_of(name, Kind::Notice, format!("its process: {what}"), now),
                None => self.events.tell(Kind::Notice, format!("the data plane: {what}")),
            }
        }
        self.display.leave();
    }
}

#[cfg(test)]
mod tests;
