//! A simulated platform with a scripted clock, and a router with three NICs on it.
//!
//! ```text
//! nic 0  10.0.0.1/24  MTU 1500   static neighbour 10.0.0.2
//! nic 1  10.0.1.1/24  MTU 1500   static neighbour 10.0.1.2
//! nic 2  10.0.2.1/24  MTU 576    static neighbour 10.0.2.2
//! ```

use std::cell::Cell;
use std::collections::VecDeque;

use frame::offload::Offload;
use frame::{Mac, arp, ethernet, icmp, ipv4, udp};
use ledger::{Group, RouterCounters, VlanCounters};
use router::{
    Address, Address6, Adjacencies, Advertise, Bucket, Buffer, Burst, CHOICES, Config, HEAD, Interface,
    Interfaces, Ip, Neighbour, Neighbours, NextHop, Platform, Refusal, ReversePath, Router, RouterResources,
    Routes, Routes6, Vlan,
};

/// Capacity of a buffer in octets.
const CAPACITY: usize = 2048;

/// A frame buffer; a longer frame consists of several.
pub(crate) struct Octets {
    pieces: Box<Pieces>,
    len: usize,
}

struct Pieces {
    first: [u8; CAPACITY],
    further: Vec<u8>,
    offload: Offload,
    /// Whether a frame cannot become longer.
    cramped: bool,
}

impl Octets {
    pub(crate) fn new(frame: &[u8], offload: Offload) -> Self {
        // Stale octets after a short frame, as in a reused buffer.
        let (here, further) = frame.split_at(frame.len().min(CAPACITY));
        let mut first = [0xee; CAPACITY];
        first[..here.len()].copy_from_slice(here);
        let pieces = Pieces { first, further: further.to_vec(), offload, cramped: false };
        Self { pieces: Box::new(pieces), len: frame.len() }
    }

    fn whole(&self) -> Vec<u8> {
        let mut whole = [&self.pieces.first[..], &self.pieces.further].concat();
        whole.truncate(self.len);
        whole
    }
}

impl Buffer for Octets {
    fn head(&mut self) -> &mut [u8; HEAD] {
        self.pieces.first.first_chunk_mut().unwrap()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn set_len(&mut self, octets: usize) {
        self.len = octets.min(CAPACITY + self.pieces.further.len());
    }
    fn octets(&mut self) -> &mut [u8] {
        &mut self.pieces.first[..self.len.min(CAPACITY)]
    }
    fn read(&mut self, at: usize, target: &mut [u8]) -> bool {
        let found = self.whole().get(at..at + target.len()).map(|octets| target.copy_from_slice(octets));
        found.is_some()
    }
    fn wire_len(&self) -> usize {
        router::offload::wire_len(&self.pieces.first[..self.len.min(CAPACITY)], self.pieces.offload, self.len)
    }
    fn offload(&self) -> Offload {
        self.pieces.offload
    }
    fn clear_offload(&mut self) {
        self.pieces.offload = Offload::NONE;
    }
    fn set_offload(&mut self, offload: Offload) {
        self.pieces.offload = offload;
    }
    fn take_out(&mut self, at: usize, octets: usize) -> bool {
        let (mut whole, cramped) = (self.whole(), self.pieces.cramped);
        let Some(offload) = self.pieces.offload.moved(-(octets as i16)) else { return false };
        if at + octets > whole.len() {
            return false;
        }
        whole.drain(at..at + octets);
        *self = Self::new(&whole, offload);
        self.pieces.cramped = cramped;
        true
    }
    fn make_room(&mut self, at: usize, octets: usize) -> bool {
        let mut whole = self.whole();
        let Some(offload) = self.pieces.offload.moved(octets as i16) else { return false };
        if self.pieces.cramped || at > whole.len() {
            return false;
        }
        drop(whole.splice(at..at, std::iter::repeat_n(0xee, octets)));
        *self = Self::new(&whole, offload);
        true
    }
    fn prefetch(&self) {}
}

/// The simulated platform.
pub(crate) struct World {
    pub(crate) rx: Vec<VecDeque<Vec<u8>>>,
    pub(crate) tx: Vec<Vec<Vec<u8>>>,
    pub(crate) now: u64,
    /// Number of buffers that `allocate` still returns.
    pub(crate) free: usize,
    /// Number of buffers that the router holds.
    pub(crate) out: usize,
    /// Number of frames given to the router.
    pub(crate) received: u64,
    /// Offload metadata of the frames given to the router.
    pub(crate) order: Offload,
    /// Offload metadata of the frames sent last.
    pub(crate) left: Vec<Offload>,
    /// For each cable, how often it was plugged in again.
    pub(crate) plugged: Vec<u32>,
    /// Stations that claimed an address of the router: NIC, address, station.
    pub(crate) claims: Vec<(usize, u32, Mac)>,
    /// Stations that claimed an IPv6 address of the router: NIC, address, station.
    pub(crate) claims6: Vec<(usize, u128, Mac)>,
    /// Next hops of groups that were not reached, or were again: whether it is one for IPv6, number, state.
    pub(crate) next_hops: Vec<(bool, u32, bool)>,
    /// Neighbours that whoever writes the table was asked for: NIC, address.
    pub(crate) asked: Vec<(u8, u32)>,
    /// Whether the buffers of frames given to the router have no room for tags.
    pub(crate) cramped: bool,
}

impl World {
    pub(crate) fn new(nics: usize) -> Self {
        Self {
            rx: vec![VecDeque::new(); nics],
            tx: vec![Vec::new(); nics],
            now: 1_000_000,
            free: usize::MAX,
            out: 0,
            received: 0,
            order: Offload::NONE,
            left: Vec::new(),
            plugged: vec![0; nics],
            claims: Vec::new(),
            claims6: Vec::new(),
            next_hops: Vec::new(),
            asked: Vec::new(),
            cramped: false,
        }
    }

