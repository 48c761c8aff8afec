//! A guest that changes words of its rings, tables and frames between two reads of the device, against a queue and the
//! virtio-net data path on it, or against those of an e1000 (`double_fetch_e1000.rs`). Finds code that checks one value and
//! uses another: panics, hangs, accesses outside guest memory, chains returned twice or never, and frames lost without being
//! counted under a name.
//!
//! The input consists of four octets with the initial configuration, then [`STEPS`] steps of 12 octets: the action, the
//! amount, and two stores (after how many reads, where, what); the rest is guest memory. The stores happen between reads if
//! the program is built for fuzzing, which enables the device's hook (`ring::concurrent_stores`); otherwise they all happen before a
//! step.

use frame::offload::LARGEST;
use ledger::NicDirection;
use nic::virtio_net::rx::RxQueue;
use nic::virtio_net::tx::TxQueue;
use port::{Frame, Offload, Offloads, show_completed};
use ring::split::{Burst, DeviceQueue, Features, Layout};
use ring::{BURST, Bytes, Region};

#[path = "double_fetch_e1000.rs"]
mod e1000;

/// Guest-physical address of the memory.
const START: u64 = 0x1000;
/// Length of the memory in octets.
const LEN: u64 = 0x2000;
/// Largest frame that the transmit queue accepts, unless it is to be segmented.
const LONGEST: usize = 1514;
/// Most steps of an input.
const STEPS: usize = 8;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&[kind, shift, index, takes], rest)) = input.split_first_chunk() else { return };
    if kind & 32 != 0 {
        e1000::run(kind, shift, index, takes, rest);
    } else {
        virtio([kind, shift, index, takes], rest);
    }
    #[cfg(fuzzing)]
    ring::concurrent_stores::plan(Vec::new());
}

/// Tests a split ring.
fn virtio([kind, shift, index, takes]: [u8; 4], rest: &[u8]) {
    let (steps, content) = rest.split_at(rest.len().min(STEPS * 12));
    let mut octets = vec![0u128; LEN as usize / 16];
    // SAFETY: `octets` outlives all that uses the region, which nothing else refers to meanwhile.
    let region = unsafe { Region::new(octets.as_mut_ptr().cast(), START, LEN) };
    let world = World { region, layout: Layout::contiguous(1 << (shift % 7), START) };
    world.fill(content, u16::from(index));
    let features = Features { event_idx: kind & 1 != 0, indirect: kind & 2 != 0, in_order: kind & 4 != 0 };
    let first = if kind & 8 != 0 { u16::from(index).wrapping_sub(9) } else { 0 };
    let queue = DeviceQueue::resume(region, &world.layout, features, first).expect("the layout fits");
    let (steps, offloads) = (steps.as_chunks::<12>().0, Offloads::from_bits(takes).consistent());
    match kind >> 6 {
        0 => world.bare(queue, steps, first),
        1 | 2 => world.transmit(TxQueue::new(queue, LONGEST).with_offloads(offloads), steps, first),
        _ => world.receive(RxQueue::new(queue, kind & 16 != 0).with_offloads(offloads), steps),
    }
}

/// Schedules the stores of a step, each at its time, to the words that `place` selects.
fn plan(step: &[u8; 12], place: impl Fn(u8, u8) -> Option<Bytes<'static>>) {
    let stores = step[2..].as_chunks::<5>().0.iter().filter_map(|[after, low, high, octets @ ..]| {
        Some((u32::from(*after), place(*low, *high)?, *octets))
    });
    #[cfg(fuzzing)]
    ring::concurrent_stores::plan(
        stores
            .map(|(after, place, octets)| ring::concurrent_stores::Store { after, place, octets })
            .collect(),
    );
    #[cfg(not(fuzzing))]
    for (_, place, octets) in stores {
        place.write(0, octets);
    }
}

struct World {
    region: Region,
    layout: Layout,
}

impl World {
    /// Fills guest memory with the fuzzer's input; addresses in the table are moved close to the memory, because otherwise
    /// nothing would pass the first check.
    fn fill(&self, content: &[u8], index: u16) {
        let all = self.region.bytes(START, LEN as u32).expect("all of it");
        all.copy_from_slice(content);
        for entry in 0..u64::from(self.layout.size) {
            let at = self.region.bytes(self.layout.descriptors + 16 * entry, 8).expect("in the table");
            let address = u64::from_le_bytes(at.read(0).expect("8 octets"));
            at.write(0, (START - 8 + address % (LEN + 16)).to_le_bytes());
        }
        self.word(self.layout.available + 2).expect("in the ring").write(0, index.to_le_bytes());
    }

