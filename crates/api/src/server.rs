//! The side of a run: a listener and its clients, none of which can make it wait.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ledger::counters;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::geteuid;

use crate::conversation::{Conversation, End, Heard, Limits};
use crate::folder::Place;
use crate::line::encode_answer;
use crate::{Answer, Error, Outcome, Request};

counters! {
    /// What came to a control socket, and what became of it.
    pub struct ServerCounters {
        /// Clients that were let in.
        accepted,
        /// Requests that were understood.
        requests,
        /// Clients that were sent away because they are neither the owner nor root.
        refused_user,
        /// Clients that were sent away because there were too many.
        refused_full,
        /// Times the system would not let a client in, for want of descriptors or memory.
        accept_failed,
        /// Clients left because they sent something that is not a request.
        drop_garbage,
        /// Clients left because they did not read their answers.
        drop_slow_reader,
        /// Clients left because they did not end a line.
        drop_half_line,
        /// Clients left because they asked nothing for too long.
        drop_idle,
        /// Clients that were gone before they were answered.
        drop_gone,
    }
}

/// Octets received from one client before another has its turn.
const MOUTHFUL: usize = 64 << 10;
/// How long no client is let in after the system would not let one in.
const PAUSE: Duration = Duration::from_secs(1);

/// How often clients are looked at that do nothing, for their time may be over.
const ROUND: Duration = Duration::from_secs(1);

/// One request of one client; an answer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    client: u64,
    request: u64,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    talk: Conversation,
    /// Number of the request under way, or of the one before.
    request: u64,
    /// The last descriptor that came, for the request that it came with.
    file: Option<OwnedFd>,
}

/// A control socket and its clients.
#[derive(Debug)]
pub struct Server {
    place: Place,
    limits: Limits,
    owner: u32,
    clients: BTreeMap<u64, Client>,
    next: u64,
    gone: Vec<Ticket>,
    /// Until when nobody is let in.
    pause: Option<Instant>,
    counters: ServerCounters,
}

impl Server {
    /// Listens in a folder, which is made if it is not there, and which only the owner can enter from then on.
    ///
    /// # Errors
    /// The folder cannot be used, or a run answers there already.
    pub fn listen(folder: &Path, limits: Limits) -> Result<Self, Error> {
        let (place, counters) = (Place::take(folder)?, ServerCounters::default());
        let (owner, clients) = (geteuid().as_raw(), BTreeMap::new());
        Ok(Self { place, limits, owner, clients, next: 0, gone: Vec::new(), pause: None, counters })
    }

    /// Where clients find it.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// What came, and what became of it.
    pub fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// What to poll for before the next [`Server::ready`], which is also due after [`Server::patience`].
    pub fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let listener = (self.place.listener.as_fd(), PollFlags::IN);
        let listener = self.pause.is_none().then_some(listener);
        listener.into_iter().chain(self.clients.values().map(|c| (c.stream.as_fd(), c.wish()))).collect()
    }

    /// How long a poll of the descriptors may wait.
    pub fn patience(&self) -> Duration {
        let due = self.clients.values().any(|client| client.talk.is_due());
        if due { Duration::ZERO } else { ROUND }
    }

    /// Does what can be done without waiting; returns the requests that came.
    pub fn ready(&mut self, now: Instant) -> Vec<(Ticket, Request)> {
        self.let_in(now);
        let mut requests = Vec::new();
        for id in self.hung_up() {
            self.remove(id);
        }
        for (id, client) in &mut self.clients {
            client.receive(now);
            match client.talk.hear(now) {
                Heard::Request(request) => {
                    client.request += 1;
                    self.counters.requests.add(1);
                    requests.push((Ticket { client: *id, request: client.request }, request));
                }
                Heard::Garbage => self.counters.drop_garbage.add(1),
                Heard::Nothing => {}
            }
        }
        self.flush(now);
        requests
    }

    /// The descriptor that came with a request, once.
    pub fn take_file(&mut self, ticket: Ticket) -> Option<OwnedFd> {
        self.clients.get_mut(&ticket.client).filter(|client| client.request == ticket.request)?.file.take()
    }

    /// Answers a request. A client that is gone needs no answer.
    pub fn answer(&mut self, ticket: Ticket, outcome: &Outcome, now: Instant) {
        self.say(ticket, outcome, false, now);
    }

    /// Answers a part of a request; [`Server::answer`] ends it.
    pub fn answer_part(&mut self, ticket: Ticket, answer: Answer, now: Instant) {
        self.say(ticket, &Ok(answer), true, now);
    }

    fn say(&mut self, ticket: Ticket, outcome: &Outcome, more: bool, now: Instant) {
        let client = self.clients.get_mut(&ticket.client).filter(|client| client.request == ticket.request);
        let Some(client) = client else { return };
        client.talk.answer(outcome, more, now);
        client.send(now);
    }

    /// Requests whose clients have left since the last time: nobody waits for their answers.
    pub fn take_gone(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.gone)
    }

    /// Sends what can be sent and leaves the clients that are to be left.
    fn flush(&mut self, now: Instant) {
        let mut leave = Vec::new();
        for (id, client) in &mut self.clients {
            client.send(now);
            if let Some(end) = client.talk.end(now) {
                leave.push((*id, end));
            }
        }
        for (id, end) in leave {
            match end {
                End::Done | End::Broken => {}
                End::SlowReader => self.counters.drop_slow_reader.add(1),
                End::HalfLine => self.counters.drop_half_line.add(1),
                End::Idle => self.counters.drop_idle.add(1),
            }
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(client) = self.clients.remove(&id) else { return };
        if client.talk.is_asked() {
            self.counters.drop_gone.add(1);
            self.gone.push(Ticket { client: id, request: client.request });
        }
    }

    /// Clients whose other end is closed for good.
    fn hung_up(&self) -> Vec<u64> {
        let mut fds: Vec<_> =
            self.clients.values().map(|client| PollFd::new(&client.stream, PollFlags::empty())).collect();
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
            return Vec::new();
        }
        let over = PollFlags::HUP | PollFlags::ERR;
        // What it asked before it left may still be read, but nobody would hear the answer.
        self.clients
            .keys()
            .zip(&fds)
            .filter(|(_, fd)| fd.revents().intersects(over))
            .map(|(id, _)| *id)
            .collect()
    }
}

