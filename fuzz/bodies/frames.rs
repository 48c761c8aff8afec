//! Arbitrary frames, at any time, with any number of free buffers: the router counts each frame under exactly one
//! name, keeps no buffers but those of packets that wait for a neighbour, and never panics.
//!
//! The input is a list of steps: an octet that selects the NIC and the repairs (Ethernet header, IPv4 checksum), an
//! octet of length, and the frame's octets. Length 0 lets time pass and changes the number of free buffers.

use std::collections::VecDeque;

use frame::{Mac, checksum, ethernet};
use ledger::{Group, RouterCounters};
use router::{
    Address, Address6, Adjacencies, Bucket, Buffer, Burst, CHOICES, Config, HEAD, Interface, Interfaces, Ip,
    Neighbour, Neighbours, NextHop, Platform, ReversePath, Router, RouterResources, Routes, Routes6, Waiting,
};

const NICS: usize = 3;
const CAPACITY: usize = 2048;
/// The networks of the NICs: the third group is the number of the NIC.
const NET6: u128 = 0x2001_0db8 << 96;
const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);

struct Octets {
    octets: Box<[u8; CAPACITY]>,
    len: usize,
}

impl Buffer for Octets {
    fn head(&mut self) -> &mut [u8; HEAD] {
        self.octets.first_chunk_mut().expect("a buffer is longer than a head")
    }
    fn len(&self) -> usize {
        self.len
    }
    fn set_len(&mut self, octets: usize) {
        self.len = octets.min(CAPACITY);
    }
    fn octets(&mut self) -> &mut [u8] {
        &mut self.octets[..self.len]
    }
    fn prefetch(&self) {}
}

#[derive(Default)]
struct World {
    rx: [VecDeque<Octets>; NICS],
    received: u64,
    sent: u64,
    /// Number of buffers that the router holds.
    out: usize,
    free: usize,
    now: u64,
}

impl Platform for World {
    type Buffer = Octets;
    fn nics(&self) -> usize {
        NICS
    }
    fn receive(&mut self, nic: usize, burst: &mut Burst<Octets>) {
        while !burst.is_full() {
            let Some(buffer) = self.rx[nic].pop_front() else { break };
            burst.push(buffer);
            self.received += 1;
            self.out += 1;
        }
    }
    fn transmit(&mut self, _: usize, burst: &mut Burst<Octets>) {
        self.sent += burst.len() as u64;
        self.out -= burst.len();
        assert!(burst.drain(..).all(|frame| frame.len >= ethernet::HEADER));
    }
    fn allocate(&mut self) -> Option<Octets> {
        self.free = self.free.checked_sub(1)?;
        self.out += 1;
        Some(Octets { octets: Box::new([0xee; CAPACITY]), len: 0 })
    }
    fn free(&mut self, _: Octets) {
        self.out -= 1;
    }
    fn now(&self) -> u64 {
        self.now
    }
}

/// Routes by the second octet: connected, through gateways known and unknown, local, without a NIC, a group, no route.
#[derive(Clone, Copy)]
struct Octet;

impl Routes for Octet {
    type Step = u32;
    type Six = Half;
    fn six(&self) -> Half {
        Half
    }
    fn prefetch(&self, _: u32) {}
    fn first(&self, destination: u32) -> u32 {
        destination
    }
    fn second(&self, destination: u32) -> u32 {
        destination >> 16 & 15
    }
    fn next_hop(&self, index: u32) -> NextHop {
        match index {
            0 => NextHop::Connected { nic: 0 },
            1 => NextHop::Connected { nic: 1 },
            2 => NextHop::Gateway { nic: 2, gateway: 0x0a02_0002 },
            3 => NextHop::Gateway { nic: 1, gateway: 0x0a01_0003 },
            4 => NextHop::Gateway { nic: 6, gateway: 1 },
            5 => NextHop::Local,
            6 => NextHop::Gateway { nic: 0, gateway: 0x0a00_00ff },
            7 => NextHop::Group,
            _ => NextHop::None,
        }
    }
    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        match (index, hash >> 31) {
            (7, 0) => [2, 3, 6, 0],
            (7, _) => [3, 6, 2, 0],
            _ => [index, 0, 0, 0],
        }
    }
    fn epoch(&self) -> u32 {
        0
    }
}

/// IPv6 routes by the second half of the destination, to the same places.
#[derive(Clone, Copy)]
struct Half;

impl Routes6 for Half {
    type Step = u32;
    const STEPS: usize = 1;
    fn first(&self, destination: u128) -> u32 {
        destination as u32
    }
    fn is_done(&self, _: u32) -> bool {
        false
    }
    fn next(&self, step: u32) -> u32 {
        step & 15
    }
    fn found(&self, step: u32) -> u32 {
        step
    }
    fn next_hop(&self, index: u32) -> NextHop {
        match Octet.next_hop(index) {
            NextHop::Gateway { nic, gateway } => {
                NextHop::Gateway6 { nic, gateway: NET6 | u128::from(gateway) }
            }
            other => other,
        }
    }
    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        Octet.members(index, hash)
    }
    fn epoch(&self) -> u32 {
        0
    }
}

