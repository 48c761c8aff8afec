//! Neighbours that are being resolved, and the packets that wait for them.

use arrayvec::ArrayVec;

use crate::slow::Origin;

/// Maximum number of neighbours that one router resolves at a time.
pub(crate) const MAX_PENDING: usize = 32;
/// Maximum number of packets that wait for one neighbour; RFC 1122, 2.3.2.2 requires at least the latest one.
pub(crate) const MAX_HELD: usize = 4;
/// Number of broadcast requests before a neighbour is given up.
const REQUESTS: u32 = 3;
/// Milliseconds between requests.
const RETRANSMIT: u64 = 1000;
/// Milliseconds for which no request is sent for a neighbour that did not answer.
const NEGATIVE: u64 = 3000;

/// A waiting packet.
pub(crate) struct Held<B> {
    pub(crate) buffer: B,
    pub(crate) origin: Origin,
}

/// A neighbour that is being resolved.
pub(crate) struct Resolution<B> {
    pub(crate) nic: u8,
    pub(crate) ip: u32,
    requests: u32,
    due: u64,
    pub(crate) held: ArrayVec<Held<B>, MAX_HELD>,
}

/// Action that is due for a neighbour.
pub(crate) enum Due<B> {
    /// Send a further request.
    Ask { nic: u8, ip: u32 },
    /// The neighbour did not answer: refuse its packets.
    GiveUp(ArrayVec<Held<B>, MAX_HELD>),
}

/// Result of holding a packet.
pub(crate) enum Holding<B> {
    /// The packet waits, and a request has been sent already.
    Waits,
    /// The packet waits, and a request must be sent.
    Ask,
    /// The packet waits, and replaces this older one.
    Replaced(Held<B>),
    /// The neighbour did not answer recently.
    Unreachable(Held<B>),
    /// Too many neighbours are being resolved.
    Full(Held<B>),
}

/// All neighbours that one router is resolving.
pub(crate) struct Pending<B> {
    waits: ArrayVec<Resolution<B>, MAX_PENDING>,
}

impl<B> Pending<B> {
    pub(crate) const fn new() -> Self {
        Self { waits: ArrayVec::new_const() }
    }

    /// Returns the number of waiting packets, and how many of them the router created itself.
    pub(crate) fn held(&self) -> (usize, usize) {
        let held = self.waits.iter().flat_map(|wait| &wait.held);
        held.fold((0, 0), |(all, own), packet| (all + 1, own + usize::from(packet.origin == Origin::Own)))
    }

    /// Returns true if the neighbour is being resolved, or did not answer recently.
    pub(crate) fn contains(&self, nic: u8, ip: u32) -> bool {
        self.waits.iter().any(|wait| (wait.nic, wait.ip) == (nic, ip))
    }

    /// Holds a packet until its neighbour is resolved.
    pub(crate) fn hold(&mut self, (nic, ip): (u8, u32), packet: Held<B>, now: u64) -> Holding<B> {
        if let Some(wait) = self.waits.iter_mut().find(|wait| (wait.nic, wait.ip) == (nic, ip)) {
            if wait.requests > REQUESTS {
                return Holding::Unreachable(packet);
            }
            let oldest = if wait.held.is_full() { wait.held.pop_at(0) } else { None };
            wait.held.push(packet);
            return oldest.map_or(Holding::Waits, Holding::Replaced);
        }
        if self.waits.is_full() && !self.forget_one() {
            return Holding::Full(packet);
        }
        let mut held = ArrayVec::new();
        held.push(packet);
        self.waits.push(Resolution { nic, ip, requests: 1, due: now.saturating_add(RETRANSMIT), held });
        Holding::Ask
    }

    /// Makes room by removing a neighbour that did not answer; returns false if there is none.
    fn forget_one(&mut self) -> bool {
        let given_up = self.waits.iter().position(|wait| wait.requests > REQUESTS);
        given_up.map(|at| self.waits.swap_remove(at)).is_some()
    }

    /// Removes and returns one neighbour that has become known.
    pub(crate) fn take_known(&mut self, known: impl Fn(u8, u32) -> bool) -> Option<Resolution<B>> {
        let at = self.waits.iter().position(|wait| known(wait.nic, wait.ip))?;
        Some(self.waits.swap_remove(at))
    }

    /// Returns when an action will be due, in milliseconds; `None` if no neighbour is being resolved.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.waits.iter().map(|wait| wait.due).min()
    }

    /// Returns one action that is due now.
    pub(crate) fn next_due(&mut self, now: u64) -> Option<Due<B>> {
        while let Some(at) = self.waits.iter().position(|wait| wait.due <= now) {
            let wait = &mut self.waits[at];
            if wait.requests > REQUESTS {
                self.waits.swap_remove(at);
                continue;
            }
            wait.requests += 1;
            if wait.requests <= REQUESTS {
                wait.due = now.saturating_add(RETRANSMIT);
                return Some(Due::Ask { nic: wait.nic, ip: wait.ip });
            }
            wait.due = now.saturating_add(NEGATIVE);
            return Some(Due::GiveUp(core::mem::take(&mut wait.held)));
        }
        None
    }
}