    /// Returns the frames sent by a NIC since the last call.
    pub(crate) fn sent(&mut self, nic: usize) -> Vec<Vec<u8>> {
        self.left.clear();
        std::mem::take(&mut self.tx[nic])
    }
}

impl Platform for World {
    type Buffer = Octets;

    fn nics(&self) -> usize {
        self.rx.len()
    }

    fn receive(&mut self, nic: usize, burst: &mut Burst<Octets>) {
        assert!(burst.is_empty());
        while !burst.is_full() {
            let Some(frame) = self.rx[nic].pop_front() else { break };
            let mut buffer = Octets::new(&frame, self.order);
            buffer.pieces.cramped = self.cramped;
            burst.push(buffer);
            self.out += 1;
            self.received += 1;
        }
    }

    fn transmit(&mut self, nic: usize, burst: &mut Burst<Octets>) {
        for buffer in burst.drain(..) {
            self.out -= 1;
            self.left.push(buffer.pieces.offload);
            self.tx[nic].push(buffer.whole());
        }
    }

    fn allocate(&mut self) -> Option<Octets> {
        self.free = self.free.checked_sub(1)?;
        self.out += 1;
        Some(Octets::new(&[], Offload::NONE))
    }

    fn free(&mut self, _: Octets) {
        self.out -= 1;
    }