/// Letting clients in.
impl Server {
    fn let_in(&mut self, now: Instant) {
        if self.pause.is_some_and(|until| now < until) {
            return;
        }
        self.pause = None;
        // Some at a time: whoever connects in a loop must not keep the others waiting.
        for _ in 0..self.limits.clients {
            match self.place.listener.accept() {
                Ok((stream, _)) => self.receive(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // The client still waits, and a poll would say so at once, again and again.
                    self.counters.accept_failed.add(1);
                    self.pause = Some(now + PAUSE);
                    return;
                }
            }
        }
    }

    fn receive(&mut self, stream: UnixStream, now: Instant) {
        if stream.set_nonblocking(true).is_err() {
            self.counters.accept_failed.add(1);
            return;
        }
        if !door::user_at(&stream).is_ok_and(|user| user == self.owner || user == 0) {
            self.counters.refused_user.add(1);
            let what = format!("this run belongs to user {}: ask as its owner or as root", self.owner);
            return turn_away(&stream, what);
        }
        if self.clients.len() >= self.limits.clients {
            self.counters.refused_full.add(1);
            let what =
                format!("{} clients are here already: try again when one has left", self.clients.len());
            return turn_away(&stream, what);
        }
        self.counters.accepted.add(1);
        let talk = Conversation::new(self.limits, now);
        self.clients.insert(self.next, Client { stream, talk, request: 0, file: None });
        self.next += 1;
    }
}

/// Tells a client why it is not served, if it can be told at once.
fn turn_away(mut stream: &UnixStream, what: String) {
    if let Ok(line) = encode_answer(&Err(Error::new(what))) {
        // It is left either way.
        let _ = stream.write(&line);
    }
}

impl Client {
    fn wish(&self) -> PollFlags {
        let input = if self.talk.listens() { PollFlags::IN } else { PollFlags::empty() };
        let output = if self.talk.unsent().is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        input | output
    }

    fn receive(&mut self, now: Instant) {
        let mut octets = [0; 4096];
        let mut left = MOUTHFUL;
        while left > 0 && self.talk.listens() {
            match self.read(&mut octets) {
                Ok(0) => return self.talk.end_input(),
                Ok(len) => {
                    self.talk.receive(&octets[..len], now);
                    left = left.saturating_sub(len);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.talk.break_off(),
            }
        }
    }

    /// Octets, and at most one descriptor: those that there is no room for are closed.
    fn read(&mut self, octets: &mut [u8]) -> rustix::io::Result<usize> {
        let mut read = fd_passing::receive(&self.stream, octets, 1, RecvFlags::empty())?;
        self.file = read.descriptors.pop().or(self.file.take());
        Ok(read.octets)
    }

    fn send(&mut self, now: Instant) {
        while !self.talk.unsent().is_empty() {
            match self.write() {
                Ok(len) => self.talk.sent(len, now),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.talk.break_off(),
            }
        }
    }

    fn write(&mut self) -> io::Result<usize> {
        self.stream.write(self.talk.unsent())
    }
}

#[cfg(test)]
mod tests;
