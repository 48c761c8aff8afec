//! The thread that keeps sessions: bfdd's orders, packets, and time, in this order.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bfd::{Agent, BfdCounters};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::outside::Outside;
use super::{News, Order};
use crate::bell::Listener;

/// Longest sleep.
const LONGEST: Duration = Duration::from_secs(60);
/// Most octets of bfdd taken in a turn.
const MOST: usize = 64 << 10;

/// See the module.
pub(super) struct Worker {
    agent: Agent,
    bfdd: Option<UnixStream>,
    outside: Outside,
    orders: Listener<Order>,
    started: Instant,
}

impl Worker {
    pub(super) fn new(outside: Outside, orders: Listener<Order>, counters: Arc<BfdCounters>) -> Self {
        // Jitter need not be secret, but differ between routers.
        let seed = u64::from(std::process::id()) << 32 ^ std::ptr::from_ref(&*counters).addr() as u64;
        let agent = Agent::new(seed).counted_by(counters);
        Self { agent, bfdd: None, outside, orders, started: Instant::now() }
    }

    /// Serves until nobody can tell it anything any more.
    pub(super) fn serve(mut self) {
        while self.turn() {
            self.wait();
        }
    }

    /// Does what is due. Returns false at the end.
    fn turn(&mut self) -> bool {
        if !self.obey() {
            return false;
        }
        if self.hear().is_err() {
            self.close();
        }
        let now = self.now();
        let Self { agent, outside, .. } = self;
        outside.receive(agent, now);
        agent.turn(now, &mut |told| outside.take(told));
        outside.tidy(agent.sessions().len());
        if self.speak().is_err() || self.agent.is_overrun() {
            self.close();
        }
        true
    }

    /// Microseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn obey(&mut self) -> bool {
        self.orders.quiet();
        loop {
            match self.orders.next() {
                Ok(None) => return true,
                Ok(Some(Order::Connected(stream))) => self.connected(stream),
                Ok(Some(Order::Settle)) => {
                    let Self { agent, outside, .. } = self;
                    agent.settle(&mut |told| outside.take(told));
                }
                Err(_) => return false,
            }
        }
    }

    fn connected(&mut self, stream: UnixStream) {
        self.agent.connected();
        match stream.set_nonblocking(true) {
            Ok(()) => self.bfdd = Some(stream),
            Err(_) => self.outside.tell(News::Closed),
        }
    }

    /// The connection to bfdd ends; the sessions go on.
    fn close(&mut self) {
        self.agent.closed();
        if self.bfdd.take().is_some() {
            self.outside.tell(News::Closed);
        }
    }

    /// Takes orders of bfdd.
    fn hear(&mut self) -> io::Result<()> {
        let now = self.now();
        let Self { agent, bfdd: Some(bfdd), outside, .. } = self else { return Ok(()) };
        let (mut octets, mut count) = ([0; 4096], 0);
        while count < MOST {
            match bfdd.read(&mut octets) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    count += len;
                    if let Err(error) = agent.hear(&octets[..len], now, &mut |told| outside.take(told)) {
                        outside.tell(News::Notice(format!("BFD: {error}")));
                        return Err(ErrorKind::InvalidData.into());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells bfdd as much as it takes.
    fn speak(&mut self) -> io::Result<()> {
        let Self { agent, bfdd: Some(bfdd), .. } = self else { return Ok(()) };
        let outgoing = agent.outgoing();
        while !outgoing.is_empty() {
            match bfdd.write(outgoing) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => drop(outgoing.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&mut self) {
        let now = self.now();
        let left = self.agent.due().map(|due| Duration::from_micros(due.saturating_sub(now)));
        let left = left.unwrap_or(LONGEST).min(LONGEST);
        let is_full = !self.agent.outgoing().is_empty();
        let flags = if is_full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let bfdd = self.bfdd.iter().map(|bfdd| PollFd::new(bfdd, flags));
        let sockets = self.outside.sockets.iter().map(|(_, socket)| socket.as_fd());
        let read = sockets.chain([self.orders.watched()]);
        let read = read.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = bfdd.chain(read).collect();
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => sleep(Duration::from_millis(10)),
        }
    }
}
