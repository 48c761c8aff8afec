//! Every ring of four entries over a small alphabet: no buffer outside of memory, no call over its budget, each chain
//! returned once.

use super::super::burst::MAX_SLOW_DESCRIPTORS;
use super::*;
use crate::BURST;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const SIZE: u16 = 4;
/// A table of two descriptors.
const TABLE: u64 = BUFFERS + 0x1000;
const BY_THE_BOOK: Features = Features { event_idx: false, indirect: true, in_order: false };
const IN_ORDER: Features = Features { in_order: true, ..BY_THE_BOOK };

/// A descriptor: address, length, flags, next.
type Entry = (u64, u32, u16, u16);
/// Kind of take of a device.
type Take = fn(&mut DeviceQueue, usize, &mut Burst) -> Result<usize, Broken>;
/// Heads that the driver makes available, and the distance that its index moves.
type Offer<'a> = (&'a [u16], u16);

/// One letter for each rule: the cases that a walk distinguishes.
const LETTERS: [Entry; 12] = [
    (BUFFERS, 8, 0, 0),
    (BUFFERS, 8, NEXT, 0),
    (BUFFERS, 8, NEXT, 1),
    (BUFFERS, 8, NEXT, 2),
    (BUFFERS, 8, NEXT, 3),
    (BUFFERS, 8, NEXT, SIZE),
    (BUFFERS, 0, NEXT, 3),
    (BUFFERS, 8, WRITE, 0),
    (BUFFERS, 8, WRITE | NEXT, 2),
    (START - 4, 8, 0, 0),
    (TABLE, 32, INDIRECT, 0),
    (TABLE, 24, INDIRECT, 0),
];

/// Further cases.
const MORE_LETTERS: [Entry; 8] = [
    (BUFFERS, 0, 0, 0),
    (BUFFERS, 0, NEXT, 0),
    (BUFFERS, u32::MAX, 0, 0),
    (u64::MAX, 2, NEXT, 1),
    (BUFFERS, 8, WRITE | NEXT, 1),
    (TABLE, 32, INDIRECT | NEXT, 1),
    (TABLE, 16, INDIRECT | WRITE, 0),
    (u64::MAX - 15, 32, INDIRECT, 0),
];

const OFFERS: [Offer<'static>; 7] = [
    (&[0], 1),
    (&[3], 1),
    (&[0, 1, 2, 3], 4),
    (&[3, 2, 1, 0], 4),
    (&[1, 1, 1, 1], 4),
    (&[0, SIZE], 2),
    (&[0, 1, 2, 3], 5),
];

/// State in which each ring is tried with each offer.
struct World {
    memory: Memory,
    region: Region,
    burst: Burst,
    rings: usize,
    /// Number of chains taken.
    taken: usize,
}

impl World {
    fn new() -> Self {
        let mut memory = Memory::new(SIZE);
        memory.describe_at(TABLE, 0, (BUFFERS, 8, NEXT, 1));
        memory.describe_at(TABLE, 1, (BUFFERS, 8, 0, 0));
        let region = memory.region();
        Self { memory, region, burst: Burst::new(), rings: 0, taken: 0 }
    }