    fn plug_count(&self, nic: usize) -> u32 {
        self.plugged[nic]
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn ask_for_neighbour(&mut self, nic: u8, ip: u32) {
        self.asked.push((nic, ip));
    }

    fn is_claimed(&mut self, nic: usize, ip: u32, by: Mac) {
        self.claims.push((nic, ip, by));
    }

    fn is_claimed6(&mut self, nic: usize, ip: u128, by: Mac) {
        self.claims6.push((nic, ip, by));
    }

    fn report_next_hop(&mut self, _: u8, six: bool, number: u32, reached: bool) {
        self.next_hops.push((six, number, reached));
    }
}

thread_local! {
    /// How often a table has been asked what a next hop is, which only the slow path does.
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Returns how often the slow path has routed a packet since the last call.
pub(crate) fn slow_ones() -> u32 {
    ASKED.take()
}

/// Routes in a list that is scanned linearly.
#[derive(Clone, Copy)]
pub(crate) struct List(&'static [(u32, u8, NextHop)]);

impl Routes for List {
    type Step = u32;
    type Six = List6;

    fn six(&self) -> List6 {
        ROUTES6
    }

    fn prefetch(&self, _: u32) {}

    fn first(&self, destination: u32) -> u32 {
        destination
    }

    fn second(&self, destination: u32) -> u32 {
        let covers = |ip: u32, prefix: u8| Address { ip, prefix }.covers(destination);
        let matching = self.0.iter().enumerate().filter(|(_, (ip, prefix, _))| covers(*ip, *prefix));
        let best = matching.max_by_key(|(_, (_, prefix, _))| *prefix);
        // Routes to the same next hop share its number, as in the real table.
        let same = |(_, (_, _, hop)): (usize, &(u32, u8, NextHop))| self.0.iter().position(|r| r.2 == *hop);
        best.and_then(same).map_or(0, |at| at as u32 + 1)
    }

    fn next_hop(&self, index: u32) -> NextHop {
        ASKED.set(ASKED.get() + 1);
        index.checked_sub(1).map_or(NextHop::None, |at| self.0[at as usize].2)
    }

    /// Half of the flows prefer [`SILENT`], the others the gateway of NIC 2.
    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        members(index, hash, self.next_hop(index), GROUPED)
    }

    fn epoch(&self) -> u32 {
        0
    }
}

/// IPv6 routes in a list that is scanned linearly.
#[derive(Clone, Copy)]
pub(crate) struct List6(&'static [(u128, u8, NextHop)]);

impl Routes6 for List6 {
    type Step = u128;

    const STEPS: usize = 2;

    fn first(&self, destination: u128) -> u128 {
        destination
    }

    fn is_done(&self, _: u128) -> bool {
        false
    }

    fn next(&self, step: u128) -> u128 {
        step
    }

    fn found(&self, destination: u128) -> u32 {
        let covers = |ip: u128, prefix: u8| Address6 { ip, prefix }.covers(destination);
        let matching = self.0.iter().enumerate().filter(|(_, (ip, prefix, _))| covers(*ip, *prefix));
        let best = matching.max_by_key(|(_, (_, prefix, _))| *prefix);
        let same = |(_, (_, _, hop)): (usize, &(u128, u8, NextHop))| self.0.iter().position(|r| r.2 == *hop);
        best.and_then(same).map_or(0, |at| at as u32 + 1)
    }

    fn next_hop(&self, index: u32) -> NextHop {
        ASKED.set(ASKED.get() + 1);
        index.checked_sub(1).map_or(NextHop::None, |at| self.0[at as usize].2)
    }

    /// Half of the flows prefer [`SILENT6`], the others the gateway of NIC 2.
    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        members(index, hash, self.next_hop(index), GROUPED6)
    }

    fn epoch(&self) -> u32 {
        0
    }
}

/// Numbers of the next hops of the group in each list.
pub(crate) const GROUPED: [u32; 2] = [8, 6];
/// See [`GROUPED`].
pub(crate) const GROUPED6: [u32; 2] = [6, 5];

fn members(index: u32, hash: u32, hop: NextHop, [one, other]: [u32; 2]) -> [u32; CHOICES] {
    match (hop, hash >> 31) {
        (NextHop::Group, 0) => [one, other, 0, 0],
        (NextHop::Group, _) => [other, one, 0, 0],
        _ => [index, 0, 0, 0],
    }
}

/// Returns `host` in the network of NIC `nic`: `2001:db8:0:NIC::/64`.
pub(crate) const fn ip6(nic: u8, host: u64) -> u128 {
    0x2001_0db8 << 96 | (nic as u128) << 64 | host as u128
}

/// An IPv6 gateway that is not known yet.
pub(crate) const SILENT6: u128 = ip6(1, 0x77);

/// Destinations behind the gateways of NIC 1 and 2, and behind [`SILENT6`].
pub(crate) const BEYOND: [u128; 3] =
    [0x2001_0db8_0001 << 80 | 9, 0x2001_0db8_0002 << 80 | 9, 0x2001_0db8_0003 << 80 | 9];

pub(crate) const ROUTES6: List6 = List6(&[
    (ip6(0, 0), 64, NextHop::Connected { nic: 0 }),
    (ip6(1, 0), 64, NextHop::Connected { nic: 1 }),
    (ip6(2, 0), 64, NextHop::Connected { nic: 2 }),
    (0x2001_0db8_0001 << 80, 48, NextHop::Gateway6 { nic: 1, gateway: ip6(1, 2) }),
    (0x2001_0db8_0002 << 80, 48, NextHop::Gateway6 { nic: 2, gateway: ip6(2, 2) }),
    (0x2001_0db8_0003 << 80, 48, NextHop::Gateway6 { nic: 1, gateway: SILENT6 }),
    (0x2001_0db8_0004 << 80, 48, NextHop::None),
    (0x2001_0db8_0011 << 80, 48, NextHop::Refused(Refusal::Silent)),
    (0x2001_0db8_0012 << 80, 48, NextHop::Refused(Refusal::Unreachable)),
    (0x2001_0db8_0013 << 80, 48, NextHop::Refused(Refusal::Prohibited)),
    (0x2001_0db8_0014 << 80, 48, NextHop::Group),
    // Interfaces for VLANs.
    (ip6(3, 0), 64, NextHop::Connected { nic: 3 }),
    (ip6(4, 0), 64, NextHop::Connected { nic: 4 }),
    (0x2001_0db8_0015 << 80, 48, NextHop::Gateway6 { nic: 4, gateway: ip6(4, 9) }),
]);

pub(crate) const fn ip(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Address of the router's NIC.
pub(crate) const fn own_mac(nic: u8) -> Mac {
    Mac([2, 0, 0, 0, 0x10, nic])
}

/// Address of the static neighbour 10.0.`nic`.2.
pub(crate) const fn peer_mac(nic: u8) -> Mac {
    Mac([2, 0, 0, 0, 0x20, nic])
}

/// A gateway that is not known yet.
pub(crate) const SILENT: u32 = ip(10, 0, 1, 77);

/// A gateway outside the networks of its NIC.
pub(crate) const OFF_LINK: u32 = ip(10, 99, 0, 1);

pub(crate) const ROUTES: List = List(&[
    (ip(10, 0, 0, 0), 24, NextHop::Connected { nic: 0 }),
    (ip(10, 0, 1, 0), 24, NextHop::Connected { nic: 1 }),
    (ip(10, 0, 2, 0), 24, NextHop::Connected { nic: 2 }),
    (ip(10, 0, 0, 1), 32, NextHop::Local),
    (ip(192, 168, 0, 0), 16, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(192, 168, 7, 0), 24, NextHop::Gateway { nic: 2, gateway: ip(10, 0, 2, 2) }),
    (ip(172, 16, 0, 0), 12, NextHop::Gateway { nic: 2, gateway: ip(10, 0, 2, 2) }),
    (ip(198, 51, 100, 0), 24, NextHop::Gateway { nic: 1, gateway: SILENT }),
    (ip(203, 0, 113, 0), 24, NextHop::None),
    (ip(9, 9, 9, 9), 32, NextHop::Local),
    (ip(20, 0, 0, 0), 8, NextHop::Connected { nic: 1 }),
    (ip(198, 18, 0, 0), 15, NextHop::Gateway { nic: 1, gateway: OFF_LINK }),
    // Addresses that are never forwarded, whatever the routes say.
    (ip(0, 0, 0, 0), 8, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(127, 0, 0, 0), 8, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(224, 0, 0, 0), 3, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(8, 0, 0, 0), 8, NextHop::Gateway { nic: 7, gateway: ip(10, 0, 1, 2) }),
    // Interfaces for VLANs.
    (ip(10, 0, 3, 0), 24, NextHop::Connected { nic: 3 }),
    (ip(10, 0, 4, 0), 24, NextHop::Connected { nic: 4 }),
    (ip(24, 0, 0, 0), 8, NextHop::Gateway { nic: 4, gateway: ip(10, 0, 4, 9) }),
    // IPv4 by an IPv6 next hop (RFC 8950).
    (ip(21, 0, 0, 0), 8, NextHop::Gateway6 { nic: 1, gateway: ip6(1, 2) }),
    (ip(22, 1, 0, 0), 16, NextHop::Refused(Refusal::Silent)),
    (ip(22, 2, 0, 0), 16, NextHop::Refused(Refusal::Unreachable)),
    (ip(22, 3, 0, 0), 16, NextHop::Refused(Refusal::Prohibited)),
    (ip(23, 0, 0, 0), 8, NextHop::Group),
]);

/// A router and its environment.
pub(crate) struct Lab {
    pub(crate) world: World,
    pub(crate) router: Router<'static, Octets, List>,
    pub(crate) counters: &'static RouterCounters,
    pub(crate) vlan_counters: &'static [VlanCounters; 2],
    pub(crate) neighbours: &'static Neighbours<'static>,
}

impl Default for Lab {
    fn default() -> Self {
        Self::new(table(), true)
    }
}

/// Number of neighbours of a table.
pub(crate) const NEIGHBOURS: usize = 1024;

/// Creates an empty neighbour table.
pub(crate) fn table() -> &'static Neighbours<'static> {
    sized_table(NEIGHBOURS)
}

/// Creates an empty table for this many neighbours.
pub(crate) fn sized_table(neighbours: usize) -> &'static Neighbours<'static> {
    let buckets: Vec<Bucket> = (0..router::neighbours::buckets(neighbours)).map(|_| Bucket::new()).collect();
    Box::leak(Box::new(Neighbours::new(Vec::leak(buckets))))
}

/// How a router differs from the usual one.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'w> {
    pub(crate) first: bool,
    /// Whether it has IPv6: `2001:db8:0:NIC::1/64` on each NIC, and a static neighbour `::2` there.
    pub(crate) six: bool,
    /// NIC that has IPv4 alone.
    pub(crate) without_six: Option<u8>,
    pub(crate) advertise: Option<&'w Advertise<'w>>,
    pub(crate) redirects: bool,
    /// Whether it has VLAN 100 of NIC 0, 10.0.3.1/24, and VLAN 200.100 of NIC 1, 10.0.4.1/24; IPv6 as on NICs of these numbers.
    pub(crate) vlans: bool,
    /// Filter of sources of its NICs.
    pub(crate) reverse_path: ReversePath,
}

pub(crate) const USUAL: Wanted<'static> = Wanted {
    first: true,
    six: false,
    without_six: None,
    advertise: None,
    redirects: false,
    vlans: false,
    reverse_path: ReversePath::Off,
};

impl Lab {
    pub(crate) fn new(neighbours: &'static Neighbours<'static>, first: bool) -> Self {
        let mut lab = Self::wanted(neighbours, &Wanted { first, ..USUAL });
        (0..3).for_each(|nic| assert_eq!(lab.world.sent(nic).len(), usize::from(first)));
        lab
    }

