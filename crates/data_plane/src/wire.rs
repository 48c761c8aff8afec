//! Data plane's end of the link, shared by threads that send requests to the supervisor and those that handle
//! its orders.
//!
//! ```text
//!                     +-- counters: answered at once, by the link's own thread
//!  link --> [attend] -+-- answers to what was asked here --> the thread that asked
//!                     +-- orders, in their order ----------> [next] the data plane's main thread
//! ```
//!
//! An order may take its time: a firmware boots, a thread ends. Counters are reported meanwhile.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use api::{Outcome, Request};
use engine::KernelThreads;
use link::{Link, Received, ToPlane, ToSupervisor};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use vmm::{Child, Firmware, Spawn, Spawned};

/// Time limit for the supervisor to start a process. Its loop may be in a write to a control group, which waits for a
/// grace period of the kernel, and for each fork and exit on the host: seconds on a busy host, and several routers may ask one after
/// the other. Less than the 30 s that the launch of a router has, so that the error says who is late.
const PATIENCE: Duration = Duration::from_secs(25);
/// Time limit for the supervisor to find a thread, without which a NIC works too. A NIC with several queues asks for several.
const FINDING: Duration = Duration::from_secs(5);

/// How long the supervisor may take for what it is asked.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// To start a process.
    spawning: Duration,
    /// To find a thread.
    finding: Duration,
}

/// The link, and received messages that were not handled yet.
#[derive(Debug)]
pub(super) struct LinkEndpoint {
    inside: Mutex<Inside>,
    /// Signalled when a message has arrived, or when the link has ended.
    came: Condvar,
    /// Duplicate of the link's socket, for waiting without holding the lock.
    socket: OwnedFd,
    /// Event descriptor that wakes the link thread, because a message is to be sent.
    bell: OwnedFd,
    patience: Patience,
}

#[derive(Debug)]
struct Inside {
    link: Link,
    /// Orders, in sequence.
    orders: VecDeque<Received<ToPlane>>,
    /// Replies to requests made by this process.
    answers: VecDeque<Received<ToPlane>>,
    /// True if the supervisor is gone, or breaks the rules of the link.
    ended: bool,
    fault: Option<String>,
}

impl LinkEndpoint {
    /// Wraps this link; a thread has to run [`LinkEndpoint::attend`].
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(super) fn new(link: Link) -> Result<Self> {
        Self::with_patience(link, Patience { spawning: PATIENCE, finding: FINDING })
    }

    fn with_patience(link: Link, patience: Patience) -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let full = "no descriptor for the link to the supervisor";
        let bell = eventfd(0, flags).context(full)?;
        let socket = link.as_fd().try_clone_to_owned().context(full)?;
        let (orders, answers) = Default::default();
        let inside = Inside { link, orders, answers, ended: false, fault: None };
        Ok(Self { inside: Mutex::new(inside), came: Condvar::new(), socket, bell, patience })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives messages until the supervisor is gone. `answer` replies to what can be answered at once;
    /// everything else is queued as an order.
    pub(super) fn attend(&self, answer: impl Fn(&Request) -> Option<Outcome>) {
        let ended = loop {
            match self.hear(&answer) {
                Ok(true) => self.wait(),
                Ok(false) => break None,
                Err(error) => break Some(format!("{error:#}")),
            }
        };
        let mut inside = self.inside();
        (inside.ended, inside.fault) = (true, ended);
        self.came.notify_all();
    }

    /// Handles received messages and sends pending ones. Returns false at the end of the link.
    fn hear(&self, answer: &impl Fn(&Request) -> Option<Outcome>) -> Result<bool> {
        let (messages, is_ended) = {
            let mut inside = self.inside();
            inside.link.flush()?;
            (inside.link.receive()?, inside.link.is_ended())
        };
        for (message, descriptors) in messages {
            let outcome = match &message {
                ToPlane::Ask { id, request } => answer(request).map(|outcome| (*id, outcome)),
                _ => None,
            };
            match outcome {
                Some((id, outcome)) => self.say(&ToSupervisor::Answer { id, outcome })?,
                None => self.inside().sort(message, descriptors),
            }
        }
        self.came.notify_all();
        Ok(!is_ended)
    }