    fn word(&self, address: u64) -> Option<Bytes<'static>> {
        self.region.bytes(address, 2)
    }

    /// Returns a word that the guest may change. Words that only the device writes are excluded: by changing them a guest
    /// would only change its own input.
    fn place(&self, low: u8, high: u8) -> Option<Bytes<'static>> {
        let layout = &self.layout;
        let address = match high >> 6 {
            0 => START + 2 * (u64::from(high & 0x3f) << 8 | u64::from(low)) % LEN,
            1 => layout.descriptors + 16 * u64::from(low % layout.size as u8) + 2 * u64::from(high & 7),
            2 => layout.available + 2 * u64::from(low) % (6 + 2 * u64::from(layout.size)),
            _ => layout.available + 2,
        };
        let used = layout.used..layout.used + 6 + 8 * u64::from(layout.size);
        if used.contains(&address) { None } else { self.word(address) }
    }

    /// Index of the used ring.
    fn used(&self) -> u16 {
        u16::from_le_bytes(
            self.word(self.layout.used + 2).and_then(|word| word.read(0)).expect("in the ring"),
        )
    }

    /// Returns true if octets are in guest memory.
    fn has(&self, bytes: &Bytes<'_>) -> bool {
        let start = self.region.translate(START, LEN).expect("all of it") as usize;
        let from = bytes.as_ptr() as usize;
        start <= from && from + bytes.len() <= start + LEN as usize
    }

    /// Tests the device side of a queue alone.
    fn bare(&self, mut queue: DeviceQueue, steps: &[[u8; 12]], first: u16) {
        let mut burst = Burst::new();
        let mut returned = first;
        for step in steps {
            plan(step, |low, high| self.place(low, high));
            let max = usize::from(step[1]);
            let taken = match step[0] & 7 {
                0..3 => queue.take_readable(max, &mut burst),
                3 => queue.take_writable(max, &mut burst),
                4 => queue.take_mixed(max, &mut burst),
                5 => queue.ready(max).map(|_| 0),
                6 => Ok(usize::from(queue.arm())),
                _ => {
                    queue.disarm();
                    Ok(0)
                }
            };
            assert!(taken.is_ok() || queue.broken().is_some());
            if step[0] & 7 < 5 {
                assert!(burst.len() <= max.min(BURST).min(usize::from(queue.size())));
                self.use_up(&burst);
                queue.complete_all(&burst);
                returned = returned.wrapping_add(burst.len() as u16);
                queue.publish();
                assert!(burst.is_empty() || self.used() == returned, "each chain is returned once");
                assert_eq!(queue.index(), returned);
                burst = Burst::new();
            }
        }
    }

    /// Checks every buffer of a burst.
    fn use_up(&self, burst: &Burst) {
        let mut copy = [0; LEN as usize];
        for chain in burst.chains() {
            assert!(chain.head() < self.layout.size);
            for bytes in burst.readable(chain).iter().chain(burst.writable(chain)) {
                assert!(self.has(bytes), "a buffer lies outside guest memory");
                assert_eq!(bytes.copy_to_slice(&mut copy), bytes.len());
            }
        }
    }

    fn transmit(&self, mut queue: TxQueue, steps: &[[u8; 12]], first: u16) {
        let (ledger, mut returned) = (NicDirection::default(), first);
        for step in steps {
            plan(step, |low, high| self.place(low, high));
            let drained = queue.drain(usize::from(step[1]), &ledger, &mut |frames| {
                for frame in frames {
                    look_at(frame, if frame.offload().gso().is_some() { LARGEST } else { LONGEST });
                }
                // Segments are as long as the guest declared; the receiver drops those that are too long.
                show_completed(frames, &mut |frames| frames.iter().for_each(|frame| look_at(frame, LARGEST)));
            });
            assert!(drained.frames <= BURST.min(usize::from(self.layout.size)));
            returned = returned.wrapping_add(drained.frames as u16);
            assert_eq!(queue.index(), returned);
            assert!(drained.frames == 0 || self.used() == returned, "each chain is returned once");
            match step[0] & 3 {
                0 => _ = queue.arm(),
                1 => queue.disarm(),
                _ => {}
            }
        }
        let dropped = [&ledger.drop_too_long, &ledger.drop_too_short, &ledger.drop_bad_offload];
        let out = ledger.frames.get() + dropped.map(|counter| counter.get()).iter().sum::<u64>();
        assert_eq!(out, u64::from(returned.wrapping_sub(first)), "in = out + named drops");
    }

    fn receive(&self, mut queue: RxQueue, steps: &[[u8; 12]]) {
        let (ledger, mut given) = (NicDirection::default(), 0);
        let mut octets = [0x5a; LONGEST];
        let all = Bytes::from_slice(&mut octets);
        for step in steps {
            plan(step, |low, high| self.place(low, high));
            let left =
                Offload::checksum(14, u16::from(step[1])).filter(|left| queue.offloads().has(left.needed()));
            let frame = Frame::with_offload(all.take(64 + u32::from(step[1]) * 5), left.unwrap_or_default());
            let frames = vec![frame; usize::from(step[0]) % (BURST + 1)];
            let before = ledger.frames.get();
            let filled = queue.fill(&frames, &ledger);
            assert!(filled.taken <= frames.len());
            given += filled.taken as u64;
            assert!(
                ledger.frames.get() == before || self.used() == queue.index(),
                "each chain is returned once"
            );
        }
        let dropped = [&ledger.drop_too_long, &ledger.drop_bad_ring, &ledger.drop_bad_offload];
        let out = ledger.frames.get() + dropped.iter().map(|counter| counter.get()).sum::<u64>();
        assert_eq!(out, given, "in = out + named drops");
    }
}

/// Checks that a frame has its declared length, and that its offload metadata fits it.
fn look_at(frame: &Frame<'_>, longest: usize) {
    let mut copy = [0; LARGEST];
    assert!((14..=longest).contains(&frame.len()) && frame.offload().fits(frame.len()));
    assert_eq!(frame.octets().copy_to_slice(&mut copy), frame.len());
}
