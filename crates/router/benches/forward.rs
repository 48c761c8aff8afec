//! Cost in nanoseconds per frame of the router alone: 64-octet frames of 100 flows over 2 routes, buffers that
//! circulate in a pool, no rings. Also prints the cost of the pool itself, including the fresh headers.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Instant;

use fib::{Memory, Rib, Table};
use frame::{Mac, ethernet, ipv4};
use ledger::RouterCounters;
use ring::BURST;
use router::{
    Address, Adjacencies, Bucket, Buffer, Burst, Config, HEAD, Interface, Interfaces, Neighbour, Neighbours,
    NextHop, Platform, ReversePath, Router, RouterResources, Waiting,
};

/// Length of a frame in octets, without FCS.
const FRAME: usize = 64;
/// Number of buffers that circulate, as many as a ring has entries.
const BUFFERS: usize = 1024;
const FLOWS: usize = 100;
const BURSTS: usize = 200_000;
const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// A buffer: 2048 + 64 octets, so that the first lines of all buffers do not share few cache sets.
struct Octets {
    octets: Box<[u8; 2112]>,
    len: usize,
}

impl Buffer for Octets {
    #[inline(always)]
    fn head(&mut self) -> &mut [u8; HEAD] {
        match self.octets.first_chunk_mut() {
            Some(head) => head,
            None => unreachable!("the buffer is longer than a head"),
        }
    }
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }
    fn set_len(&mut self, octets: usize) {
        self.len = octets;
    }
    fn octets(&mut self) -> &mut [u8] {
        &mut self.octets[..self.len]
    }
    #[inline(always)]
    fn prefetch(&self) {
        ring::prefetch::write(self.octets.as_ptr());
    }
}

struct Pool {
    free: VecDeque<Octets>,
    flows: Vec<[u8; HEAD]>,
    next: usize,
    sent: [u64; 2],
}

impl Platform for Pool {
    type Buffer = Octets;
    fn nics(&self) -> usize {
        1
    }
    #[inline(always)]
    fn receive(&mut self, nic: usize, burst: &mut Burst<Octets>) {
        if nic != 0 {
            return;
        }
        for mut buffer in self.free.drain(..BURST) {
            *buffer.head() = self.flows[self.next];
            self.next = if self.next + 1 == FLOWS { 0 } else { self.next + 1 };
            burst.push(buffer);
        }
    }
    #[inline(always)]
    fn transmit(&mut self, nic: usize, burst: &mut Burst<Octets>) {
        self.sent[nic] += burst.len() as u64;
        self.free.extend(burst.drain(..));
    }
    fn allocate(&mut self) -> Option<Octets> {
        None
    }
    fn free(&mut self, buffer: Octets) {
        self.free.push_back(buffer);
    }
    fn now(&self) -> u64 {
        0
    }
}

fn flow(n: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let destination = u32::from_be_bytes([192, 168, (n % 2) as u8, n as u8]);
    let ethernet =
        ethernet::Header { destination: OWN, source: Mac([2, 0, 0, 0, 0, 9]), ethertype: ethernet::IPV4 };
    let header = ipv4::Header::new(ipv4::UDP, 0x0a00_0002, destination, (FRAME - 34) as u16);
    ethernet
        .write(&mut head)
        .and_then(|()| header.write(&mut head[ethernet::HEADER..]))
        .expect("64 octets do");
    head
}

fn pool() -> Pool {
    let buffer = |_| Octets { octets: Box::new([0; 2112]), len: FRAME };
    Pool {
        free: (0..BUFFERS).map(buffer).collect(),
        flows: (0..FLOWS).map(flow).collect(),
        next: 0,
        sent: [0; 2],
    }
}

fn zeros<T: Default + std::fmt::Debug, const N: usize>() -> &'static [T; N] {
    let items: Vec<T> = (0..N).map(|_| T::default()).collect();
    let items: Box<[T; N]> = items.into_boxed_slice().try_into().expect("N items were collected");
    Box::leak(items)
}

fn routes() -> Table<'static> {
    let memory = Memory {
        header: Box::leak(Box::default()),
        next_hops: zeros::<AtomicU64, { fib::layout::NEXT_HOPS }>(),
        buckets: zeros::<AtomicU64, { fib::layout::BUCKETS }>(),
        tbl24: zeros::<AtomicU32, { fib::layout::TBL24 }>(),
        tbl8: &[],
    };
    let mut rib = Rib::new(memory);
    for nic in 0..2 {
        let gateway = u32::from_be_bytes([10, 0, nic, 2]);
        let prefix = u32::from_be_bytes([192, 168, nic, 0]);
        rib.add(prefix, 24, NextHop::Gateway { nic, gateway }).expect("an empty table takes two routes");
    }
    Table::new(memory)
}

/// Returns the best of several rounds, in nanoseconds per frame.
fn measure(mut burst: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        (0..BURSTS / 10).for_each(|_| burst());
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / (BURSTS / 10 * BURST) as f64);
    }
    best
}

fn main() {
    let mut pool = pool();
    let mut frames = Burst::new();
    let alone = measure(|| {
        pool.receive(0, &mut frames);
        black_box(&mut frames);
        pool.transmit(0, &mut frames);
    });

    let buckets = [const { Bucket::new() }; 16];
    let (neighbours, counters) = (Neighbours::new(&buckets), RouterCounters::default());
    for nic in 0..2 {
        let ip = u32::from_be_bytes([10, 0, nic, 2]);
        assert!(neighbours.add_static(Neighbour { nic, ip: ip.into(), mac: Mac([2, 0, 0, 0, 1, nic]) }));
    }
    let addresses = [0, 1].map(|nic| [Address { ip: u32::from_be_bytes([10, 0, nic, 1]), prefix: 24 }]);
    let interfaces = [0, 1].map(|nic: usize| Interface {
        mac: OWN,
        mtu: 1500,
        addresses: &addresses[nic],
        addresses6: &[],
        advertise: None,
        vlan: None,
        reverse_path: ReversePath::Off,
    });
    let config = Config {
        interfaces: &interfaces,
        keeper: false,
        answers_arp: false,
        redirects: false,
        shares_addresses: false,
        table: 0,
    };
    let mut adjacencies = Adjacencies::new();
    let (mut waiting, mut interfaces) = (Waiting::new(), Interfaces::new());
    let parts = RouterResources {
        routes: routes(),
        neighbours: &neighbours,
        adjacencies: &mut adjacencies,
        interfaces: &mut interfaces,
        waiting: &mut waiting,
        counters: &counters,
        vlans: &[],
    };
    let mut router = Router::new(&config, parts);
    pool.sent = [0; 2];
    let with_router = measure(|| {
        router.poll(&mut pool);
    });
    assert_eq!(pool.sent.iter().sum::<u64>(), counters.forwarded.get(), "every frame was forwarded");
    assert_eq!(pool.sent[0], pool.sent[1], "half of the frames to each route");
    println!("pool {alone:.2} ns/frame, pool and router {with_router:.2}, router {:.2}", with_router - alone);
}
