//! After the same random changes, the route tables of `fib` and the kernel's own ones find the same route for each address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64};

use fib::{NextHop, Refusal, Rib, Routes as _, Routes6 as _};
use netlink::{Netlink, Prefix, Route, RouteId, RouteKind, Settings};
use netns::Namespace;
use rustix::io::Errno;
use support::RandomTimes;

use crate::host::prefix;
use crate::stays::router_has_no_ipv6;

/// Changes between two comparisons.
const BETWEEN: usize = 25;
/// Prefixes whose borders are looked up at each comparison; as many again need not be routes.
const COMPARED: usize = 25;

/// A table of ours for one address family. Its addresses are numbers.
trait Ours {
    /// Length of an address in bits.
    const BITS: u8;
    /// Network that addresses are chosen from.
    const NET: (u128, u8);
    /// Number of random changes.
    const CHANGES: usize;

    fn ip(number: u128) -> IpAddr;
    /// Address of a gateway on the link.
    fn gateway(number: u8) -> IpAddr;
    /// True if the kernel has no rules of its own for this address, as it has for multicast.
    fn is_ordinary(number: u128) -> bool;
    fn add(&mut self, to: (u128, u8), hop: NextHop);
    fn remove(&mut self, to: (u128, u8));
    fn find(&self, ip: u128) -> NextHop;
    /// Reclaims what was removed: there are no other readers.
    fn reclaim(&mut self);
}

impl Ours for Rib<'static> {
    const BITS: u8 = 32;
    const NET: (u128, u8) = (10 << 24, 8);
    const CHANGES: usize = 2000;

    fn ip(number: u128) -> IpAddr {
        Ipv4Addr::from(number as u32).into()
    }

    fn gateway(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn is_ordinary(number: u128) -> bool {
        !matches!(number >> 24, 0 | 127 | 224..)
    }

    fn add(&mut self, (to, len): (u128, u8), hop: NextHop) {
        Rib::add(self, to as u32, len, hop).expect("room");
    }

    fn remove(&mut self, (to, len): (u128, u8)) {
        Rib::remove(self, to as u32, len).expect("a route");
    }

    fn find(&self, ip: u128) -> NextHop {
        let table = self.reader();
        table.next_hop(table.lookup(ip as u32))
    }

    fn reclaim(&mut self) {
        let epoch = self.publish();
        Rib::reclaim(self, epoch);
    }
}

impl Ours for fib::six::Rib<'static> {
    const BITS: u8 = 128;
    const NET: (u128, u8) = (0x2001_0db8 << 96, 32);
    // A change of a short route builds all longer ones anew.
    const CHANGES: usize = 300;

    fn ip(number: u128) -> IpAddr {
        Ipv6Addr::from(number).into()
    }

    fn gateway(number: u8) -> IpAddr {
        Ipv6Addr::from(0xfe80 << 112 | u128::from(number)).into()
    }

    fn is_ordinary(number: u128) -> bool {
        number >> 64 != 0 && number >> 120 < 0xfe
    }

    fn add(&mut self, (to, len): (u128, u8), hop: NextHop) {
        fib::six::Rib::add(self, to, len, hop).expect("room");
    }

    fn remove(&mut self, (to, len): (u128, u8)) {
        fib::six::Rib::remove(self, to, len).expect("a route");
    }

    fn find(&self, ip: u128) -> NextHop {
        let table = self.reader();
        table.next_hop(table.lookup(ip))
    }

    fn reclaim(&mut self) {
        let epoch = self.publish();
        fib::six::Rib::reclaim(self, epoch);
    }
}

fn words(n: usize) -> &'static [AtomicU64] {
    Vec::leak((0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>())
}

fn short_words(n: usize) -> &'static [AtomicU32] {
    Vec::leak((0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>())
}

/// Creates a table in ordinary memory, leaked because there is one.
fn four() -> Rib<'static> {
    use fib::layout::{BUCKETS, GROUP, NEXT_HOPS, TBL24};
    Rib::new(fib::Memory {
        header: Box::leak(Box::new(fib::Header::default())),
        next_hops: words(NEXT_HOPS).try_into().expect("its length"),
        buckets: words(BUCKETS).try_into().expect("its length"),
        tbl24: short_words(TBL24).try_into().expect("its length"),
        tbl8: short_words((1 << 11) * GROUP),
    })
}

