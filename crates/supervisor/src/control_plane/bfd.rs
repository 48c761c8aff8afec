//! BFD of a control plane: bfdd hands its sessions over, and a thread of their own, `NAME/bfd`, sends, receives and judges. It does
//! nothing that may wait, so that sessions do not depend on how long bfdd, zebra or a dump of routes takes; they outlive restarts of
//! FRR. Its packets take the way of all packets of the control plane: shadows, and the class of BFD.
//!
//! ```text
//! bfdd <--unix socket--> NAME/bfd <--UDP--> control namespace, shadows
//!                           | verdicts
//!                           v
//!                      NAME/control --> groups of next hops --> lessons
//! ```

mod outside;
mod worker;

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use ::bfd::BfdCounters;
use anyhow::{Context, Result};
use frr::{Daemon, Running};
use netns::Namespace;

use crate::bell::{Listener, Ringer, belled};
use outside::Outside;
use worker::Worker;

/// Milliseconds between two attempts to reach bfdd: until it is reached it sends packets itself, to which it hears no answers.
const PAUSE: u64 = 20;
/// Milliseconds before another attempt to start the thread.
const LONG_PAUSE: u64 = 30_000;
/// Milliseconds after which a bfdd that was reached once more has asked for all of its sessions. It does so at once.
const ASKING: u64 = 30_000;

/// What the thread is told.
enum Order {
    /// bfdd is reached.
    Connected(UnixStream),
    /// What bfdd has not asked for by now it will not ask for any more.
    Settle,
}

/// What the thread reports.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The next hop at this address of this interface (0: any) answers, or does not.
    Verdict { index: u32, remote: IpAddr, is_alive: bool },
    /// The connection to bfdd has ended.
    Closed,
    /// A session is not as bfdd asks for.
    Notice(String),
}

/// The control thread's end.
pub(super) struct Bfd {
    name: String,
    namespace: Namespace,
    counters: Arc<BfdCounters>,
    thread: Option<Thread>,
    is_connected: bool,
    /// No attempt before, in milliseconds.
    next: u64,
    /// Process number of the bfdd that was reached last.
    reached: Option<u32>,
    /// When the sessions are settled of a bfdd that was reached once more, in milliseconds: no daemon is restarted then, after which
    /// they would be.
    settles: Option<u64>,
}

struct Thread {
    /// `None` while it ends.
    orders: Option<Ringer<Order>>,
    news: Listener<News>,
    thread: Option<JoinHandle<()>>,
}

impl Bfd {
    /// Of a router with this name; it does nothing yet.
    pub(super) const fn new(name: String, namespace: Namespace, counters: Arc<BfdCounters>) -> Self {
        Self {
            name,
            namespace,
            counters,
            thread: None,
            is_connected: false,
            next: 0,
            reached: None,
            settles: None,
        }
    }

    /// Follows bfdd: reaches it, or another one after it has ended.
    ///
    /// # Errors
    /// The sessions cannot be kept; it is tried again.
    pub(super) fn follow(&mut self, running: Option<&Running>, now: u64) -> Result<()> {
        if self.settles.take_if(|at| *at <= now).is_some() {
            self.settle();
        }
        let process = running.and_then(|running| running.process(Daemon::Bfd));
        if self.is_connected || process.is_none() || now < self.next {
            return Ok(());
        }
        self.next = now + PAUSE;
        let Some(stream) = running.and_then(|running| running.connect_to_bfd().ok()) else { return Ok(()) };
        if self.thread.is_none() {
            self.next = now + LONG_PAUSE;
            self.thread = Some(self.start()?);
            self.next = now + PAUSE;
        }
        self.note_reached(process, now);
        self.tell(Order::Connected(stream));
        Ok(())
    }

    /// Notes that a bfdd was reached, which is this process.
    fn note_reached(&mut self, process: Option<u32>, now: u64) {
        self.settles = (self.reached == process).then_some(now + ASKING);
        (self.is_connected, self.reached) = (true, process);
    }

    fn start(&self) -> Result<Thread> {
        let (orders, taken) = belled()?;
        let (told, news) = belled()?;
        let outside = Outside::open(self.namespace.clone(), told).context("receiving BFD's packets")?;
        let worker = Worker::new(outside, taken, self.counters.clone());
        let thread = Builder::new().name(format!("{}/bfd", self.name)).spawn(move || worker.serve())?;
        Ok(Thread { orders: Some(orders), news, thread: Some(thread) })
    }

    /// Ends all sessions. Returns true if there may have been some, of which the verdicts do not hold any more.
    pub(super) fn end(&mut self) -> bool {
        (self.is_connected, self.reached, self.settles) = (false, None, None);
        self.thread.take().is_some()
    }

    /// What bfdd has not asked for by now it will not ask for any more.
    pub(super) fn settle(&self) {
        self.tell(Order::Settle);
    }

    /// What has happened since it was asked last.
    pub(super) fn news(&mut self) -> Vec<News> {
        let Some(thread) = &self.thread else { return Vec::new() };
        thread.news.quiet();
        let news: Vec<News> = std::iter::from_fn(|| thread.news.next().ok().flatten()).collect();
        if news.contains(&News::Closed) {
            (self.is_connected, self.settles) = (false, None);
        }
        news
    }

    /// Descriptor to poll for reading.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.thread.as_ref().map(|thread| thread.news.watched())
    }

    /// When there is something to do, in milliseconds.
    pub(super) fn due(&self, running: Option<&Running>) -> Option<u64> {
        let is_there = running.is_some_and(|running| running.process(Daemon::Bfd).is_some());
        let next = (is_there && !self.is_connected).then_some(self.next);
        [next, self.settles].into_iter().flatten().min()
    }

    fn tell(&self, order: Order) {
        if let Some(orders) = self.thread.as_ref().and_then(|thread| thread.orders.as_ref()) {
            orders.send(order);
        }
    }
}

impl Drop for Thread {
    /// It ends when nobody can tell it anything any more.
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
