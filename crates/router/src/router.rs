//! One router: its state, its passes and its timers.

use arrayvec::ArrayVec;
use frame::{Mac, arp};
use ledger::{Counter, RouterCounters, VlanCounters};

use crate::adjacency::Adjacencies;
use crate::config::{Config, MAX_NICS, Nic, RouterResources};
use crate::group::Failures;
use crate::ip::Ip;
use crate::neighbours::{Ageing, GivenList, MOST_GIVEN, Neighbours, REACHABLE};
use crate::pending::{Due, Pending};
use crate::platform::{Buffer, Burst, Platform};
use crate::reassembly::Reassembly;
use crate::reverse_path::ReversePath;
use crate::routes::{Routes, Routes6};
use crate::slow::Origin;
use crate::sources::OwnSourceFilter;
use crate::tags::Places;

/// Passes between two reads of the clock.
const CLOCK_EVERY: u32 = 64;
/// Milliseconds between the two announcements of an IPv4 address (RFC 5227, 1.1: ANNOUNCE_NUM, ANNOUNCE_INTERVAL).
const ANNOUNCE_INTERVAL: u64 = 2000;

/// Memory for the packets of one router that wait: for neighbours, or for other fragments. About 30 KiB.
pub struct Waiting<B> {
    pub(crate) pending: Pending<B>,
    pub(crate) failures: Failures,
    pub(crate) reassembly: Reassembly<B>,
}

impl<B> Default for Waiting<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Waiting<B> {
    /// Creates empty queues.
    pub const fn new() -> Self {
        Self { pending: Pending::new(), failures: Failures::new(), reassembly: Reassembly::new() }
    }
}

/// A router. It runs on one vCPU or thread; state shared with others is in [`RouterResources`]. About 38 KiB, most
/// of it the bursts of NICs that it may have.
pub struct Router<'a, B, R> {
    /// The interfaces: NICs, then VLANs of them.
    pub(crate) nics: &'a mut [Nic],
    /// Number of NICs.
    pub(crate) ports: usize,
    pub(crate) places: Places,
    pub(crate) sources: OwnSourceFilter,
    pub(crate) routes: R,
    pub(crate) neighbours: &'a Neighbours<'a>,
    pub(crate) adjacencies: &'a mut Adjacencies,
    pub(crate) counters: &'a RouterCounters,
    /// Counters of the VLANs, the first of which is the interface after the NICs.
    pub(crate) vlans: &'a [VlanCounters],
    /// Frames to be sent at the end of the pass, by NIC.
    pub(crate) out: [Burst<B>; MAX_NICS],
    pub(crate) waiting: &'a mut Waiting<B>,
    /// Entries of `adjacencies` of another generation are stale.
    pub(crate) generation: u32,
    seen_neighbours: u32,
    seen_arrivals: u32,
    seen_routes: u32,
    seen_routes6: u32,
    seen_hurries: u32,
    pub(crate) answers_arp: bool,
    pub(crate) keeper: bool,
    announced: bool,
    /// Time in milliseconds at which its IPv4 addresses are announced for the second time.
    announce_again: Option<u64>,
    /// Time in milliseconds, as of the last read of the clock.
    pub(crate) now: u64,
    pub(crate) passes: u32,
    /// Number of passes at the first tick that came too late for an address that is tried, or for the end of a resolution.
    pub(crate) late: Option<u32>,
    ageing: Ageing,
    ageing_due: Option<u64>,
    /// For each cable, how often it had been pulled out or plugged in at the last check.
    plug_counts: [u32; MAX_NICS],
    /// The static neighbours that it was given last, and the number of that list.
    given: GivenList,
    given_version: u32,
    pub(crate) identification: u16,
    /// Interfaces at which IPv6 frames, or frames with VLAN tags, were seen lately, as bits.
    pub(crate) mixed: u64,
    /// Interfaces with a filter of sources, as bits.
    pub(crate) checked: u64,
    /// State of the pseudo-random numbers that spread timers.
    seed: u64,
    /// Seed of the hash of flows, which all vCPUs of a router have in common.
    pub(crate) flow_seed: u64,
    pub(crate) redirects: bool,
    pub(crate) shares_addresses: bool,
    pub(crate) table: u8,
}