/// Returns a frame of the input, repaired as `how` says so that it passes the first checks.
fn frame(how: u8, octets: &[u8]) -> Octets {
    let mut buffer = Octets { octets: Box::new([0xee; CAPACITY]), len: 0 };
    // A large frame repeats its octets.
    let times = if how & 0x80 != 0 { 8 } else { 1 };
    buffer.set_len(octets.len() * times);
    buffer.octets().chunks_mut(octets.len()).for_each(|chunk| chunk.copy_from_slice(&octets[..chunk.len()]));
    let len = buffer.len;
    let frame = buffer.octets();
    if how & 4 != 0 && len >= ethernet::HEADER {
        let ethertype = match how & 0x48 {
            0x08 => ethernet::ARP,
            0x40 => ethernet::IPV6,
            _ => ethernet::IPV4,
        };
        let header = ethernet::Header { destination: OWN, source: Mac([2; 6]), ethertype };
        header.write(frame).expect("the frame is long enough");
    }
    if how & 16 != 0 && how & 0x48 == 0x40 && len >= 54 {
        frame[14] = 0x60 | frame[14] & 15;
        frame[18..20].copy_from_slice(&((len - 54) as u16).to_be_bytes());
    } else if how & 16 != 0 && len >= 34 {
        frame[14] = 0x40 | frame[14] & 15;
        frame[16..18].copy_from_slice(&((len - ethernet::HEADER) as u16).to_be_bytes());
        let end = (ethernet::HEADER + usize::from(frame[14] & 15) * 4).min(len);
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[ethernet::HEADER..end]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    if how & 32 != 0 && len >= 20 && how & 8 != 0 {
        frame[14..20].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
    }
    buffer
}

fn balance(world: &World, router: &Router<'_, Octets, Octet>, counters: &RouterCounters) {
    let mut ends = counters.forwarded.get() + counters.consumed.get() + router.held() as u64;
    counters.each(&mut |name, value| ends += if name.starts_with("drop_") { value } else { 0 });
    assert_eq!(world.received, ends, "{counters:?}");
    assert_eq!(world.out, router.held() + router.held_own());
    assert_eq!(world.sent, counters.forwarded.get() + counters.originated.get());
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let buckets = [const { Bucket::new() }; 4];
    let (neighbours, counters) = (Neighbours::new(&buckets), RouterCounters::default());
    for ip in [Ip::v4(0x0a02_0002), Ip::v6(NET6 | 0x0a02_0002)] {
        neighbours.add_static(Neighbour { nic: 2, ip, mac: Mac([2, 0, 0, 0, 1, 2]) });
    }
    let addresses = [0, 1, 2].map(|nic: u32| [Address { ip: 0x0a00_0001 | nic << 16, prefix: 24 }]);
    let addresses6 = [0, 1, 2].map(|nic: u128| [Address6 { ip: NET6 | nic << 64 | 1, prefix: 64 }]);
    let interfaces = [0, 1, 2].map(|nic: usize| Interface {
        mac: OWN,
        mtu: [1500, 576, 68][nic],
        addresses: &addresses[nic],
        addresses6: &addresses6[nic],
        advertise: None,
        vlan: None,
        reverse_path: [ReversePath::Off, ReversePath::Loose, ReversePath::Strict][nic],
    });
    let config = Config {
        interfaces: &interfaces,
        keeper: true,
        answers_arp: true,
        redirects: true,
        shares_addresses: false,
        table: 0,
    };
    let mut adjacencies = Box::new(Adjacencies::new());
    let (mut waiting, mut states) = (Box::new(Waiting::new()), Box::new(Interfaces::new()));
    let parts = RouterResources {
        routes: Octet,
        neighbours: &neighbours,
        adjacencies: &mut adjacencies,
        interfaces: &mut states,
        waiting: &mut waiting,
        counters: &counters,
        vlans: &[],
    };
    let mut router = Router::new(&config, parts);
    let mut world = World { free: 100, ..World::default() };

    let mut rest = input;
    while let [how, len, octets @ ..] = rest {
        let (octets, more) = octets.split_at(octets.len().min(usize::from(*len)));
        rest = more;
        if *len != 0 && !octets.is_empty() {
            world.rx[usize::from(how & 3) % NICS].push_back(frame(*how, octets));
            continue;
        }
        router.poll(&mut world);
        world.now += u64::from(*how) * 100;
        world.free = usize::from(how & 7) * 10;
        router.tick(&mut world);
        balance(&world, &router, &counters);
    }
    while router.poll(&mut world) > 0 {}
    balance(&world, &router, &counters);
}
