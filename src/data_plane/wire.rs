//! The data plane's end of the link, shared by what asks the supervisor and what is asked by it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use engine::KernelThreads;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vmm::{Spawn, Spawned};

use crate::link::{Link, Received, ToPlane, ToSupervisor};

/// How long the supervisor may take to start a process.
const PATIENCE: Duration = Duration::from_secs(5);

/// The link, and what came while something else was waited for.
#[derive(Debug)]
pub(super) struct Wire {
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    link: Link,
    waiting: VecDeque<Received<ToPlane>>,
}

impl Wire {
    pub(super) fn new(link: Link) -> Self {
        Self { inside: Mutex::new(Inside { link, waiting: VecDeque::new() }) }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something, now or as soon as the supervisor listens.
    pub(super) fn say(&self, message: &ToSupervisor) -> Result<()> {
        self.inside().link.send(message, Vec::new())
    }

    /// The next message; none at that moment (if one is given), or at the end.
    pub(super) fn next(&self, until: Option<Instant>) -> Result<Option<Received<ToPlane>>> {
        let mut inside = self.inside();
        loop {
            if let Some(message) = inside.waiting.pop_front() {
                return Ok(Some(message));
            }
            inside.receive()?;
            if inside.waiting.is_empty() && (inside.link.is_ended() || !inside.wait(until)) {
                return Ok(None);
            }
        }
    }

    /// Whether the supervisor is gone.
    pub(super) fn is_ended(&self) -> bool {
        self.inside().link.is_ended()
    }

    /// Gives last words the time to leave.
    pub(super) fn drain(&self, until: Instant) {
        let mut inside = self.inside();
        while inside.link.wants_to_write() && inside.link.flush().is_ok() && inside.wait(Some(until)) {}
    }
}

impl Inside {
    fn receive(&mut self) -> Result<()> {
        self.link.flush()?;
        self.waiting.extend(self.link.receive()?);
        Ok(())
    }

    /// Waits until something can be read, or written where something is to be written; false when it is too late.
    fn wait(&self, until: Option<Instant>) -> bool {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        let output = if self.link.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = [PollFd::from_borrowed_fd(self.link.as_fd(), PollFlags::IN | output)];
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        // An error is noticed by whoever reads or writes next.
        let _ = poll(&mut fds, timeout.as_ref());
        true
    }

    /// Waits for an answer; what else comes meanwhile is kept.
    fn answer(&mut self, is_answer: impl Fn(&ToPlane) -> bool) -> Result<Received<ToPlane>> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.receive()?;
            let place = self.waiting.iter().position(|(message, _)| is_answer(message));
            if let Some(answer) = place.and_then(|at| self.waiting.remove(at)) {
                return Ok(answer);
            }
            if self.link.is_ended() || !self.wait(Some(until)) {
                bail!("the supervisor does not answer");
            }
        }
    }

    /// Waits for the answer to [`ToSupervisor::Spawn`].
    fn spawned(&mut self) -> Result<(u32, Vec<OwnedFd>)> {
        let is_answer =
            |message: &ToPlane| matches!(message, ToPlane::Spawned { .. } | ToPlane::NotSpawned { .. });
        match self.answer(is_answer).context("the supervisor does not start a process")? {
            (ToPlane::Spawned { pid }, descriptors) => Ok((pid, descriptors)),
            (ToPlane::NotSpawned { why }, _) => Err(anyhow!(why)),
            _ => bail!("an answer to another question"),
        }
    }
}

impl KernelThreads for Wire {
    fn of_vhost(&self, owner: i32) -> Option<i32> {
        let mut inside = self.inside();
        inside.link.send(&ToSupervisor::FindThread { owner }, Vec::new()).ok()?;
        match inside.answer(|message| matches!(message, ToPlane::FoundThread { .. })) {
            Ok((ToPlane::FoundThread { thread }, _)) => thread,
            _ => None,
        }
    }
}

impl Spawn for Wire {
    fn spawn(&self, name: &str) -> Result<Spawned> {
        let mut inside = self.inside();
        inside.link.send(&ToSupervisor::Spawn { router: name.to_owned() }, Vec::new())?;
        let (pid, descriptors) = inside.spawned()?;
        let mut descriptors = descriptors.into_iter();
        let (socket, pidfd) = (descriptors.next(), descriptors.next());
        let lost = "the supervisor sent no descriptors";
        let pid = i32::try_from(pid).context("a process number that is none")?;
        Ok(Spawned { socket: socket.context(lost)?, pidfd: pidfd.context(lost)?, pid })
    }
}

#[cfg(test)]
mod tests;