impl<'a, B: Buffer, R: Routes> Router<'a, B, R> {
    /// Creates a router that knows its NICs, routes and static neighbours.
    pub fn new(config: &Config<'_>, parts: RouterResources<'a, B, R>) -> Self {
        // Entries left by an earlier router in the same memory must not seem valid.
        parts.adjacencies.clear();
        let nics = parts.interfaces.fill(config.interfaces);
        let ports = nics.iter().take_while(|own| own.is_port()).count();
        let seed = frame::flow::seed(config.interfaces.iter().map(|own| own.mac));
        let checks = |own: &Nic| u64::from(own.reverse_path != ReversePath::Off);
        Self {
            checked: nics.iter().zip(0..).fold(0, |bits, (own, nic)| bits | checks(own) << nic),
            places: Places::new(nics),
            sources: OwnSourceFilter::new(nics),
            nics,
            ports: ports.min(MAX_NICS),
            seen_neighbours: parts.neighbours.generation(),
            seen_arrivals: parts.neighbours.arrivals(),
            seen_routes: parts.routes.epoch(),
            seen_routes6: parts.routes.six().epoch(),
            seen_hurries: parts.neighbours.hurries(),
            routes: parts.routes,
            neighbours: parts.neighbours,
            adjacencies: parts.adjacencies,
            counters: parts.counters,
            vlans: parts.vlans,
            out: [const { ArrayVec::new_const() }; MAX_NICS],
            waiting: parts.waiting,
            generation: 1,
            answers_arp: config.answers_arp,
            keeper: config.keeper,
            announced: false,
            announce_again: None,
            now: 0,
            passes: 0,
            late: None,
            ageing: Ageing::default(),
            ageing_due: None,
            plug_counts: [0; MAX_NICS],
            given: [None; MOST_GIVEN],
            given_version: 0,
            identification: 0,
            mixed: 0,
            redirects: config.redirects,
            shares_addresses: config.shares_addresses,
            table: config.table,
            seed,
            flow_seed: seed,
        }
    }

