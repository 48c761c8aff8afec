//! One router: its state, its passes and its timers.

use arrayvec::ArrayVec;
use frame::{Mac, arp};
use ledger::{Counter, RouterCounters};

use crate::adjacency::Adjacencies;
use crate::arp::ArpRequest;
use crate::config::{Config, MAX_NICS, Nic, RouterResources};
use crate::neighbours::Neighbours;
use crate::pending::{Due, Pending};
use crate::platform::{Buffer, Burst, Platform};
use crate::routes::Routes;
use crate::slow::Origin;
use crate::sources::OwnSourceFilter;

/// Passes between two reads of the clock.
const CLOCK_EVERY: u32 = 64;

/// A router. It runs on one vCPU or thread; state shared with others is in [`RouterResources`]. About 20 KiB.
pub struct Router<'a, B, R> {
    pub(crate) nics: ArrayVec<Nic, MAX_NICS>,
    pub(crate) sources: OwnSourceFilter,
    pub(crate) routes: R,
    pub(crate) neighbours: &'a Neighbours,
    pub(crate) adjacencies: &'a mut Adjacencies,
    pub(crate) counters: &'a RouterCounters,
    /// Frames to be sent at the end of the pass, by NIC.
    pub(crate) out: [Burst<B>; MAX_NICS],
    pub(crate) pending: Pending<B>,
    /// Entries of `adjacencies` of another generation are stale.
    pub(crate) generation: u32,
    seen_neighbours: u32,
    seen_arrivals: u32,
    seen_routes: u32,
    pub(crate) answers_arp: bool,
    keeper: bool,
    announced: bool,
    /// Time in milliseconds, as of the last read of the clock.
    pub(crate) now: u64,
    passes: u32,
    ageing_due: Option<u64>,
    /// For each cable, how often it had been plugged in at the last check.
    plug_counts: [u32; MAX_NICS],
    pub(crate) identification: u16,
}

impl<'a, B: Buffer, R: Routes> Router<'a, B, R> {
    /// Creates a router that knows its NICs, routes and static neighbours.
    pub fn new(config: &Config<'_>, parts: RouterResources<'a, R>) -> Self {
        // Entries left by an earlier router in the same memory must not seem valid.
        parts.adjacencies.clear();
        let nics: ArrayVec<Nic, MAX_NICS> = config.interfaces.iter().take(MAX_NICS).map(Nic::new).collect();
        Self {
            sources: OwnSourceFilter::new(&nics),
            nics,
            seen_neighbours: parts.neighbours.generation(),
            seen_arrivals: parts.neighbours.arrivals(),
            seen_routes: parts.routes.epoch(),
            routes: parts.routes,
            neighbours: parts.neighbours,
            adjacencies: parts.adjacencies,
            counters: parts.counters,
            out: [const { ArrayVec::new_const() }; MAX_NICS],
            pending: Pending::new(),
            generation: 1,
            answers_arp: config.answers_arp,
            keeper: config.keeper,
            announced: false,
            now: 0,
            passes: 0,
            ageing_due: None,
            plug_counts: [0; MAX_NICS],
            identification: 0,
        }
    }

