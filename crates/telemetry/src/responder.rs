//! Small non-blocking HTTP server, for an event loop that polls its descriptors together with others.
//!
//! It serves a single page. Clients are not trusted: their number, the length of a request and the time are
//! limited; clients beyond a limit are disconnected and counted.

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

/// Resource limits of clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most simultaneous clients; one more, and the oldest without an answer is disconnected.
    pub clients: usize,
    /// Octets of a request.
    pub request: usize,
    /// Time from accepting a client to the last octet of its answer.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 16, request: 8 << 10, time: Duration::from_secs(5) }
    }
}

/// Pause after a failed accept(2) (because of missing descriptors, for example): the listener stays readable.
const PAUSE: Duration = Duration::from_millis(200);

ledger::counters! {
    /// Clients, by outcome.
    pub struct ResponderCounters {
        /// Clients that were accepted.
        accepted,
        /// Pages that were delivered completely.
        served,
        /// Requests that were answered by an error.
        refused,
        /// Clients disconnected because they took too long.
        dropped_slow,
        /// Clients disconnected because too many came after them.
        dropped_many,
        /// Clients that left before they had their answer.
        gone,
        /// Failed attempts to accept a client.
        accept_errors,
    }
}

/// Serves pages to clients that send `GET /metrics`.
///
/// The owner polls the descriptors of [`Responder::watched`], at most until [`Responder::deadline`], and
/// calls [`Responder::serve`]. If that returns a number of waiting clients, the owner calls
/// [`Responder::answer`] with a page, at once or later.
#[derive(Debug)]
pub struct Responder {
    listener: Listener,
    clients: Vec<Client>,
    limits: Limits,
    counters: ResponderCounters,
    /// No client is accepted before this.
    paused_until: Option<Instant>,
}

impl Responder {
    /// Listens at an address.
    ///
    /// # Errors
    /// In one line, that it is in use, or that it cannot be used.
    pub fn bind(place: &Place, limits: Limits) -> Result<Self> {
        let listener = Listener::bind(place)?;
        let counters = ResponderCounters::default();
        Ok(Self { listener, clients: Vec::new(), limits, counters, paused_until: None })
    }

    /// Counters of clients by outcome.
    pub fn counters(&self) -> &ResponderCounters {
        &self.counters
    }

    /// Descriptors to poll, with the events to poll for.
    pub fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let listener = self.paused_until.is_none().then(|| (self.listener.as_fd(), PollFlags::IN));
        let clients = self.clients.iter().filter_map(|client| Some((client.as_fd(), client.interest()?)));
        listener.into_iter().chain(clients)
    }

    /// When to call [`Responder::serve`] even if no descriptor is ready.
    pub fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(Client::end).chain(self.paused_until).min()
    }

    /// Does what is possible without blocking. Returns the number of clients that wait for a page.
    pub fn serve(&mut self, now: Instant) -> usize {
        if self.paused_until.is_none_or(|until| until <= now) {
            self.paused_until = None;
            self.accept(now);
        }
        let (limits, counters) = (self.limits, &self.counters);
        self.clients.retain_mut(|client| client.go_on(now, limits.request, counters));
        self.clients.iter().filter(|client| client.waits()).count()
    }

    /// Sends a page to all waiting clients.
    pub fn answer(&mut self, page: &str) {
        self.give(|| request::with_page(page));
    }

    /// Tells all waiting clients that there is no page.
    pub fn refuse(&mut self) {
        self.give(|| request::refusal(Status::Unavailable));
    }

    /// Disconnects a client to make room: one that has its answer, else the oldest.
    fn evict_client(&mut self) {
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

    /// Accepts clients, at most as many at a time as there may be in total.
    fn accept(&mut self, now: Instant) {
        for _ in 0..self.limits.clients {
            match accept_with(self.listener.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.counters.accepted.add(1);
                    if self.clients.len() >= self.limits.clients {
                        self.evict_client();
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
