//! Server side: a listener and its clients, none of which can block the run.

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

use crate::conversation::{Conversation, DisconnectReason, Input, Limits};
use crate::folder::ListeningSocket;
use crate::line::encode_answer;
use crate::{Answer, Error, Outcome, Request};

counters! {
    /// Clients and requests of a control socket, by outcome.
    pub struct ServerCounters {
        /// Clients that were accepted.
        accepted,
        /// Valid requests.
        requests,
        /// Clients that were refused because they are neither the owner nor root.
        refused_user,
        /// Clients that were refused because there were too many.
        refused_full,
        /// Times accept(2) failed for want of descriptors or memory.
        accept_failed,
        /// Clients disconnected because they sent something that is not a request.
        drop_garbage,
        /// Clients disconnected because they did not read their answers.
        drop_slow_reader,
        /// Clients disconnected because they did not end a line.
        drop_half_line,
        /// Clients disconnected because they sent no request for too long.
        drop_idle,
        /// Clients that left before they were answered.
        drop_gone,
    }
}

/// Octets received from one client before the others get their turn.
const READ_QUANTUM: usize = 64 << 10;
/// Pause before accepting clients again after accept(2) has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Interval at which idle clients are checked for timeouts.
const ROUND: Duration = Duration::from_secs(1);

/// Identifies a request of a client, so that it can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    client: u64,
    request: u64,
}

impl Ticket {
    /// That of nobody: an answer to it goes nowhere.
    pub const NOBODY: Self = Self { client: u64::MAX, request: 0 };
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    talk: Conversation,
    /// Number of the request in progress, or of the last one.
    request: u64,
    /// Last descriptor received, for the request that it came with.
    file: Option<OwnedFd>,
    /// Descriptors received before that one, and not taken.
    unused: Vec<OwnedFd>,
}

/// A control socket and its clients.
#[derive(Debug)]
pub struct Server {
    place: ListeningSocket,
    limits: Limits,
    owner: u32,
    clients: BTreeMap<u64, Client>,
    next: u64,
    gone: Vec<Ticket>,
    /// Descriptors of clients that no request has used.
    unused: Vec<OwnedFd>,
    /// Until when no client is accepted.
    pause: Option<Instant>,
    counters: ServerCounters,
}

impl Server {
    /// Listens in a folder, which is created if necessary, and which only the owner may enter from then on.
    ///
    /// # Errors
    /// The folder cannot be used, or another run listens there.
    pub fn listen(folder: &Path, limits: Limits) -> Result<Self, Error> {
        let (place, counters) = (ListeningSocket::take(folder)?, ServerCounters::default());
        let (owner, clients) = (geteuid().as_raw(), BTreeMap::new());
        let (gone, unused) = Default::default();
        Ok(Self { place, limits, owner, clients, next: 0, gone, unused, pause: None, counters })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Counters of clients and requests.
    pub fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// Descriptors to poll before the next [`Server::ready`], which is also due after [`Server::patience`].
    pub fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let listener = (self.place.listener.as_fd(), PollFlags::IN);
        let listener = self.pause.is_none().then_some(listener);
        listener.into_iter().chain(self.clients.values().map(|c| (c.stream.as_fd(), c.wish()))).collect()
    }

    /// Longest time that a poll of the descriptors may wait.
    pub fn patience(&self) -> Duration {
        let due = self.clients.values().any(|client| client.talk.is_due());
        if due { Duration::ZERO } else { ROUND }
    }

    /// Does what is possible without blocking. Returns the requests received.
    pub fn ready(&mut self, now: Instant) -> Vec<(Ticket, Request)> {
        self.accept_clients(now);
        let mut requests = Vec::new();
        for id in self.hung_up() {
            self.remove(id);
        }
        for (id, client) in &mut self.clients {
            client.receive(now);
            match client.talk.hear(now) {
                Input::Request(request) => {
                    client.request += 1;
                    self.counters.requests.add(1);
                    requests.push((Ticket { client: *id, request: client.request }, request));
                }
                Input::Garbage => self.counters.drop_garbage.add(1),
                Input::Nothing => {}
            }
        }
        self.flush(now);
        requests
    }

    /// Takes the descriptor that came with a request.
    pub fn take_file(&mut self, ticket: Ticket) -> Option<OwnedFd> {
        self.clients.get_mut(&ticket.client).filter(|client| client.request == ticket.request)?.file.take()
    }

    /// Returns the descriptors that came with requests since the last call and were not taken: whoever closes
    /// them may have to wait for the servers of these files (FUSE, NFS).
    pub fn take_unused_files(&mut self) -> Vec<OwnedFd> {
        self.unused.extend(self.clients.values_mut().flat_map(|client| client.unused.drain(..)));
        std::mem::take(&mut self.unused)
    }

