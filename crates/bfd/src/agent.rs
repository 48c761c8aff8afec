//! The data plane's side towards bfdd: its orders become sessions, changes of sessions become messages to it and verdicts for
//! the route table.
//!
//! When bfdd goes away, the sessions stay and go on: adjacencies outlive a restart of the control plane. When it is back, it
//! asks for its sessions again, under new numbers; those of the same path go on under these. [`Agent::connected`] makes all
//! sessions stale; [`Agent::settle`], once the control plane has settled, removes those that were not asked for again. They are
//! not told down to the other side: bfdd no longer watches them.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use crate::counters::BfdCounters;
use crate::dplane::{self, Error, Order, Orders};
use crate::packet::State;
use crate::session::Session;
use crate::sessions::{Arrived, Dropped, Out, Path, Sessions};

/// Most sessions: a bound on memory and on the time of a turn.
const MOST: usize = 16_384;
/// Octets that may wait for bfdd: some state changes of each session.
const MOST_OCTETS: usize = 4 << 20;

/// What an agent has to tell others than bfdd.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// Send a packet by this path, with time to live 255.
    Send {
        /// Path.
        path: &'a Path,
        /// UDP source port.
        source_port: u16,
        /// Payload of the datagram.
        payload: &'a [u8; crate::LEN],
    },
    /// The next hop at this address of this interface answers, or does not: route around it.
    Verdict {
        /// Index of the interface; 0: any.
        index: u32,
        /// Address.
        remote: IpAddr,
        /// True if it answers, or nobody watches it any more.
        is_alive: bool,
    },
    /// A session asks for something that is not done here: `echo`, `demand`. It works without.
    Unsupported {
        /// Path.
        path: &'a Path,
        /// What.
        what: &'static str,
    },
    /// A session is not kept, because there are too many.
    Refused {
        /// Path.
        path: &'a Path,
    },
}

/// Sessions on behalf of bfdd.
#[derive(Debug, Default)]
pub struct Agent {
    sessions: Sessions,
    orders: Orders,
    /// Octets for bfdd.
    to_bfdd: Vec<u8>,
    is_connected: bool,
    /// Sessions that bfdd has not asked for since it connected.
    stale: HashSet<u32>,
}

impl Agent {
    /// Creates an agent without sessions; `seed` decides the jitter.
    pub fn new(seed: u64) -> Self {
        Self { sessions: Sessions::new(seed), ..Self::default() }
    }

    /// Has the sessions count here, where others may read it.
    #[must_use]
    pub fn counted_by(self, counters: Arc<BfdCounters>) -> Self {
        Self { sessions: self.sessions.counted_by(counters), ..self }
    }

    /// bfdd has accepted the connection.
    pub fn connected(&mut self) {
        self.closed();
        self.is_connected = true;
        self.stale = self.sessions.iter().map(|(session, ..)| session.config().number).collect();
    }

    /// The connection has ended.
    pub fn closed(&mut self) {
        self.is_connected = false;
        self.orders.clear();
        self.to_bfdd.clear();
    }