    /// Tries every table of these letters, with each offer.
    fn every(&mut self, letters: &[Entry], offers: &[Offer<'_>], takes: &[Take]) {
        let letters = || letters.iter().copied().enumerate();
        let mut before = [usize::MAX; 4];
        for (a, first) in letters() {
            for (b, second) in letters() {
                for (c, third) in letters() {
                    for (d, fourth) in letters() {
                        let table = [(a, first), (b, second), (c, third), (d, fourth)];
                        for (entry, (letter, descriptor)) in (0..).zip(table) {
                            if before[usize::from(entry)] != letter {
                                self.memory.describe(entry, descriptor);
                                before[usize::from(entry)] = letter;
                            }
                        }
                        self.with_offers(offers, takes);
                    }
                }
            }
        }
    }

    fn with_offers(&mut self, offers: &[Offer<'_>], takes: &[Take]) {
        let layout = self.memory.layout();
        for &(heads, index) in offers {
            for (i, &head) in (0u64..).zip(heads) {
                self.memory.set_word(layout.available + 4 + 2 * i, head);
            }
            self.memory.set_word(layout.available + 2, index);
            for &take in takes {
                for features in [BY_THE_BOOK, IN_ORDER] {
                    self.memory.set_word(layout.used + 2, 0);
                    self.run(features, (heads, index), take);
                }
            }
        }
    }

    /// A device takes and returns all available chains.
    fn run(&mut self, features: Features, (heads, index): Offer<'_>, take: Take) {
        let mut device = self.memory.device(features);
        let mut returned = 0;
        self.rings += 1;
        loop {
            let (read, taken) = reads(|| take(&mut device, BURST, &mut self.burst));
            assert!(read <= MAX_SLOW_DESCRIPTORS + BURST + 1, "{read} descriptors in one call");
            if taken.unwrap_or(0) == 0 {
                break;
            }
            for chain in self.burst.chains() {
                let buffers = self.burst.readable(chain).iter().chain(self.burst.writable(chain));
                assert!(buffers.clone().all(|buffer| self.holds(buffer)), "a buffer outside of memory");
            }
            device.complete_all(&self.burst);
            device.publish();
            returned = self.returned(features, heads, returned);
        }
        let broken = device.broken();
        assert!(returned <= index && (broken.is_some() || returned == index), "{returned}, {broken:?}");
        self.taken += usize::from(returned);
    }

    /// Checks the used ring after the first `from` chains; returns how many there are.
    fn returned(&mut self, features: Features, heads: &[u16], from: u16) -> u16 {
        let now = self.memory.used_index();
        let taken: Vec<u16> = self.burst.chains().iter().map(Chain::head).collect();
        assert_eq!(usize::from(now - from), taken.len());
        if features.in_order {
            // One entry for the burst, in the place of its first chain.
            assert_eq!(Some(self.memory.used_entry(from).0 as u16), taken.last().copied());
        } else {
            let used = Vec::from_iter((from..now).map(|i| self.memory.used_entry(i).0 as u16));
            assert_eq!(used, taken);
            assert_eq!(taken, heads[usize::from(from)..usize::from(now)]);
        }
        now
    }

    fn holds(&self, buffer: &crate::Bytes<'_>) -> bool {
        let start = self.region.translate(START, 0).expect("its start") as u64;
        let at = (buffer.as_ptr() as u64).checked_sub(start);
        at.is_some_and(|at| at + buffer.len() as u64 <= self.region.len())
    }
}

#[test]
fn every_ring_of_one_letter_for_each_rule() {
    let mut world = World::new();
    world.every(&LETTERS, &OFFERS, &[DeviceQueue::take_mixed]);
    assert_eq!(world.rings, 12usize.pow(4) * 7 * 2);
    assert!(world.taken > world.rings / 10, "{} of {} rings", world.taken, world.rings);
}

mod all {
    use super::*;

    #[test]
    fn every_ring_of_every_letter() {
        let letters = [&LETTERS[..], &MORE_LETTERS].concat();
        World::new().every(&letters, &OFFERS, &[DeviceQueue::take_writable, DeviceQueue::take_mixed]);
    }

    #[test]
    fn every_ring_with_every_offer() {
        let heads = || 0..=SIZE;
        let all =
            heads().flat_map(|a| heads().flat_map(move |b| heads().map(move |c| [a, b, c, 3 - a.min(3)])));
        let all: Vec<[u16; 4]> = all.collect();
        let offers: Vec<Offer<'_>> = all.iter().map(|heads| (&heads[..], SIZE)).collect();
        World::new().every(&LETTERS[..8], &offers, &[DeviceQueue::take_mixed]);
    }
}