    /// Waits until the link is readable, or writable if messages are pending.
    fn wait(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        let wants_to_write = self.inside().link.wants_to_write();
        let output = if wants_to_write { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds =
            [PollFd::new(&self.socket, PollFlags::IN | output), PollFd::new(&self.bell, PollFlags::IN)];
        // The next read or write reports any error.
        let _ = poll(&mut fds, None);
    }

    /// Sends a message, now or as soon as the supervisor reads.
    pub(super) fn say(&self, message: &ToSupervisor) -> Result<()> {
        let mut inside = self.inside();
        inside.link.send(message, Vec::new())?;
        if inside.link.wants_to_write() {
            self.ring();
        }
        Ok(())
    }

    /// Queues a message for the link thread to send: for threads whose class may not send.
    fn queue_message(&self, message: &ToSupervisor) -> Result<()> {
        self.inside().link.put(message, Vec::new())?;
        self.ring();
        Ok(())
    }

    /// Wakes the link thread.
    fn ring(&self) {
        // If the counter is full, the thread is being woken already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Next order; `None` at `until` (if given), or at the end of the link.
    ///
    /// # Errors
    /// The link breaks.
    pub(super) fn next(&self, until: Option<Instant>) -> Result<Option<Received<ToPlane>>> {
        let found = |inside: &mut Inside| inside.orders.pop_front();
        let (order, inside) = self.take(self.inside(), found, until);
        match (&inside.fault, order) {
            (Some(fault), None) => bail!("{fault}"),
            (_, order) => Ok(order),
        }
    }

    /// Waits until `found` returns something; `None` at `until`, or at the end of the link.
    fn take<'a, T>(
        &self,
        mut inside: MutexGuard<'a, Inside>,
        mut found: impl FnMut(&mut Inside) -> Option<T>,
        until: Option<Instant>,
    ) -> (Option<T>, MutexGuard<'a, Inside>) {
        loop {
            let taken = found(&mut inside);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if taken.is_some() || inside.ended || left.is_some_and(|left| left.is_zero()) {
                return (taken, inside);
            }
            inside = match left {
                Some(left) => self.came.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.came.wait(inside).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Returns true if the supervisor is gone.
    pub(super) fn is_ended(&self) -> bool {
        self.inside().ended
    }

    /// Waits, at most until `until`, for pending messages to be sent.
    pub(super) fn drain(&self, until: Instant) {
        let mut inside = self.inside();
        while inside.link.wants_to_write() && inside.link.flush().is_ok() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let mut fds = [PollFd::from_borrowed_fd(inside.link.as_fd(), PollFlags::OUT)];
            let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        }
    }

    /// Sends a request to the supervisor, and waits for the reply, at most this long.
    fn ask(
        &self,
        (question, most): (&ToSupervisor, Duration),
        is_answer: impl Fn(&ToPlane) -> bool,
    ) -> Result<Received<ToPlane>> {
        // A reply that is still here belongs to an earlier request that timed out.
        self.inside().answers.retain(|(message, _)| !is_answer(message));
        self.say(question)?;
        let found = |inside: &mut Inside| {
            let place = inside.answers.iter().position(|(message, _)| is_answer(message))?;
            inside.answers.remove(place)
        };
        let answer = self.take(self.inside(), found, Some(Instant::now() + most)).0;
        answer.context("the supervisor does not answer")
    }

    /// Waits for the reply to [`ToSupervisor::Spawn`].
    fn spawned(&self, router: &str, firmware: Firmware) -> Result<(u32, Vec<OwnedFd>)> {
        let jumbo = firmware == Firmware::Jumbo;
        let question = ToSupervisor::Spawn { router: router.to_owned(), jumbo };
        // Several threads may wait, each for its own router.
        let is_answer = |message: &ToPlane| match message {
            ToPlane::Spawned { router: of, .. } | ToPlane::NotSpawned { router: of, .. } => of == router,
            _ => false,
        };
        let asked = self.ask((&question, self.patience.spawning), is_answer);
        match asked.context("the supervisor does not start a process")? {
            (ToPlane::Spawned { pid, .. }, descriptors) => Ok((pid, descriptors)),
            (ToPlane::NotSpawned { why, .. }, _) => Err(anyhow!(why)),
            _ => bail!("an answer to another question"),
        }
    }
}

impl Inside {
    /// Queues a received message as a reply or as an order.
    fn sort(&mut self, message: ToPlane, descriptors: Vec<OwnedFd>) {
        let is_answer = matches!(
            message,
            ToPlane::Spawned { .. } | ToPlane::NotSpawned { .. } | ToPlane::FoundThread { .. }
        );
        let queue = if is_answer { &mut self.answers } else { &mut self.orders };
        queue.push_back((message, descriptors));
    }
}

impl KernelThreads for LinkEndpoint {
    fn of_vhost(&self, owner: i32) -> Option<i32> {
        // One is looked for at a time: what is still here belongs to a request that timed out, and so does what comes for
        // another owner.
        self.inside().answers.retain(|(message, _)| !matches!(message, ToPlane::FoundThread { .. }));
        let is_answer =
            |message: &ToPlane| matches!(message, ToPlane::FoundThread { owner: of, .. } if *of == owner);
        match self.ask((&ToSupervisor::FindThread { owner }, self.patience.finding), is_answer) {
            Ok((ToPlane::FoundThread { thread, .. }, _)) => thread,
            _ => None,
        }
    }
}

impl Spawn for LinkEndpoint {
    fn spawn(&self, name: &str, firmware: Firmware) -> Result<Spawned> {
        let (pid, descriptors) = self.spawned(name, firmware)?;
        let mut descriptors = descriptors.into_iter();
        let (socket, pidfd) = (descriptors.next(), descriptors.next());
        let lost = "the supervisor sent no descriptors";
        let pid = i32::try_from(pid).context("a process number that is none")?;
        Ok(Spawned { socket: socket.context(lost)?, pidfd: pidfd.context(lost)?, pid })
    }

    /// Delegated to the supervisor: processes of routers belong to another user.
    fn kill(&self, process: &Child) {
        let (router, pid) = (process.name().to_owned(), process.pid().unsigned_abs());
        // If sending fails the supervisor is gone, and all its children with it.
        let _ = self.queue_message(&ToSupervisor::Kill { router, pid });
    }
}

#[cfg(test)]
mod tests;