    /// Makes one pass over all NICs: takes a burst from each, and sends. Returns how many frames arrived.
    pub fn poll<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        if self.passes.is_multiple_of(CLOCK_EVERY) {
            self.tick(platform);
        }
        self.passes = self.passes.wrapping_add(1);
        self.keep_up(platform);
        let mut frames = 0;
        for nic in 0..self.nics.len() {
            frames += self.serve(platform, nic);
        }
        self.flush(platform);
        self.counters.polls.add(1);
        if frames == 0 {
            self.counters.polls_empty.add(1);
        }
        frames
    }

    /// Reads the clock and handles timers: repeats requests, gives up neighbours, keeps neighbours fresh.
    /// [`Router::poll`] calls it every 64 passes; call it after a sleep.
    pub fn tick<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        self.now = platform.now();
        if self.keeper {
            self.follow_cables(platform);
        }
        // Changes during a sleep must be noticed now, because the timers below look routes up.
        self.notice_changes();
        if !self.announced {
            self.announced = true;
            self.announce(platform);
        }
        while let Some(due) = self.pending.next_due(self.now) {
            match due {
                Due::Ask { nic, ip } => self.ask(platform, &ArpRequest { nic, ip, to: Mac::BROADCAST }),
                Due::GiveUp(held) => {
                    held.into_iter().for_each(|packet| self.unreachable(platform, packet));
                }
            }
        }
        if self.ageing_due.is_some_and(|due| due <= self.now) {
            self.age_neighbours(platform);
        }
        self.flush(platform);
    }

    /// Returns the milliseconds until [`Router::tick`] has work to do, counted from the router's last read of the
    /// clock; `None` if it need not be called before a frame arrives.
    pub fn next_deadline(&self) -> Option<u64> {
        let due = match (self.pending.deadline(), self.ageing_due) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(due.saturating_sub(self.now))
    }

    /// Returns the epoch of the routes that the last pass used: numbers retired before it can be reused.
    pub fn routes_epoch(&self) -> u32 {
        self.seen_routes
    }

    /// Returns how many received packets wait for a neighbour and are in no counter yet.
    pub fn held(&self) -> usize {
        let (all, own) = self.pending.held();
        all - own
    }

    /// Returns how many packets that the router created wait for a neighbour.
    pub fn held_own(&self) -> usize {
        self.pending.held().1
    }

    /// Checks whether neighbours or routes have changed, by this or by another vCPU.
    #[inline(always)]
    pub(crate) fn keep_up<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        self.notice_changes();
        if self.neighbours.arrivals() != self.seen_arrivals {
            self.release(platform);
        }
    }

    #[inline(always)]
    fn notice_changes(&mut self) {
        if self.neighbours.generation() != self.seen_neighbours || self.routes.epoch() != self.seen_routes {
            self.refresh();
        }
    }

    /// Invalidates the headers prepared from older neighbours and routes.
    #[cold]
    #[inline(never)]
    fn refresh(&mut self) {
        // Read before the data that they guard, so that a change in between is noticed in the next pass.
        self.seen_neighbours = self.neighbours.generation();
        self.seen_routes = self.routes.epoch();
        self.generation = self.generation.wrapping_add(1).max(1);
    }

    /// Sends packets whose neighbours have become known.
    #[cold]
    #[inline(never)]
    fn release<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        self.seen_arrivals = self.neighbours.arrivals();
        if self.keeper {
            // The next tick computes when the new ones must be confirmed.
            self.ageing_due = Some(self.now);
        }
        let neighbours = self.neighbours;
        while let Some(wait) = self.pending.take_known(|nic, ip| neighbours.find(nic, ip).is_some()) {
            for packet in wait.held {
                self.route(platform, packet.buffer, packet.origin);
            }
        }
    }

    fn age_neighbours<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        let neighbours = self.neighbours;
        self.ageing_due = neighbours.age(self.now, &mut |neighbour| {
            self.ask(platform, &ArpRequest { nic: neighbour.nic, ip: neighbour.ip, to: neighbour.mac });
        });
    }

    /// Marks the neighbours behind cables that were plugged in again as doubtful, so that they are probed.
    fn follow_cables<P: Platform<Buffer = B>>(&mut self, platform: &P) {
        for nic in 0..self.nics.len() {
            let plug_count = platform.plug_count(nic);
            if plug_count != self.plug_counts[nic] && self.neighbours.mark_doubtful(nic as u8, self.now) {
                self.plug_counts[nic] = plug_count;
                self.ageing_due = Some(self.now);
            }
        }
    }

    /// Announces the router's own addresses (RFC 5227, 2.3).
    fn announce<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        if !self.keeper {
            return;
        }
        for nic in 0..self.nics.len() {
            let own = &self.nics[nic];
            let (mac, addresses) = (own.mac, own.addresses.clone());
            for address in addresses {
                let packet = arp::Packet {
                    operation: arp::Operation::Request,
                    sender_mac: mac,
                    sender_ip: address.ip,
                    target_mac: Mac::default(),
                    target_ip: address.ip,
                };
                self.originate_arp(platform, nic, Mac::BROADCAST, &packet);
            }
        }
    }

    /// Puts a complete frame into the burst of a NIC; counts it by its origin.
    #[inline(always)]
    pub(crate) fn send<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: usize,
        buffer: B,
        origin: Origin,
    ) {
        match origin {
            Origin::Received(_) => self.counters.forwarded.add(1),
            Origin::Own | Origin::Part => self.counters.originated.add(1),
        }
        self.append(platform, nic, buffer);
    }

    /// Puts a frame into the burst of a NIC.
    #[inline(always)]
    pub(crate) fn append<P: Platform<Buffer = B>>(&mut self, platform: &mut P, nic: usize, buffer: B) {
        let burst = &mut self.out[nic % MAX_NICS];
        if let Err(refused) = burst.try_push(buffer) {
            append_to_full(platform, nic, burst, refused.element());
        }
    }

    /// Sends all bursts.
    #[inline(always)]
    fn flush<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        for (nic, burst) in self.out.iter_mut().enumerate().take(self.nics.len()) {
            if !burst.is_empty() {
                platform.transmit(nic, burst);
            }
        }
    }

    /// Counts a packet that cannot be sent as dropped, and frees its buffer. Packets that the router created are not
    /// among the received frames, so they have a counter of their own.
    pub(crate) fn discard<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: B,
        origin: Origin,
        cause: &Counter,
    ) {
        match origin {
            Origin::Received(_) => cause.add(1),
            Origin::Own | Origin::Part => self.counters.originated_lost.add(1),
        }
        platform.free(buffer);
    }
}

/// Sends a full burst and starts the next one.
#[cold]
#[inline(never)]
fn append_to_full<P: Platform>(
    platform: &mut P,
    nic: usize,
    burst: &mut Burst<P::Buffer>,
    buffer: P::Buffer,
) {
    platform.transmit(nic, burst);
    // A platform that leaves frames in the burst violates its contract; that is not worth a panic.
    if let Err(refused) = burst.try_push(buffer) {
        platform.free(refused.element());
    }
}
