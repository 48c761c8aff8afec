//! Standard error of a data plane: a pipe of its own, whose lines the supervisor copies to its own standard
//! error.
//!
//! Neither end blocks. The supervisor reads a limited number of octets a second; when the pipe is full,
//! writes of the data plane fail at once, because its end is non-blocking and an open file description that
//! it shares with no other process. The supervisor strips control characters, and reports only the number of
//! excess lines.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use telemetry::{Kind, one_line};

use super::Supervisor;

/// Period of the budgets.
const SPAN: Duration = Duration::from_secs(1);
/// Octets read in a period: as many as a pipe holds.
pub(super) const MOST_OCTETS: usize = 64 << 10;
/// Lines passed on in a period; a panic with a full backtrace has some hundred.
pub(super) const MOST_LINES: usize = 200;
/// Octets kept of a line; fewer are shown.
const LONGEST: usize = 4096;
/// Octets per read.
const PIECE: usize = 4096;

/// Output of a data plane on its standard error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StderrOutput {
    pub(super) lines: Vec<String>,
    /// Number of lines dropped because they came too fast.
    pub(super) lost: u64,
    /// True if more may have been written that found no room in the pipe.
    pub(super) is_cut: bool,
}

impl StderrOutput {
    /// Appends later output.
    pub(super) fn add(&mut self, mut later: Self) {
        self.lines.append(&mut later.lines);
        self.lost += later.lost;
        self.is_cut |= later.is_cut;
    }
}

/// Supervisor's end of the pipe.
pub(super) struct Stderr {
    lines: Lines,
    span: PeriodBudget,
}

/// Budget used in the present period.
struct PeriodBudget {
    since: Instant,
    octets: usize,
    lines: usize,
    lost: u64,
}

/// Splits a pipe's octets into lines.
struct Lines {
    /// `None`: the other end is closed, and everything was read.
    pipe: Option<OwnedFd>,
    /// Incomplete line.
    begun: Vec<u8>,
}

impl Stderr {
    /// Creates a pipe: this end, and the data plane's.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(super) fn pair(now: Instant) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let lines = Lines { pipe: Some(ours), begun: Vec::new() };
        Ok((Self { lines, span: PeriodBudget::new(now) }, theirs))
    }

    /// Returns what was written since the last call, within this second's budget.
    pub(super) fn hear(&mut self, now: Instant) -> StderrOutput {
        let mut said = StderrOutput::default();
        if now.saturating_duration_since(self.span.since) >= SPAN {
            let before = std::mem::replace(&mut self.span, PeriodBudget::new(now));
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

    /// Returns what is left after the writer's death: the last lines, including an incomplete one.
    pub(super) fn rest(&mut self) -> StderrOutput {
        let (mut last, mut lost, is_cut) = (VecDeque::new(), self.span.lost, self.span.is_used_up());
        let mut keep = |line| {
            last.push_back(line);
            if last.len() > MOST_LINES {
                last.pop_front();
                lost += 1;
            }
        };
        // The pipe holds no more than that; and if another process has its other end, nothing more is waited
        // for.
        self.lines.read(MOST_OCTETS, &mut keep);
        if !self.lines.begun.is_empty() {
            keep(self.lines.ended());
        }
        StderrOutput { lines: last.into(), lost, is_cut }
    }

    /// Descriptor to poll for reading, while this second's budget lasts.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.lines.pipe.as_ref().filter(|_| !self.span.is_used_up()).map(AsFd::as_fd)
    }

    /// When to call [`Self::hear`] in any case: dropped lines are to be reported, or the budget was used up.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.span.lost > 0 || self.span.is_used_up()).then(|| self.span.since + SPAN)
    }
}

impl PeriodBudget {
    fn new(now: Instant) -> Self {
        Self { since: now, octets: 0, lines: 0, lost: 0 }
    }

    fn is_used_up(&self) -> bool {
        self.octets >= MOST_OCTETS
    }
}

impl Lines {
    /// Reads at most so many octets, without blocking. Returns how many were read.
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

    /// Ends the incomplete line and makes it printable.
    fn ended(&mut self) -> String {
        let line = one_line(String::from_utf8_lossy(&self.begun).into_owned());
        self.begun.clear();
        line
    }
}

impl Supervisor {
    /// Copies output of the data plane, or of the process of a router, to where events are written.
    pub(super) fn repeat(&mut self, whom: Option<&str>, said: StderrOutput, now: Instant) {
        if said == StderrOutput::default() {
            return;
        }
        said.lines.iter().for_each(|line| self.events.repeat(line));
        if said.lost > 0 || said.is_cut {
            let more = if said.is_cut { ", and what its pipe had no room for" } else { "" };
            let what = format!("{} lines came too fast on standard error and were lost{more}", said.lost);
            match whom {
                Some(name) => self.tell_of(name, Kind::Notice, format!("its process: {what}"), now),
                None => self.events.record(Kind::Notice, format!("the data plane: {what}")),
            }
        }
        self.display.leave();
    }
}

#[cfg(test)]
mod tests;
