//! A simulated platform with a scripted clock, and a router with three NICs on it.
//!
//! ```text
//! nic 0  10.0.0.1/24  MTU 1500   static neighbour 10.0.0.2
//! nic 1  10.0.1.1/24  MTU 1500   static neighbour 10.0.1.2
//! nic 2  10.0.2.1/24  MTU 576    static neighbour 10.0.2.2
//! ```

mod buffer;
mod frames;
mod routes;

use std::collections::VecDeque;

use frame::Mac;
use frame::offload::Offload;
use ledger::{Group, RouterCounters, VlanCounters};
use router::neighbours::GivenList;
use router::{
    Address, Address6, Adjacencies, Advertise, Bucket, Burst, Config, Interface, Interfaces, Ip, Neighbour,
    Neighbours, Platform, ReversePath, Router, RouterResources, Vlan,
};

pub(crate) use buffer::Octets;
pub(crate) use frames::*;
pub(crate) use routes::*;

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
    /// For each cable, how often it was pulled out or plugged in.
    pub(crate) plugged: Vec<u32>,
    /// Static neighbours that the router is given, and the number of the list; `None`: it is being changed.
    pub(crate) given: Option<Vec<Neighbour>>,
    pub(crate) given_version: u32,
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
            given: None,
            given_version: 0,
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

    fn given_version(&self) -> u32 {
        self.given_version
    }

    fn read_given(&self, list: &mut GivenList) -> Option<u32> {
        let given = self.given.as_ref()?;
        list.iter_mut().zip(given).for_each(|(place, one)| *place = Some(*one));
        Some(self.given_version)
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
    pub(crate) shares_addresses: bool,
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
    shares_addresses: false,
    vlans: false,
    reverse_path: ReversePath::Off,
};

impl Lab {
    pub(crate) fn new(neighbours: &'static Neighbours<'static>, first: bool) -> Self {
        let mut lab = Self::wanted(neighbours, &Wanted { first, ..USUAL });
        (0..3).for_each(|nic| assert_eq!(lab.world.sent(nic).len(), 2 * usize::from(first)));
        lab
    }

    /// Creates a router with the usual addresses.
    pub(crate) fn wanted(neighbours: &'static Neighbours<'static>, wanted: &Wanted<'_>) -> Self {
        let addresses = [0, 1, 2].map(|nic| [Address { ip: ip(10, 0, nic, 1), prefix: 24 }]);
        Self::built(neighbours, wanted, addresses.each_ref().map(|one| &one[..]))
    }

    /// Creates a router with IPv6, whose addresses are confirmed and announced, and forgets what it has sent for that.
    pub(crate) fn six() -> Self {
        Self::six_with(&USUAL)
    }

    /// Creates one that has IPv6 and else is as wanted, as [`Lab::six`] does.
    pub(crate) fn six_with(wanted: &Wanted<'_>) -> Self {
        let mut lab = Self::wanted(table(), &Wanted { six: true, ..*wanted });
        (0..2).for_each(|_| lab.wait(1000));
        (0..3).for_each(|nic| drop(lab.world.sent(nic)));
        lab
    }

    /// Creates a router with these addresses instead, eight on each NIC.
    pub(crate) fn with_addresses(own: &[Address]) -> Self {
        let mut chunks = own.chunks(8);
        let addresses = [(); 3].map(|()| chunks.next().unwrap_or_default());
        let mut lab = Self::built(table(), &USUAL, addresses);
        (0..3).for_each(|nic| assert_eq!(lab.world.sent(nic).len(), 2 * addresses[nic].len()));
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
            shares_addresses: wanted.shares_addresses,
            table: 0,
        };
        let router = Router::new(&config, parts);
        let mut lab = Self { world: World::new(3), router, counters, vlan_counters, neighbours };
        lab.router.poll(&mut lab.world);
        // With IPv6 the tests begin when it has just started; otherwise when its addresses were announced for the second time.
        if !wanted.six {
            lab.wait(2000);
        }
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