    /// Makes one pass over all NICs: takes a burst from each, and sends. Returns how many frames arrived.
    pub fn poll<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        self.begin_pass(platform);
        let mut frames = 0;
        for nic in 0..self.ports {
            frames += self.serve(platform, nic);
        }
        self.flush(platform);
        self.counters.polls.add(1);
        if frames == 0 {
            self.counters.polls_empty.add(1);
        }
        frames
    }

    /// Makes one pass over some NICs, given as bits: others belong to other routers on the same platform. Does not count it.
    pub fn poll_some<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut nics: u32) -> usize {
        self.begin_pass(platform);
        let mut frames = 0;
        while nics != 0 {
            frames += self.serve(platform, nics.trailing_zeros() as usize % MAX_NICS);
            nics &= nics - 1;
        }
        self.flush(platform);
        frames
    }

    /// Handles frames that NIC `nic` has received, and that the platform has sorted out for this router ([`crate::Trunks`]). The
    /// burst is empty afterwards. [`Router::poll_some`] keeps the time.
    pub fn take<P: Platform<Buffer = B>>(&mut self, platform: &mut P, nic: usize, burst: &mut Burst<B>) {
        self.keep_up(platform);
        self.handle(platform, nic, burst);
        self.flush(platform);
    }

    /// Reads the clock from time to time, and notices changes.
    #[inline(always)]
    fn begin_pass<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        if self.passes.is_multiple_of(CLOCK_EVERY) {
            self.tick(platform);
        }
        self.passes = self.passes.wrapping_add(1);
        self.keep_up(platform);
    }

    /// Reads the clock and handles timers: repeats requests, gives up neighbours, keeps neighbours fresh.
    /// [`Router::poll`] calls it every 64 passes; call it after a sleep.
    #[inline(never)]
    pub fn tick<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        self.now = platform.now();
        if self.keeper {
            self.follow_cables(platform);
            self.follow_given(platform);
        }
        // Changes during a sleep must be noticed now, because the timers below look routes up.
        self.notice_changes();
        if !self.announced {
            self.announced = true;
            self.announce(platform);
        }
        if self.announce_again.is_some_and(|due| due <= self.now) {
            self.announce_again = None;
            self.announce_four(platform);
        }
        let listens_first = self.listen_first_if_late();
        while let Some(due) = self.waiting.pending.next_due(self.now, listens_first) {
            match due {
                Due::Ask((nic, ip)) => self.ask_for(platform, nic, (ip, Mac::BROADCAST)),
                Due::GiveUp(target, held) => {
                    self.counters.neighbours_failed.add(1);
                    held.into_iter().for_each(|packet| self.give_up(platform, target, packet));
                }
            }
        }
        self.retry_failures(platform);
        if self.keeper && self.neighbours.hurries() != self.seen_hurries {
            self.seen_hurries = self.neighbours.hurries();
            self.ageing.hurry();
            self.ageing_due = Some(self.now);
        }
        if self.ageing_due.is_some_and(|due| due <= self.now) {
            self.age_neighbours(platform);
        }
        self.expire_parts(platform);
        self.tick6(platform, listens_first);
        self.flush(platform);
    }

    /// Returns the milliseconds until [`Router::tick`] has work to do, counted from the router's last read of the
    /// clock; `None` if it need not be called before a frame arrives.
    pub fn next_deadline(&self) -> Option<u64> {
        let due = [
            self.waiting.pending.deadline(),
            self.waiting.failures.deadline(),
            self.ageing_due,
            self.waiting.reassembly.deadline(),
            self.announce_again,
            self.deadline6(),
        ]
        .into_iter()
        .flatten()
        .min()?;
        Some(due.saturating_sub(self.now))
    }

    /// Returns the epoch of the routes that the last pass used: numbers retired before it can be reused.
    pub fn routes_epoch(&self) -> u32 {
        self.seen_routes
    }

    /// Returns how many received packets wait, for a neighbour or for other fragments, and are in no counter yet.
    pub fn held(&self) -> usize {
        let (all, own) = self.waiting.pending.held();
        all - own + self.waiting.reassembly.held()
    }

    /// Returns how many packets that the router created wait for a neighbour.
    pub fn held_own(&self) -> usize {
        self.waiting.pending.held().1
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
        let routes =
            self.routes.epoch() != self.seen_routes || self.routes.six().epoch() != self.seen_routes6;
        if self.neighbours.generation() != self.seen_neighbours || routes {
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
        self.seen_routes6 = self.routes.six().epoch();
        self.generation = self.generation.wrapping_add(1).max(1);
    }

    /// Sends packets whose neighbours have become known.
    #[cold]
    #[inline(never)]
    fn release<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        self.seen_arrivals = self.neighbours.arrivals();
        if self.keeper {
            self.ageing_due = earlier(self.ageing_due, self.now.saturating_add(REACHABLE));
        }
        let neighbours = self.neighbours;
        let known = |nic: u8, ip: Ip| neighbours.find(nic, ip).is_some();
        while let Some(((nic, _), packets)) = self.waiting.pending.take_known(known) {
            for packet in packets {
                self.route_again(platform, packet, nic);
            }
        }
    }

    fn age_neighbours<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        let (neighbours, mut ageing) = (self.neighbours, self.ageing);
        self.ageing_due = neighbours.age(&mut ageing, self.now, &mut |neighbour| {
            self.ask_for(platform, neighbour.nic, (neighbour.ip, neighbour.mac));
        });
        self.ageing = ageing;
    }

    /// Marks the neighbours behind cables whose carrier was lost, or is back, as doubtful, so that they are probed at once.
    fn follow_cables<P: Platform<Buffer = B>>(&mut self, platform: &P) {
        for port in 0..self.ports {
            let plug_count = platform.plug_count(port);
            if plug_count != self.plug_counts[port] && self.mark_doubtful(port) {
                self.plug_counts[port] = plug_count;
                self.ageing.hurry();
                self.ageing_due = Some(self.now);
            }
        }
    }

    /// Takes over the static neighbours that it is given, in place of those that it was given before.
    fn follow_given<P: Platform<Buffer = B>>(&mut self, platform: &P) {
        if platform.given_version() == self.given_version {
            return;
        }
        let mut list = [None; MOST_GIVEN];
        let Some(version) = platform.read_given(&mut list) else { return };
        if self.neighbours.exchange_static(&self.given, &list) {
            (self.given, self.given_version) = (list, version);
        }
    }

    /// Marks the neighbours of all interfaces of a NIC as doubtful; returns false if that has to be done again.
    fn mark_doubtful(&mut self, port: usize) -> bool {
        let mut done = true;
        for (nic, own) in self.nics.iter_mut().enumerate().filter(|(_, own)| usize::from(own.port) == port) {
            done &= self.neighbours.mark_doubtful(nic as u8, self.now);
            // A switch at the other end does not know the groups.
            own.six.report_due = own.six.is_on().then_some(self.now);
        }
        done
    }

    /// Announces the router's own IPv4 addresses for the first time, and begins the detection of IPv6 duplicates.
    fn announce<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        self.announce_four(platform);
        let has_some = self.keeper && self.nics.iter().any(|own| !own.addresses.is_empty());
        self.announce_again = has_some.then_some(self.now.saturating_add(ANNOUNCE_INTERVAL));
        self.announce6(platform);
    }

    /// Announces the router's own IPv4 addresses (RFC 5227, 2.3).
    fn announce_four<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        let announcing = if self.keeper { self.nics.len() } else { 0 };
        for nic in 0..announcing {
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

    /// Returns a pseudo-random number below `most`, which is not 0 (splitmix64).
    pub(crate) fn random(&mut self, most: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ self.now.rotate_left(17);
        let mixed = (self.seed ^ self.seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 31) % most
    }

    /// Puts a complete frame into the burst of a NIC, with the tags of its interface; counts it by its origin.
    #[inline(always)]
    pub(crate) fn send<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: usize,
        mut buffer: B,
        origin: Origin,
    ) {
        let Some(nic) = self.port_of(nic, &mut buffer) else {
            return self.discard(platform, buffer, origin, &self.counters.drop_tag);
        };
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
        for (nic, burst) in self.out.iter_mut().enumerate().take(self.ports) {
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

/// Returns the earlier of two times.
fn earlier(due: Option<u64>, other: u64) -> Option<u64> {
    Some(due.map_or(other, |due| due.min(other)))
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
