//! A small HTTP server that never waits, for a loop that polls its descriptors together with others.
//!
//! It is asked for one page only. Who asks is not trusted: there is a greatest number of clients, a longest request
//! and a longest time, and who goes beyond is cut off and counted.

mod client;
mod place;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::request::{self, Status};
use client::Client;
use place::Listener;
pub use place::Place;

/// What one client, and all together, may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients at a time; one more, and the first one that has no answer yet is cut off.
    pub clients: usize,
    /// Octets of a request.
    pub request: usize,
    /// From a client's first sign to the last octet of its answer.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 16, request: 8 << 10, time: Duration::from_secs(5) }
    }
}

/// After an accept(2) that failed (no descriptors are left, say), before the next: the listener stays readable.
const PAUSE: Duration = Duration::from_millis(200);

ledger::counters! {
    /// What became of the clients.
    pub struct ResponderCounters {
        /// Clients that came.
        accepted,
        /// Pages that were handed out whole.
        served,
        /// Requests that were answered by an error.
        refused,
        /// Clients that were cut off because they took too long.
        dropped_slow,
        /// Clients that were cut off because too many came after them.
        dropped_many,
        /// Clients that left before they had their answer.
        gone,
        /// Clients that could not be let in.
        accept_errors,
    }
}

/// Hands out pages to who asks for `GET /metrics`.
///
/// The owner polls what [`Responder::watched`] lists, for at most until [`Responder::deadline`], calls
/// [`Responder::serve`], and if that says that somebody waits, [`Responder::answer`] with a page, at once or later.
#[derive(Debug)]
pub struct Responder {
    listener: Listener,
    clients: Vec<Client>,
    limits: Limits,
    counters: ResponderCounters,
    /// Nobody is let in before.
    paused_until: Option<Instant>,
}

impl Responder {
    /// Listens there.
    ///
    /// # Errors
    /// One line: somebody listens there already, or the place cannot be used.
    pub fn bind(place: &Place, limits: Limits) -> Result<Self> {
        let listener = Listener::bind(place)?;
        let counters = ResponderCounters::default();
        Ok(Self { listener, clients: Vec::new(), limits, counters, paused_until: None })
    }

    /// Where it listens; the port is a real one where port 0 was asked for.
    pub fn place(&self) -> &Place {
        self.listener.place()
    }

    /// What became of the clients.
    pub fn counters(&self) -> &ResponderCounters {
        &self.counters
    }

    /// The descriptors to poll, and for what.
    pub fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let listener = self.paused_until.is_none().then(|| (self.listener.as_fd(), PollFlags::IN));
        let clients = self.clients.iter().filter_map(|client| Some((client.as_fd(), client.interest()?)));
        listener.into_iter().chain(clients)
    }

    /// When to call [`Responder::serve`] although no descriptor is ready.
    pub fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(Client::end).chain(self.paused_until).min()
    }

    /// Does what can be done without waiting; how many clients wait for a page.
    pub fn serve(&mut self, now: Instant) -> usize {
        if self.paused_until.is_none_or(|until| until <= now) {
            self.paused_until = None;
            self.accept(now);
        }
        let (limits, counters) = (self.limits, &self.counters);
        self.clients.retain_mut(|client| client.go_on(now, limits.request, counters));
        self.clients.iter().filter(|client| client.waits()).count()
    }

    /// Gives a page to everyone who waits for one.
    pub fn answer(&mut self, page: &str) {
        self.give(|| request::with_page(page));
    }

    /// Tells everyone who waits that there is no page.
    pub fn refuse(&mut self) {
        self.give(|| request::refusal(Status::Unavailable));
    }

    /// Makes room: by who has its answer, else by who came first.
    fn push_out(&mut self) {
        match self.clients.iter().position(Client::is_answered) {
            Some(answered) => drop(self.clients.remove(answered)),
            None => {
                self.clients.remove(0);
                self.counters.dropped_many.add(1);
            }
        }
    }

    fn give(&mut self, answer: impl Fn() -> Vec<u8>) {
        let counters = &self.counters;
        self.clients.retain_mut(|client| !client.waits() || client.answer(answer(), counters));
    }

    /// Lets in who knocks, but no more at a time than may be there.
    fn accept(&mut self, now: Instant) {
        for _ in 0..self.limits.clients {
            match accept_with(self.listener.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.counters.accepted.add(1);
                    if self.clients.len() >= self.limits.clients {
                        self.push_out();
                    }
                    self.clients.push(Client::new(socket, now + self.limits.time));
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.counters.accept_errors.add(1);
                    self.paused_until = Some(now + PAUSE);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
