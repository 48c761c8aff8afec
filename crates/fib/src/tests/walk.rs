//! BPF programs look destinations up in the bytes of both tables, which lie in an array map in elements of 8 octets, and find what
//! the tables' own readers find: by indices, in bounded depth, and without a search that needs SIMD.

extern crate std;

mod program;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bpf::{Map, Purpose};

use self::program::{ANSWER, ELEMENT, Maps, TOLD};
use super::{memory, via, via6};
use crate::layout::{self, Header, IS_GROUP, Memory};
use crate::six::layout::{self as layout6, Entry, Kind};
use crate::six::table::unpack;
use crate::six::tests::memory as memory_of_six;
use crate::synthetic::Random;
use crate::{Error, NextHop, Refusal, Rib, Routes, Routes6, Way, six, synthetic};

/// Synthetic routes of each family.
const ROUTES: usize = 2000;
/// Room of the tables.
const GROUPS: usize = 1024;
const NODES: usize = 1024;
const RANGES: usize = 1 << 17;
/// How often the routes change, and destinations of each family that are looked up after that.
const ROUNDS: u32 = 4;
const LOOKUPS: usize = 1000;
/// Error number: the user may not do that.
const EPERM: i32 = 1;

/// Both tables, the second one behind the first, and prefixes whose routes come and go: the network address is in the first bits.
struct Tables {
    four: Rib<'static>,
    six: six::Rib<'static>,
    memory: (Memory<'static>, six::Memory<'static>),
    prefixes: Vec<(u128, u8)>,
    prefixes_of_six: Vec<(u128, u8)>,
}

/// What happens to a route.
enum Change {
    Removed,
    Changed(NextHop),
    Spread(Vec<Way>),
}

/// Offset of the IPv6 table in octets.
const fn six_at() -> usize {
    layout::len(GROUPS).next_multiple_of(4096)
}

impl Tables {
    fn new() -> Self {
        let memory = (memory(GROUPS), memory_of_six(NODES, RANGES));
        let (four, six) = (Rib::new(memory.0), six::Rib::new(memory.1));
        four.announce_six(six_at() as u64);
        Self { four, six, memory, prefixes: prefixes(), prefixes_of_six: prefixes_of_six() }
    }

    /// Changes one in so many routes, which next hops are down, and whether there are default routes.
    fn change(&mut self, one_in: u32, has_default: bool, random: &mut Random) {
        for (prefix, len) in &self.prefixes {
            if random.below(one_in) == 0 {
                let prefix = (prefix >> 96) as u32;
                let done = match change(random) {
                    Change::Removed => self.four.remove(prefix, *len),
                    Change::Changed(next_hop) => self.four.add(prefix, *len, next_hop),
                    Change::Spread(ways) => self.four.add_ways(prefix, *len, &ways),
                };
                assert!(matches!(done, Ok(()) | Err(Error::Absent)), "{prefix:#x}/{len}: {done:?}");
                let epoch = self.four.publish();
                self.four.reclaim(epoch);
            }
        }
        for (prefix, len) in &self.prefixes_of_six {
            if random.below(one_in) == 0 {
                let done = match change(random) {
                    Change::Removed => self.six.remove(*prefix, *len),
                    Change::Changed(next_hop) => self.six.add(*prefix, *len, next_hop),
                    Change::Spread(ways) => self.six.add_ways(*prefix, *len, &ways),
                };
                assert!(matches!(done, Ok(()) | Err(Error::Absent)), "{prefix:#x}/{len}: {done:?}");
                let epoch = self.six.publish();
                self.six.reclaim(epoch);
            }
        }
        let (four, six) = (&mut self.four, &mut self.six);
        let done = if has_default {
            [four.add(0, 0, via(1)), six.add(0, 0, via6(1))]
        } else {
            [four.remove(0, 0), six.remove(0, 0)]
        };
        assert!(done.iter().all(|done| matches!(done, Ok(()) | Err(Error::Absent))), "{done:?}");
        // Now and then all of a bucket.
        let turn = random.below(3);
        self.four.set_down(|number, _| number % 3 != turn);
        self.six.set_down(|number, _| number % 3 != turn);
    }

    /// Returns the elements of the memory that are not zero, by their offsets in octets.
    fn elements(&self) -> impl Iterator<Item = (usize, u64)> {
        let six = elements_of_six(self.memory.1).map(|(at, element)| (six_at() + at, element));
        elements_of_four(self.memory.0).chain(six)
    }

    /// Returns true if an IPv6 entry of this kind is in use.
    fn has(&self, kind: Kind) -> bool {
        let words = self.memory.1.root.iter().chain(self.memory.1.nodes);
        words.map(|word| Entry(word.load(Relaxed))).any(|entry| entry.kind() == kind)
    }
}