    /// Creates a router with the usual addresses.
    pub(crate) fn wanted(neighbours: &'static Neighbours<'static>, wanted: &Wanted<'_>) -> Self {
        let addresses = [0, 1, 2].map(|nic| [Address { ip: ip(10, 0, nic, 1), prefix: 24 }]);
        Self::built(neighbours, wanted, addresses.each_ref().map(|one| &one[..]))
    }

    /// Creates a router with IPv6, whose addresses are confirmed, and forgets what it has sent for that.
    pub(crate) fn six() -> Self {
        let mut lab = Self::wanted(table(), &Wanted { six: true, ..USUAL });
        lab.wait(1000);
        (0..3).for_each(|nic| drop(lab.world.sent(nic)));
        lab
    }

    /// Creates a router with these addresses instead, eight on each NIC.
    pub(crate) fn with_addresses(own: &[Address]) -> Self {
        let mut chunks = own.chunks(8);
        let addresses = [(); 3].map(|()| chunks.next().unwrap_or_default());
        let mut lab = Self::built(table(), &USUAL, addresses);
        (0..3).for_each(|nic| assert_eq!(lab.world.sent(nic).len(), addresses[nic].len()));
        lab
    }

    fn built(
        neighbours: &'static Neighbours<'static>,
        wanted: &Wanted<'_>,
        addresses: [&[Address]; 3],
    ) -> Self {
        let addresses6 = [0, 1, 2].map(|nic| [Address6 { ip: ip6(nic, 1), prefix: 64 }]);
        let interfaces = [0, 1, 2].map(|nic| Interface {
            mac: own_mac(nic),
            // With IPv6 no MTU is smaller than 1280.
            mtu: match (nic, wanted.six) {
                (2, false) => 576,
                (2, true) => 1280,
                _ => 1500,
            },
            addresses: addresses[usize::from(nic)],
            addresses6: match wanted.six && wanted.without_six != Some(nic) {
                true => &addresses6[usize::from(nic)],
                false => &[],
            },
            advertise: wanted.advertise.filter(|_| nic == 0),
            vlan: None,
            reverse_path: wanted.reverse_path,
        });
        let tagged = [3, 4].map(|nic| [Address { ip: ip(10, 0, nic, 1), prefix: 24 }]);
        let tagged6 = [3, 4].map(|nic| [Address6 { ip: ip6(nic, 1), prefix: 64 }]);
        let vlans = [Vlan { nic: 0, outer: None, id: 100 }, Vlan { nic: 1, outer: Some(200), id: 100 }];
        let tagged = [0, 1].map(|at: usize| Interface {
            mac: own_mac(vlans[at].nic),
            mtu: 1500,
            addresses: &tagged[at],
            addresses6: if wanted.six { &tagged6[at] } else { &[] },
            advertise: None,
            vlan: Some(vlans[at]),
            reverse_path: ReversePath::Off,
        });
        let interfaces: Vec<_> =
            interfaces.into_iter().chain(tagged.into_iter().filter(|_| wanted.vlans)).collect();
        for nic in (0..3).filter(|_| !neighbours.is_read_only()) {
            for ip in [Ip::v4(ip(10, 0, nic, 2)), Ip::v6(ip6(nic, 2))] {
                assert!(neighbours.add_static(Neighbour { nic, ip, mac: peer_mac(nic) }));
            }
        }
        let counters: &RouterCounters = Box::leak(Box::default());
        let vlan_counters: &[VlanCounters; 2] = Box::leak(Box::default());
        let parts = RouterResources {
            routes: ROUTES,
            neighbours,
            adjacencies: leak_adjacencies(),
            interfaces: Box::leak(Box::new(Interfaces::new())),
            waiting: Box::leak(Box::default()),
            counters,
            vlans: vlan_counters,
        };
        let config = Config {
            interfaces: &interfaces,
            keeper: wanted.first,
            answers_arp: wanted.first,
            redirects: wanted.redirects,
            table: 0,
        };
        let router = Router::new(&config, parts);
        let mut lab = Self { world: World::new(3), router, counters, vlan_counters, neighbours };
        lab.router.poll(&mut lab.world);
        lab
    }

