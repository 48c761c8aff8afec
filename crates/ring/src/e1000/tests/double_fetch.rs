//! A driver that changes a word between two reads of the device: the value used is the value checked.

use super::*;
use crate::concurrent_stores::{Store, plan, reads};

const ENTRIES: u16 = 8;
/// Number of waiting descriptors.
const WAITING: u16 = 4;

/// Creates a ring with descriptors that wait according to their block.
fn prepared() -> Memory {
    let mut memory = Memory::new(ENTRIES);
    for position in 0..WAITING {
        memory
            .describe(position, Descriptor::legacy(BUFFERS + 64 * u64::from(position), 60, tx::EOP | tx::RS));
    }
    memory.set_word(at::TX_TAIL, WAITING);
    memory
}

/// One burst of a device: polls, takes all waiting descriptors, returns them and publishes. Returns how many it has
/// taken, and the descriptors that it has read.
fn burst(device: &mut DeviceRing<&HeadTail>) -> (usize, Vec<Descriptor>) {
    let waiting = device.ready(usize::from(ENTRIES)).unwrap_or(0);
    let (first, read) = (device.next(), device.descriptors(waiting).collect::<Vec<_>>());
    device.take(waiting);
    for (n, descriptor) in read.iter().enumerate() {
        device.write_back(first, n, descriptor.done());
    }
    device.release(waiting);
    device.publish();
    (waiting, read)
}

/// Addresses of the words that the driver may change: tail, interrupt suppression, and the ring.
fn words() -> impl Iterator<Item = u64> {
    let ring = (0..u64::from(ENTRIES) * 8).map(|word| START + 2 * word);
    [at::TX_TAIL, at::NO_TX_INTERRUPT].map(|offset| BLOCK + offset).into_iter().chain(ring)
}

/// Number of words that a device reads of this ring before it writes to it: the tail, and two words of each descriptor.
const READS: u32 = 1 + 2 * WAITING as u32;

#[test]
fn a_burst_is_as_many_reads_as_it_has_words() {
    let (mut memory, ends) = (prepared(), HeadTail::new());
    let csb = memory.csb();
    let mut device = DeviceRing::transmit(memory.region(), &memory.layout(), &ends, Some(csb)).unwrap();
    plan(vec![]);
    assert_eq!(burst(&mut device).0, usize::from(WAITING));
    assert_eq!(reads(), READS + 1, "and the wish");
}

#[test]
fn whatever_word_changes_before_whatever_read_head_and_status_are_of_what_was_read() {
    let mut broken = 0;
    for (word, after) in words().flat_map(|word| (0..READS).map(move |after| (word, after))) {
        for value in [0, 1, 7, 8, 0xffff] {
            let (mut memory, ends) = (prepared(), HeadTail::new());
            let (region, csb) = (memory.region(), memory.csb());
            let mut device = DeviceRing::transmit(region, &memory.layout(), &ends, Some(csb)).unwrap();
            let place = region.bytes(word, 2).unwrap();
            plan(vec![Store { after, place, octets: u16::to_le_bytes(value) }]);
            let (taken, read) = burst(&mut device);
            plan(vec![]);
            assert!(taken < usize::from(ENTRIES) && read.len() == taken);
            assert_eq!((usize::from(ends.head()), memory.word(at::TX_HEAD)), (taken, ends.head()));
            for (position, descriptor) in (0..).zip(&read) {
                assert_eq!(
                    memory.descriptor(position).rest,
                    descriptor.done(),
                    "{word:#x} is {value} after {after}"
                );
            }
            broken += u32::from(device.broken().is_some());
        }
    }
    assert_eq!(broken, 2, "tails outside of the ring, before they are read: the changes take place");
}