    /// Takes octets of bfdd.
    ///
    /// # Errors
    /// They cannot be read on: close the connection, and connect again.
    pub fn hear(&mut self, octets: &[u8], now: u64, tell: &mut dyn FnMut(Told<'_>)) -> Result<(), Error> {
        for order in self.orders.take(octets)? {
            self.obey(&order, now, tell);
        }
        Ok(())
    }

    /// Removes sessions that bfdd has not asked for since it connected; returns their number. Call it when the daemons that want
    /// them have settled: a bfdd that was restarted asks only once they and its configuration do.
    pub fn settle(&mut self, tell: &mut dyn FnMut(Told<'_>)) -> usize {
        let stale = std::mem::take(&mut self.stale);
        stale.iter().for_each(|number| self.forget(*number, tell));
        stale.len()
    }

    /// Takes a packet that has arrived.
    ///
    /// # Errors
    /// It is dropped, and counted.
    pub fn take(&mut self, arrived: &Arrived<'_>, tell: &mut dyn FnMut(Told<'_>)) -> Result<(), Dropped> {
        let to_bfdd = self.is_connected.then_some(&mut self.to_bfdd);
        self.sessions.take(arrived, &mut relayed(to_bfdd, tell))
    }

    /// Does what is due. Take the packets that have arrived before.
    pub fn turn(&mut self, now: u64, tell: &mut dyn FnMut(Told<'_>)) {
        let to_bfdd = self.is_connected.then_some(&mut self.to_bfdd);
        self.sessions.turn(now, &mut relayed(to_bfdd, tell));
    }

    /// Time of the next turn.
    pub fn due(&self) -> Option<u64> {
        self.sessions.due()
    }

    /// Octets for bfdd. Remove those that were sent.
    pub const fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.to_bfdd
    }

    /// Returns true if bfdd does not read what it is told: close the connection, and connect again.
    pub const fn is_overrun(&self) -> bool {
        self.to_bfdd.len() > MOST_OCTETS
    }

    /// Sessions.
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    fn obey(&mut self, order: &Order, now: u64, tell: &mut dyn FnMut(Told<'_>)) {
        match order {
            Order::Add(wanted) => self.add(wanted, now, tell),
            Order::Delete(number) => self.forget(*number, tell),
            Order::Counters { id, number } => {
                let traffic = self.sessions.get(*number).map(|(_, _, traffic)| traffic).unwrap_or_default();
                dplane::put_counters(&mut self.to_bfdd, *id, *number, traffic);
            }
            Order::Echo { id, payload } => dplane::put_echo(&mut self.to_bfdd, *id, payload),
            Order::Other(_) => {}
        }
    }

    fn add(&mut self, wanted: &dplane::Wanted, now: u64, tell: &mut dyn FnMut(Told<'_>)) {
        let (number, path) = (wanted.watch.config.number, &wanted.watch.path);
        let before = self.sessions.get(number).map(|(_, path, _)| *path);
        // A session that goes on under another number needs no room.
        let is_known = before.is_some() || number != 0 && self.take_over(number, path);
        if number == 0 || !is_known && self.sessions.len() >= MOST {
            dplane::put_down(&mut self.to_bfdd, number);
            return tell(Told::Refused { path });
        }
        for what in wanted.unsupported.iter().copied() {
            tell(Told::Unsupported { path, what });
        }
        self.stale.remove(&number);
        if let Some(before) = before.filter(|before| next_hop(before) != next_hop(path)) {
            // Nobody watches its former next hop any more.
            tell(verdict(&before, true));
        }
        let to_bfdd = self.is_connected.then_some(&mut self.to_bfdd);
        self.sessions.set(&wanted.watch, now, &mut relayed(to_bfdd, tell));
        // A bfdd that was restarted takes a session to be down until it is told.
        if let Some((session, ..)) = self.sessions.get(number).filter(|_| is_known) {
            dplane::put_state(&mut self.to_bfdd, session);
        }
    }

    /// Gives the session that watched a path for the former bfdd the number by which the present one calls it. It stays up.
    fn take_over(&mut self, number: u32, path: &Path) -> bool {
        let Some(former) = self.sessions.number_of(path).filter(|former| self.stale.contains(former)) else {
            return false;
        };
        self.stale.remove(&former);
        self.sessions.renumber(former, number)
    }

    fn forget(&mut self, number: u32, tell: &mut dyn FnMut(Told<'_>)) {
        self.stale.remove(&number);
        let path = self.sessions.get(number).map(|(_, path, _)| *path);
        if self.sessions.remove(number)
            && let Some(path) = path
        {
            tell(verdict(&path, true));
        }
    }
}

/// What sessions report, passed on to bfdd and to others.
fn relayed(mut to_bfdd: Option<&mut Vec<u8>>, tell: &mut dyn FnMut(Told<'_>)) -> impl FnMut(Out<'_>) {
    move |out| match out {
        Out::Send { path, source_port, payload } => tell(Told::Send { path, source_port, payload }),
        Out::Changed { path, session, change } => {
            if let Some(to_bfdd) = &mut to_bfdd {
                dplane::put_state(to_bfdd, session);
            }
            if let Some(told) = judged(path, session, change.from) {
                tell(told);
            }
        }
    }
}

/// Verdict that follows from a change of state. A session that comes down because an administrator at either side says so says
/// nothing about the path (RFC 5882, section 3.2).
fn judged(path: &Path, session: &Session, before: State) -> Option<Told<'static>> {
    let is_administrative = session.state() == State::AdminDown || session.remote().state == State::AdminDown;
    match (before, session.state()) {
        (_, State::Up) => Some(verdict(path, true)),
        (State::Up, _) => Some(verdict(path, is_administrative)),
        _ if is_administrative => Some(verdict(path, true)),
        _ => None,
    }
}

/// Interface and address that verdicts are about.
const fn next_hop(path: &Path) -> (u32, IpAddr) {
    (path.index, path.remote)
}

const fn verdict(path: &Path, is_alive: bool) -> Told<'static> {
    Told::Verdict { index: path.index, remote: path.remote, is_alive }
}

#[cfg(test)]
mod tests;