    /// Gives the router a frame on a NIC and makes a pass.
    pub(crate) fn push(&mut self, nic: usize, frame: Vec<u8>) {
        self.world.rx[nic].push_back(frame);
        self.router.poll(&mut self.world);
        self.balance();
    }

    /// Sends a packet to each of the two gateways, so that their headers are prepared afterwards.
    pub(crate) fn warm_up(&mut self) {
        for (destination, nic) in [(ip(192, 168, 1, 1), 1), (ip(172, 16, 0, 1), 2)] {
            self.push(0, udp_frame(0, destination, 18));
            self.one_sent(nic);
        }
    }

    /// Advances the time.
    pub(crate) fn wait(&mut self, milliseconds: u64) {
        self.world.now += milliseconds;
        self.router.tick(&mut self.world);
        self.balance();
    }

    /// Asserts that every frame and every buffer is accounted for.
    pub(crate) fn balance(&self) {
        let c = self.counters;
        let held = self.router.held();
        let ends = c.forwarded.get() + c.consumed.get() + drops(c) + held as u64;
        assert_eq!(self.world.received, ends, "{c:?}");
        assert_eq!(self.world.out, held + self.router.held_own(), "buffers that the router keeps");
    }

    /// Asserts that one of the drop counters is `n` and all others are 0.
    pub(crate) fn only_drop(&self, name: &str, n: u64) {
        self.counters.each(&mut |counter, value| {
            let expected = if counter == name { n } else { 0 };
            assert!(!counter.starts_with("drop_") || value == expected, "{counter} = {value}");
        });
    }