fn elements_of_four(memory: Memory<'static>) -> impl Iterator<Item = (usize, u64)> {
    let header = memory.header;
    let first = [
        (offset_of!(Header, magic), header.magic.load(Relaxed)),
        (offset_of!(Header, default_route), together(&header.default_route, &header.epoch)),
        (offset_of!(Header, six_at), header.six_at.load(Relaxed)),
    ];
    first
        .into_iter()
        .chain(whole(offset_of!(Header, gateways6), header.gateways6.as_flattened()))
        .chain(whole(layout::NEXT_HOPS_AT, memory.next_hops))
        .chain(whole(layout::BUCKETS_AT, memory.buckets))
        .chain(pairs(layout::TBL24_AT, memory.tbl24))
        .chain(pairs(layout::TBL8_AT, memory.tbl8))
}

fn elements_of_six(memory: six::Memory<'static>) -> impl Iterator<Item = (usize, u64)> {
    let header = memory.header;
    let first = [
        (offset_of!(layout6::Header, magic), header.magic.load(Relaxed)),
        (offset_of!(layout6::Header, default_route), together(&header.default_route, &header.epoch)),
        (offset_of!(layout6::Header, nodes), together(&header.nodes, &header.ranges)),
    ];
    first
        .into_iter()
        .chain(whole(layout6::NEXT_HOPS_AT, memory.next_hops))
        .chain(whole(layout6::BUCKETS_AT, memory.buckets))
        .chain(whole(layout6::ROOT_AT, memory.root))
        .chain(whole(layout6::NODES_AT, memory.nodes))
        .chain(whole(layout6::NODES_AT + ELEMENT * memory.nodes.len(), memory.ranges))
}

fn whole(at: usize, words: &'static [AtomicU64]) -> impl Iterator<Item = (usize, u64)> {
    let elements = words.iter().map(|word| word.load(Relaxed)).enumerate();
    elements.filter(|(_, element)| *element != 0).map(move |(n, element)| (at + ELEMENT * n, element))
}

fn pairs(at: usize, words: &'static [AtomicU32]) -> impl Iterator<Item = (usize, u64)> {
    let elements = words.chunks_exact(2).map(|pair| together(&pair[0], &pair[1])).enumerate();
    elements.filter(|(_, element)| *element != 0).map(move |(n, element)| (at + ELEMENT * n, element))
}

/// Returns the element of two words that follow each other in memory.
fn together(one: &AtomicU32, next: &AtomicU32) -> u64 {
    u64::from(next.load(Relaxed)) << 32 | u64::from(one.load(Relaxed))
}

/// Prefixes like those of the Internet, and some in a /24.
fn prefixes() -> Vec<(u128, u8)> {
    let hosts = (0..40).map(|n| (0x0a01_0200 + 3 * n, 32));
    let networks = [(0x0a01_0000, 16), (0x0a01_0200, 26), (0x0a01_0280, 25)];
    let synthetic = synthetic::prefixes(ROUTES, 1).into_iter().map(|known| (known.prefix, known.len));
    let all = synthetic.chain(hosts).chain(networks);
    all.map(|(prefix, len)| (u128::from(prefix) << 96, len)).collect()
}

/// Prefixes like those of the Internet, and some in a /64.
fn prefixes_of_six() -> Vec<(u128, u8)> {
    const NET: u128 = 0x2001_0db8 << 96;
    let hosts = (0..200).map(|n| (NET + 5 * n, 128));
    let long = (0..50).map(|n| (NET | n << 20, 108));
    let networks = [(NET, 32), (NET, 64), (NET | 0x10, 126)];
    let synthetic = six::synthetic::prefixes(ROUTES, 2).into_iter().map(|known| (known.prefix, known.len));
    synthetic.chain(hosts).chain(long).chain(networks).collect()
}

fn change(random: &mut Random) -> Change {
    match random.below(8) {
        0 | 1 => Change::Removed,
        2 => {
            let first = random.below(8);
            let way = |n: u32| Way { next_hop: via(first + n), weight: n as u8 + 1 };
            Change::Spread((0..random.below(5) + 2).map(way).collect())
        }
        _ => Change::Changed(some_next_hop(random)),
    }
}

fn some_next_hop(random: &mut Random) -> NextHop {
    match random.below(8) {
        0 => NextHop::Local,
        1 => NextHop::Connected { nic: random.below(32) as u8 },
        2 => NextHop::Refused(Refusal::numbered(1 + random.below(3))),
        3 | 4 => via6(random.below(50)),
        _ => via(random.below(1000)),
    }
}