fn six() -> fib::six::Rib<'static> {
    use fib::six::layout::{BUCKETS, HOP_WORDS, NEXT_HOPS, NODE, ROOT};
    fib::six::Rib::new(fib::six::Memory {
        header: Box::leak(Box::new(fib::six::Header::default())),
        next_hops: words(HOP_WORDS * NEXT_HOPS).try_into().expect("its length"),
        buckets: words(BUCKETS).try_into().expect("its length"),
        root: words(ROOT).try_into().expect("its length"),
        nodes: words((1 << 13) * NODE),
        ranges: words(1 << 20),
    })
}

/// Next hop of our table for a route of the kernel.
fn hop_of(route: &Route) -> NextHop {
    match (route.kind, route.next_hops.first().map(|hop| hop.via)) {
        (RouteKind::Blackhole, _) => NextHop::Refused(Refusal::Silent),
        (RouteKind::Unreachable, _) => NextHop::Refused(Refusal::Unreachable),
        (RouteKind::Prohibit, _) => NextHop::Refused(Refusal::Prohibited),
        (RouteKind::Unicast, Some(None)) => NextHop::Connected { nic: 0 },
        (RouteKind::Unicast, Some(Some(IpAddr::V4(gateway)))) => {
            NextHop::Gateway { nic: 0, gateway: gateway.into() }
        }
        (RouteKind::Unicast, Some(Some(IpAddr::V6(gateway)))) => {
            NextHop::Gateway6 { nic: 0, gateway: gateway.into() }
        }
        _ => panic!("this test has no such route: {route:?}"),
    }
}

/// Next hop that the kernel finds.
fn asked(kernel: &Netlink, ip: IpAddr) -> NextHop {
    let error = match kernel.route_to(ip) {
        Ok(route) => return hop_of(&route),
        Err(error) => error,
    };
    match Errno::from_io_error(&error) {
        Some(Errno::NETUNREACH) => NextHop::None,
        Some(Errno::INVAL) => NextHop::Refused(Refusal::Silent),
        Some(Errno::HOSTUNREACH) => NextHop::Refused(Refusal::Unreachable),
        Some(Errno::ACCESS) => NextHop::Refused(Refusal::Prohibited),
        _ => panic!("{ip}: {error}"),
    }
}

/// A network mask of this length for addresses of `bits` bits.
fn mask(bits: u8, len: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(bits));
    all & !all.checked_shr(len.into()).unwrap_or(0)
}

/// The routes of one family in the kernel and in a table of ours.
struct Both<T> {
    kernel: Netlink,
    index: u32,
    ours: T,
    routes: BTreeMap<(u128, u8), Route>,
    random: RandomTimes,
}

impl<T: Ours> Both<T> {
    /// Makes all changes, and compares again and again.
    fn play(mut self) {
        for n in 1..=T::CHANGES {
            self.change();
            self.ours.reclaim();
            if n.is_multiple_of(BETWEEN) {
                self.compare(n);
            }
        }
    }

    fn change(&mut self) {
        let known = self.some_route();
        match (self.random.below(4), known) {
            (0, Some(known)) => self.remove(known),
            (1, Some(known)) => self.set(known),
            _ => {
                let to = self.some_prefix();
                self.set(to);
            }
        }
    }

    fn some_route(&mut self) -> Option<(u128, u8)> {
        let nth = self.random.below(self.routes.len() as u64) as usize;
        self.routes.keys().nth(nth).copied()
    }

    /// A prefix of any length, but rarely a short one, which concerns a large part of a table, unless it is the default route. Half
    /// of them are within a route or around one.
    fn some_prefix(&mut self) -> (u128, u8) {
        let all = u64::from(T::BITS);
        let least = match self.random.below(16) {
            0 => return (0, 0),
            1 => 0,
            _ => all * 3 / 8,
        };
        let near = self.some_route().filter(|_| self.random.below(2) == 0);
        let (net, fixed) = near.unwrap_or(T::NET);
        let bits = (0..4).fold(0_u128, |bits, _| bits << 32 | u128::from(self.random.below(1 << 32)));
        let ip = net | bits & mask(T::BITS, T::BITS) & !mask(T::BITS, fixed);
        let len = (least + self.random.below(all + 1 - least)) as u8;
        (ip & mask(T::BITS, len), len)
    }