    /// Returns the value of one counter.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let mut found = None;
        self.counters.each(&mut |counter, value| found = found.or((counter == name).then_some(value)));
        found.expect("a counter of the router")
    }

    /// Returns the single frame that left by `nic`; asserts that no other frame left.
    pub(crate) fn one_sent(&mut self, nic: usize) -> Vec<u8> {
        let mut sent: Vec<_> = (0..3).map(|nic| self.world.sent(nic)).collect();
        for (other, frames) in sent.iter().enumerate() {
            assert_eq!(frames.len(), usize::from(other == nic), "frames sent by NIC {other}");
        }
        sent.swap_remove(nic).remove(0)
    }

    /// Asserts that no frame left by this NIC.
    pub(crate) fn none_sent_of(&mut self, nic: usize) {
        assert!(self.world.sent(nic).is_empty(), "NIC {nic}");
    }

    /// Asserts that no frame left.
    pub(crate) fn none_sent(&mut self) {
        (0..3).for_each(|nic| assert!(self.world.sent(nic).is_empty(), "NIC {nic}"));
    }
}

fn leak_adjacencies() -> &'static mut Adjacencies {
    Box::leak(Box::new(Adjacencies::new()))
}

/// Returns the sum of all drop counters.
pub(crate) fn drops(counters: &RouterCounters) -> u64 {
    let mut sum = 0;
    counters.each(&mut |name, value| sum += if name.starts_with("drop_") { value } else { 0 });
    sum
}