/// Returns an address: any, one of a route, or one beside it.
fn some_address(prefixes: &[(u128, u8)], random: &mut Random) -> u128 {
    let (prefix, len) = prefixes[random.below(prefixes.len() as u32) as usize];
    let last = prefix | u128::MAX.checked_shr(len.into()).unwrap_or(0);
    let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    match random.below(8) {
        0 | 1 => any,
        2 => prefix.wrapping_sub(1),
        3 => last.wrapping_add(1),
        _ => prefix | any & (last ^ prefix),
    }
}

/// The programs, and the map from which they read the tables.
struct Programs {
    tables: Map,
    answer: Map,
    four: OwnedFd,
    six: OwnedFd,
    /// What the map holds but zeros.
    held: BTreeMap<u32, u64>,
}

impl Programs {
    fn load() -> io::Result<Self> {
        let len = six_at() + layout6::len(NODES, RANGES);
        let tables = Map::new(bpf::Kind::Array, ELEMENT as u32, (len / ELEMENT) as u32)?;
        let answer = Map::new(bpf::Kind::Array, (ELEMENT * ANSWER) as u32, 1)?;
        let maps = Maps { tables: tables.as_fd(), answer: answer.as_fd() };
        let four = bpf::load(Purpose::SocketFilter, &program::four(maps))?;
        let six = bpf::load(Purpose::SocketFilter, &program::six(maps))?;
        Ok(Self { tables, answer, four, six, held: BTreeMap::new() })
    }

    /// Copies the memory into the map.
    fn copy(&mut self, elements: impl Iterator<Item = (usize, u64)>) {
        let new: BTreeMap<u32, u64> =
            elements.map(|(at, element)| ((at / ELEMENT) as u32, element)).collect();
        let emptied = self.held.keys().filter(|number| !new.contains_key(*number)).map(|number| (*number, 0));
        let changed = new.iter().filter(|(number, element)| self.held.get(*number) != Some(*element));
        for (number, element) in emptied.chain(changed.map(|(number, element)| (*number, *element))) {
            self.tables.put(number, &element.to_ne_bytes()).expect("an element");
        }
        self.held = new;
    }

    /// Runs a program for a packet of the flow with this hash; returns the number of the next hop, and the next hop.
    fn find(&self, program: &OwnedFd, destination: &[u8], hash: u32) -> (u32, NextHop) {
        // The program does not see the Ethernet header.
        let mut frame = Vec::from([0_u8; 14]);
        frame.extend(destination);
        frame.extend(hash.to_be_bytes());
        frame.resize(64, 0);
        assert_eq!(bpf::run(program.as_fd(), &frame).expect("it runs"), TOLD, "an element is not there");
        let mut answer = [0; ANSWER];
        self.answer.get(0, &mut answer).expect("the answer");
        let [number, hop @ ..] = answer;
        (number as u32, unpack(hop))
    }
}

/// Returns the value, or `None` if this user lacks the privilege.
fn granted<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(granted) => Some(granted),
        Err(error) if error.raw_os_error() == Some(EPERM) => {
            std::println!("SKIPPED: needs the right to use bpf(2)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_bpf_program_finds_in_the_same_bytes_what_a_reader_finds() {
    let Some(mut programs) = granted(Programs::load()) else { return };
    let (mut tables, mut random) = (Tables::new(), Random::new(21));
    let (mut with_route, mut without, mut spread) = (0, 0, 0);
    for round in 0..ROUNDS {
        tables.change(if round == 0 { 1 } else { 4 }, round % 2 == 1, &mut random);
        programs.copy(tables.elements());
        let (four, six) = (tables.four.reader(), tables.six.reader());
        for _ in 0..LOOKUPS {
            let hash = random.next_u64() as u32;
            let ip = (some_address(&tables.prefixes, &mut random) >> 96) as u32;
            let route = four.lookup(ip);
            let number = four.member(route, hash);
            let found = programs.find(&programs.four, &ip.to_be_bytes(), hash);
            assert_eq!(found, (number, four.next_hop(number)), "{ip:#x} {hash:#x} in round {round}");
            spread += usize::from(number != route);
            let ip = some_address(&tables.prefixes_of_six, &mut random);
            let route = six.lookup(ip);
            let number = six.member(route, hash);
            let found = programs.find(&programs.six, &ip.to_be_bytes(), hash);
            assert_eq!(found, (number, six.next_hop(number)), "{ip:#x} {hash:#x} in round {round}");
            spread += usize::from(number != route);
            *(if number == 0 { &mut without } else { &mut with_route }) += 1;
        }
        // Nothing that a look-up can meet was left out.
        assert!([Kind::Node, Kind::List, Kind::Wide].into_iter().all(|kind| tables.has(kind)), "{round}");
        assert!(tables.memory.0.tbl24.iter().any(|entry| entry.load(Relaxed) & IS_GROUP != 0), "{round}");
    }
    assert!(with_route > 100 && without > 100 && spread > 100, "{with_route} {without} {spread}");
}
