//! Groups of next hops: the flow of a packet selects one (`frame::flow`), and next hops whose neighbours do not answer are
//! avoided.
//!
//! The route table has the choices of each flow in their order, and its writer marks those that are down. A neighbour that does
//! not answer is known here first: until the writer has marked it, which the platform is told, its packets take the slow path,
//! which avoids it. It is asked for from time to time, and used again once it answers.

use arrayvec::ArrayVec;
use frame::{Mac, ethernet, flow};

use crate::adjacency::Adjacency;
use crate::ip::Ip;
use crate::pending::{Held, Target};
use crate::platform::{Buffer, HEAD, Platform};
use crate::router::Router;
use crate::routes::{CHOICES, NextHop, Routes, Routes6};

/// Maximum number of failed next hops that are avoided at a time; others are asked for again and again.
const MOST: usize = 64;
/// Milliseconds between requests for a neighbour that did not answer.
const RETRY: u64 = 5000;
const _: () = assert!(HEAD == flow::LOOK);

/// A next hop, by its number in one of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered {
    six: bool,
    number: u32,
}

/// A next hop whose neighbour does not answer.
struct Failure {
    hop: Numbered,
    target: Target,
    /// Time in milliseconds at which it is asked for again.
    due: u64,
}

/// The next hops of groups that are avoided.
pub(crate) struct Failures(ArrayVec<Failure, MOST>);

impl Failures {
    pub(crate) const fn new() -> Self {
        Self(ArrayVec::new_const())
    }

    /// Returns true if a neighbour is the next hop that has failed.
    pub(crate) fn contains(&self, target: Target) -> bool {
        self.0.iter().any(|failure| failure.target == target)
    }

    /// Returns when the next request is due, in milliseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.0.iter().map(|failure| failure.due).min()
    }

    fn has(&self, hop: Numbered) -> bool {
        self.0.iter().any(|failure| failure.hop == hop)
    }

    /// Returns the first choice that has not failed, else the first one.
    fn select(&self, six: bool, choices: [u32; CHOICES]) -> u32 {
        let usable = |number: &u32| *number != 0 && !self.has(Numbered { six, number: *number });
        choices.into_iter().find(usable).unwrap_or(choices[0])
    }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Returns the hash of a packet's flow.
    #[inline(always)]
    pub(crate) fn flow(&self, buffer: &mut B) -> u32 {
        flow::hash(buffer.head(), self.flow_seed)
    }

    /// Returns the next hop of an IPv4 packet: of a group the one that its flow has.
    pub(crate) fn select(&mut self, hop: u32, buffer: &mut B) -> u32 {
        if self.routes.next_hop(hop) != NextHop::Group {
            return hop;
        }
        self.adjacencies.keep_hop(hop, self.generation, Adjacency::group());
        let choices = self.routes.members(hop, self.flow(buffer));
        self.waiting.failures.select(false, choices)
    }

    /// Returns the next hop of an IPv6 packet: of a group the one that its flow has.
    pub(crate) fn select6(&mut self, hop: u32, buffer: &mut B) -> u32 {
        let table = self.routes.six();
        if table.next_hop(hop) != NextHop::Group {
            return hop;
        }
        self.adjacencies.keep_hop6(hop, self.generation, Adjacency::group());
        let choices = table.members(hop, self.flow(buffer));
        self.waiting.failures.select(true, choices)
    }

    /// Handles a packet whose neighbour did not answer: it takes another next hop of its group, if there is one.
    pub(crate) fn give_up<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        target: Target,
        mut packet: Held<B>,
    ) {
        if self.avoid(platform, target, &mut packet.buffer) {
            self.route_again(platform, packet, target.0);
        } else {
            self.unreachable(platform, packet);
        }
    }

    /// Records that a next hop of a packet's group has failed; returns true if there is another one for the packet.
    fn avoid<P: Platform<Buffer = B>>(&mut self, platform: &mut P, target: Target, buffer: &mut B) -> bool {
        let Some((six, choices, failed)) = self.choices_of(buffer, target) else { return false };
        let hop = Numbered { six, number: failed };
        if !self.waiting.failures.has(hop) {
            let failure = Failure { hop, target, due: self.now.saturating_add(RETRY) };
            if self.waiting.failures.0.try_push(failure).is_err() {
                return false;
            }
            platform.report_next_hop(self.table, six, failed, false);
        }
        let other = self.waiting.failures.select(six, choices);
        !self.waiting.failures.has(Numbered { six, number: other })
    }

    /// Returns the choices of a packet whose route has a group, by table and numbers, and which of them leads to a neighbour.
    fn choices_of(&self, buffer: &mut B, target: Target) -> Option<(bool, [u32; CHOICES], u32)> {
        let hash = self.flow(buffer);
        let octets = buffer.octets().get(ethernet::HEADER..)?;
        let leads_there = |next: NextHop, to: Ip| next.neighbour(to) == Some(target);
        if let Ok(packet) = frame::ipv4::Packet::parse_quoted(octets) {
            let to = packet.header().destination;
            let hop = self.routes.lookup(to);
            let choices =
                (self.routes.next_hop(hop) == NextHop::Group).then(|| self.routes.members(hop, hash))?;
            let at = |number: &u32| leads_there(self.routes.next_hop(*number), Ip::v4(to));
            return Some((false, choices, choices.into_iter().find(at)?));
        }
        let table = self.routes.six();
        let to = frame::ipv6::Packet::parse_quoted(octets).ok()?.header().destination;
        let hop = table.lookup(to);
        let choices = (table.next_hop(hop) == NextHop::Group).then(|| table.members(hop, hash))?;
        let at = |number: &u32| leads_there(table.next_hop(*number), Ip::v6(to));
        Some((true, choices, choices.into_iter().find(at)?))
    }

    /// Uses failed next hops again that have answered or are of no group any more, and asks for the others from time to time.
    pub(crate) fn retry_failures<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        while let Some(at) = self.waiting.failures.0.iter().position(|failure| self.is_over(failure)) {
            let Numbered { six, number } = self.waiting.failures.0.remove(at).hop;
            platform.report_next_hop(self.table, six, number, true);
        }
        let now = self.now;
        while let Some(failure) = self.waiting.failures.0.iter_mut().find(|failure| failure.due <= now) {
            failure.due = now.saturating_add(RETRY);
            let (nic, ip) = failure.target;
            self.ask_for(platform, nic, (ip, Mac::BROADCAST));
        }
    }

    fn is_over(&self, failure: &Failure) -> bool {
        let (nic, ip) = failure.target;
        let number = failure.hop.number;
        let next = match failure.hop.six {
            true => self.routes.six().next_hop(number),
            false => self.routes.next_hop(number),
        };
        self.neighbours.find(nic, ip).is_some() || next.neighbour(ip) != Some(failure.target)
    }

    /// Returns true if a neighbour is being asked for, by this or by another vCPU, so that its answer is worth learning.
    pub(crate) fn is_awaited(&self, nic: u8, ip: Ip) -> bool {
        let is_own = self.waiting.pending.contains(nic, ip) || self.waiting.failures.contains((nic, ip));
        is_own || self.neighbours.was_asked(nic, ip)
    }
}