/// Returns a frame to the router's NIC `nic` from its peer, with this IPv4 header and payload.
pub(crate) fn ipv4_frame(nic: u8, header: ipv4::Header, payload: &[u8]) -> Vec<u8> {
    let ethernet =
        ethernet::Header { destination: own_mac(nic), source: peer_mac(nic), ethertype: ethernet::IPV4 };
    let start = ethernet::HEADER + usize::from(header.header_len);
    let mut frame = vec![0; start + payload.len()];
    frame[start..].copy_from_slice(payload);
    ethernet.write(&mut frame).unwrap();
    header.write(&mut frame[ethernet::HEADER..]).unwrap();
    frame.resize(frame.len().max(ethernet::SHORTEST), 0);
    frame
}

/// Returns the header of a UDP packet with `payload` octets after the UDP header.
pub(crate) fn udp_header(source: u32, destination: u32, payload: usize) -> ipv4::Header {
    ipv4::Header::new(ipv4::UDP, source, destination, (payload + udp::HEADER) as u16)
}

/// Returns a UDP header and `len` counting octets.
pub(crate) fn datagram(len: usize) -> Vec<u8> {
    let mut octets: Vec<u8> = (0..udp::HEADER + len).map(|n| n as u8).collect();
    let header =
        udp::Header { source: 4000, destination: 5000, len: (len + udp::HEADER) as u16, checksum: 0 };
    header.write(&mut octets).unwrap();
    octets
}

/// Returns a UDP frame from 10.0.`nic`.2.
pub(crate) fn udp_frame(nic: u8, destination: u32, len: usize) -> Vec<u8> {
    ipv4_frame(nic, udp_header(ip(10, 0, nic, 2), destination, len), &datagram(len))
}

/// Returns an ICMP message.
pub(crate) fn icmp_message(kind: u8, code: u8, rest: u32, payload: &[u8]) -> Vec<u8> {
    let mut message = [&[0; icmp::HEADER], payload].concat();
    icmp::Header { kind, code, rest }.write(&mut message).unwrap();
    message
}

/// Returns an ARP frame.
pub(crate) fn arp_frame(to: Mac, packet: &arp::Packet) -> Vec<u8> {
    let mut frame = vec![0; ethernet::SHORTEST];
    let header = ethernet::Header { destination: to, source: packet.sender_mac, ethertype: ethernet::ARP };
    header.write(&mut frame).unwrap();
    packet.write(&mut frame[ethernet::HEADER..]).unwrap();
    frame
}

/// Returns an ARP reply to the router's NIC.
pub(crate) fn arp_reply(nic: u8, mac: Mac, from: u32) -> Vec<u8> {
    let packet = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: mac,
        sender_ip: from,
        target_mac: own_mac(nic),
        target_ip: ip(10, 0, nic, 1),
    };
    arp_frame(own_mac(nic), &packet)
}

/// Parses the Ethernet header and the ARP packet of a frame.
pub(crate) fn read_arp(frame: &[u8]) -> (ethernet::Header, arp::Packet) {
    let (header, rest) = ethernet::Header::parse(frame).unwrap();
    assert_eq!(header.ethertype, ethernet::ARP);
    (header, arp::Packet::parse(rest).unwrap())
}

/// Parses and checks the Ethernet header and the IPv4 packet of a frame.
pub(crate) fn read_ipv4(frame: &[u8]) -> (ethernet::Header, ipv4::Packet<'_>) {
    let (header, rest) = ethernet::Header::parse(frame).unwrap();
    assert_eq!(header.ethertype, ethernet::IPV4);
    (header, ipv4::Packet::parse(rest).unwrap())
}

/// Parses and checks the IPv4 header, the ICMP header and the rest.
pub(crate) fn read_icmp(frame: &[u8]) -> (ipv4::Header, icmp::Header, &[u8]) {
    let (_, packet) = read_ipv4(frame);
    assert_eq!(packet.header().protocol, ipv4::ICMP);
    let (message, rest) = icmp::Header::parse(packet.payload()).unwrap();
    (*packet.header(), message, rest)
}