    fn set(&mut self, to: (u128, u8)) {
        // The kernel would keep both.
        if let Some(old) = self.routes.remove(&to) {
            self.kernel.remove_route(&old).unwrap_or_else(|e| panic!("{old:?}: {e}"));
        }
        let route = self.new_route(to);
        self.kernel.insert_route(&route).unwrap_or_else(|e| panic!("{route:?}: {e}"));
        self.ours.add(to, hop_of(&route));
        self.routes.insert(to, route);
    }

    fn new_route(&mut self, (to, len): (u128, u8)) -> Route {
        let via = T::gateway(self.random.below(200) as u8 + 2);
        let hop = |via, index| vec![netlink::NextHop { via, index, weight: 1 }];
        let (kind, next_hops) = match self.random.below(10) {
            0 => (RouteKind::Blackhole, Vec::new()),
            1 => (RouteKind::Unreachable, Vec::new()),
            2 => (RouteKind::Prohibit, Vec::new()),
            3 => (RouteKind::Unicast, hop(None, self.index)),
            _ => (RouteKind::Unicast, hop(Some(via), self.index)),
        };
        let to = Prefix::new(T::ip(to), len).expect("a prefix");
        let id = RouteId { table: 254, to, tos: 0, metric: 0 };
        Route { id, kind, next_hops, group: None, protocol: 114 }
    }

    fn remove(&mut self, to: (u128, u8)) {
        let old = self.routes.remove(&to).expect("a route");
        self.kernel.remove_route(&old).unwrap_or_else(|e| panic!("{old:?}: {e}"));
        self.ours.remove(to);
    }

    /// Compares the first and the last addresses of prefixes, and those beside them.
    fn compare(&mut self, changes: usize) {
        let routes: Vec<_> = (0..COMPARED).filter_map(|_| self.some_route()).collect();
        let others: Vec<_> = (0..COMPARED).map(|_| self.some_prefix()).collect();
        let all = mask(T::BITS, T::BITS);
        let borders = routes.into_iter().chain(others).flat_map(|(first, len)| {
            let last = first | all & !mask(T::BITS, len);
            [first, first.wrapping_sub(1) & all, last, last.wrapping_add(1) & all]
        });
        for number in borders.filter(|number| T::is_ordinary(*number)) {
            let ip = T::ip(number);
            let (ours, kernels) = (self.ours.find(number), asked(&self.kernel, ip));
            assert_eq!(ours, kernels, "{ip} after {changes} changes, with {} routes", self.routes.len());
        }
    }
}

/// Makes a namespace with a link that has carrier and whose gateways nobody asks for; returns its socket and the link's index.
fn link(namespace: &Namespace) -> (Netlink, u32) {
    let kernel = namespace.netlink().expect("a socket");
    let (near, far) = (Settings::default().name("near"), Settings::default().name("far"));
    kernel.make_veth(&near, &far, None).expect("a pair");
    for end in ["near", "far"] {
        kernel.set_link(end, &Settings::default().up(true)).expect("up");
    }
    let index = kernel.link("near").expect("a link").index;
    (kernel, index)
}

#[test]
fn ipv4_look_ups_are_those_of_the_kernel() {
    support::needs!(Root);
    let random = RandomTimes::new();
    let namespace = Namespace::new().expect("a namespace");
    let (kernel, index) = link(&namespace);
    kernel.add_address(index, prefix([192, 0, 2, 1], 24)).expect("an address");
    Both { kernel, index, ours: four(), routes: BTreeMap::new(), random }.play();
}

#[test]
fn ipv6_look_ups_are_those_of_the_kernel() {
    support::needs!(Root);
    if router_has_no_ipv6() {
        return println!("SKIPPED: this kernel has no IPv6");
    }
    let random = RandomTimes::new();
    let namespace = Namespace::new().expect("a namespace");
    let (kernel, index) = link(&namespace);
    // An end station would prefer a shorter route to one whose gateway it knows to be silent.
    namespace.set_sysctl("net/ipv6/conf/all/forwarding", "1").expect("set");
    Both { kernel, index, ours: six(), routes: BTreeMap::new(), random }.play();
}