    /// Answers a request. A client that is gone is ignored.
    pub fn answer(&mut self, ticket: Ticket, outcome: &Outcome, now: Instant) {
        self.say(ticket, outcome, false, now);
    }

    /// Sends a partial answer; [`Server::answer`] completes it.
    pub fn answer_part(&mut self, ticket: Ticket, answer: Answer, now: Instant) {
        self.say(ticket, &Ok(answer), true, now);
    }

    fn say(&mut self, ticket: Ticket, outcome: &Outcome, more: bool, now: Instant) {
        let client = self.clients.get_mut(&ticket.client).filter(|client| client.request == ticket.request);
        let Some(client) = client else { return };
        client.talk.answer(outcome, more, now);
        client.send(now);
    }

    /// Returns the requests whose clients have left since the last call.
    pub fn take_gone(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.gone)
    }

    /// Sends pending output, and disconnects the clients that are due for that.
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
                DisconnectReason::Done | DisconnectReason::Broken => {}
                DisconnectReason::SlowReader => self.counters.drop_slow_reader.add(1),
                DisconnectReason::HalfLine => self.counters.drop_half_line.add(1),
                DisconnectReason::Idle => self.counters.drop_idle.add(1),
            }
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(mut client) = self.clients.remove(&id) else { return };
        self.unused.append(&mut client.unused);
        self.unused.extend(client.file.take());
        if client.talk.is_asked() {
            self.counters.drop_gone.add(1);
            self.gone.push(Ticket { client: id, request: client.request });
        }
    }

    /// Clients that have closed their connection completely.
    fn hung_up(&self) -> Vec<u64> {
        let mut fds: Vec<_> =
            self.clients.values().map(|client| PollFd::new(&client.stream, PollFlags::empty())).collect();
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
            return Vec::new();
        }
        let over = PollFlags::HUP | PollFlags::ERR;
        // Its last request could still be read, but its answer would reach no one.
        self.clients
            .keys()
            .zip(&fds)
            .filter(|(_, fd)| fd.revents().intersects(over))
            .map(|(id, _)| *id)
            .collect()
    }
}

/// Accepting clients.
impl Server {
    fn accept_clients(&mut self, now: Instant) {
        if self.pause.is_some_and(|until| now < until) {
            return;
        }
        self.pause = None;
        // A limited number at a time: a client that connects in a loop must not starve the others.
        for _ in 0..self.limits.clients {
            match self.place.listener.accept() {
                Ok((stream, _)) => self.receive(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // The connection stays pending, so a poll would report it again at once.
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
            return refuse_client(&stream, what);
        }
        if self.clients.len() >= self.limits.clients {
            self.counters.refused_full.add(1);
            let what =
                format!("{} clients are here already: try again when one has left", self.clients.len());
            return refuse_client(&stream, what);
        }
        self.counters.accepted.add(1);
        let talk = Conversation::new(self.limits, now);
        self.clients.insert(self.next, Client { stream, talk, request: 0, file: None, unused: Vec::new() });
        self.next += 1;
    }
}

/// Sends a client the reason why it is refused, if that is possible without blocking.
fn refuse_client(mut stream: &UnixStream, what: String) {
    if let Ok(line) = encode_answer(&Err(Error::new(what))) {
        // The connection is closed in any case.
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
        let mut left = READ_QUANTUM;
        while left > 0 && self.talk.listens() {
            match self.read(&mut octets) {
                Ok(0) => return self.talk.end_input(),
                Ok(len) => {
                    self.talk.receive(&octets[..len], now);
                    left = left.saturating_sub(len);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.talk.connection_broken(),
            }
        }
    }

    /// Receives octets and at most one descriptor; excess descriptors are closed.
    fn read(&mut self, octets: &mut [u8]) -> rustix::io::Result<usize> {
        let mut read = fd_passing::receive(&self.stream, octets, 1, RecvFlags::empty())?;
        if let Some(file) = read.descriptors.pop() {
            self.unused.extend(self.file.replace(file));
        }
        Ok(read.octets)
    }

    fn send(&mut self, now: Instant) {
        while !self.talk.unsent().is_empty() {
            match self.write() {
                Ok(len) => self.talk.sent(len, now),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.talk.connection_broken(),
            }
        }
    }

    fn write(&mut self) -> io::Result<usize> {
        self.stream.write(self.talk.unsent())
    }
}

#[cfg(test)]
mod tests;
