//! Neighbours that are being asked for, and the packets that wait for their answer.

use arrayvec::ArrayVec;

use crate::slow::Origin;

/// Neighbours asked for at a time by one router.
pub(crate) const MAX_PENDING: usize = 32;
/// Packets that wait for one neighbour; RFC 1122, 2.3.2.2 asks for at least the latest one.
pub(crate) const MAX_HELD: usize = 4;
/// Broadcast requests before a neighbour is given up.
const REQUESTS: u32 = 3;
/// Milliseconds between requests.
const RETRANSMIT: u64 = 1000;
/// Milliseconds for which a neighbour that did not answer is not asked for again.
const NEGATIVE: u64 = 3000;

/// A packet that waits.
pub(crate) struct Held<B> {
    pub(crate) buffer: B,
    pub(crate) origin: Origin,
}

/// A neighbour that is asked for.
pub(crate) struct Wait<B> {
    pub(crate) nic: u8,
    pub(crate) ip: u32,
    requests: u32,
    due: u64,
    pub(crate) held: ArrayVec<Held<B>, MAX_HELD>,
}

/// What is due for a neighbour.
pub(crate) enum Due<B> {
    /// A further request.
    Ask { nic: u8, ip: u32 },
    /// It did not answer: its packets, which will not leave.
    GiveUp(ArrayVec<Held<B>, MAX_HELD>),
}

/// What became of a packet that was to be held.
pub(crate) enum Holding<B> {
    /// It waits, and the neighbour has been asked for already.
    Waits,
    /// It waits, and the neighbour must be asked for.
    Ask,
    /// It waits instead of this older one.
    Replaced(Held<B>),
    /// The neighbour did not answer a moment ago.
    Unreachable(Held<B>),
    /// Too many neighbours are asked for.
    Full(Held<B>),
}

/// All neighbours that one router asks for.
pub(crate) struct Pending<B> {
    waits: ArrayVec<Wait<B>, MAX_PENDING>,
}

impl<B> Pending<B> {
    pub(crate) const fn new() -> Self {
        Self { waits: ArrayVec::new_const() }
    }

    /// Packets that wait, and how many of them the router created itself.
    pub(crate) fn held(&self) -> (usize, usize) {
        let held = self.waits.iter().flat_map(|wait| &wait.held);
        held.fold((0, 0), |(all, own), packet| (all + 1, own + usize::from(packet.origin == Origin::Own)))
    }

    /// Whether the neighbour is asked for, or was in vain a moment ago.
    pub(crate) fn contains(&self, nic: u8, ip: u32) -> bool {
        self.waits.iter().any(|wait| (wait.nic, wait.ip) == (nic, ip))
    }

    /// Lets a packet wait for a neighbour.
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
        self.waits.push(Wait { nic, ip, requests: 1, due: now.saturating_add(RETRANSMIT), held });
        Holding::Ask
    }

    /// Makes room by forgetting a neighbour that did not answer; false if there is none.
    fn forget_one(&mut self) -> bool {
        let given_up = self.waits.iter().position(|wait| wait.requests > REQUESTS);
        given_up.map(|at| self.waits.swap_remove(at)).is_some()
    }

    /// Ends the waiting for one neighbour that is known now.
    pub(crate) fn take_known(&mut self, known: impl Fn(u8, u32) -> bool) -> Option<Wait<B>> {
        let at = self.waits.iter().position(|wait| known(wait.nic, wait.ip))?;
        Some(self.waits.swap_remove(at))
    }

    /// When something will be due, in milliseconds; `None` if nothing waits.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.waits.iter().map(|wait| wait.due).min()
    }

    /// One thing that is due now.
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
