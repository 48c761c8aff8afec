//! A guest that writes arbitrary data into its rings, at any time, against the device side of a queue and the
//! virtio-net data path on it. Finds panics, hangs, and accesses outside guest memory.

use ledger::NicDirection;
use nic::virtio_net::rx::RxQueue;
use nic::virtio_net::tx::TxQueue;
use port::Frame;
use ring::split::{Burst, Chain, DeviceQueue, Features, Layout};
use ring::{BURST, Bytes, Region};

/// Guest-physical address of the memory.
const START: u64 = 0x1000;
/// Length of the memory in octets.
const LEN: u64 = 0x2000;
/// Largest frame that the transmit queue accepts.
const LONGEST: usize = 1514;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&[kind, shift, index], rest)) = input.split_first_chunk() else { return };
    let (orders, content) = rest.split_at(rest.len().min(64));
    let mut octets = vec![0u128; LEN as usize / 16];
    // SAFETY: `octets` outlives all that uses the region, which nothing else refers to meanwhile.
    let region = unsafe { Region::new(octets.as_mut_ptr().cast(), START, LEN) };
    let layout = Layout::contiguous(1 << (shift % 7), START);
    fill(&region, &layout, content);
    write_word(&region, layout.available + 2, u16::from(index));
    let features = Features { event_idx: kind & 1 != 0, indirect: kind & 2 != 0, in_order: kind & 4 != 0 };
    let first = if kind & 8 != 0 { u16::from(index).wrapping_sub(9) } else { 0 };
    let queue = DeviceQueue::resume(region, &layout, features, first).expect("the layout fits");
    match kind >> 6 {
        0 | 1 => bare(queue, &region, &layout, orders),
        2 => transmit(TxQueue::new(queue, LONGEST), &region, &layout, orders),
        _ => receive(RxQueue::new(queue, kind & 16 != 0), &region, &layout, orders),
    }
}

/// Fills guest memory with the fuzzer's input; the addresses in the table are moved close to the memory, because
/// otherwise nothing would pass the first check.
fn fill(region: &Region, layout: &Layout, content: &[u8]) {
    let all = region.bytes(START, LEN as u32).expect("all of it");
    all.copy_from_slice(content);
    for entry in 0..u64::from(layout.size) {
        let at = region.bytes(layout.descriptors + 16 * entry, 8).expect("in the table");
        let address = u64::from_le_bytes(at.read(0).expect("8 octets"));
        if address >> 63 == 0 {
            at.write(0, (START - 8 + address % (LEN + 16)).to_le_bytes());
        }
    }
}

/// Writes a word if its address is in memory.
fn write_word(region: &Region, address: u64, word: u16) {
    if let Some(bytes) = region.bytes(address, 2) {
        bytes.write(0, word.to_le_bytes());
    }
}

/// Actions of the guest between two steps of the device.
fn mutate(region: &Region, layout: &Layout, order: u8, operand: u8) {
    let operand = u16::from(operand);
    match order >> 6 {
        0 => {}
        1 => write_word(region, layout.available + 2, operand),
        2 => write_word(region, START + u64::from(operand) * 2, u16::from(order).wrapping_mul(operand)),
        _ => write_word(region, layout.descriptors + u64::from(operand) * 16 + 12, u16::from(order & 7)),
    }
}

/// Tests the device side of a queue alone.
fn bare(mut queue: DeviceQueue, region: &Region, layout: &Layout, orders: &[u8]) {
    let mut burst = Burst::new();
    for order in orders.chunks_exact(2) {
        mutate(region, layout, order[0], order[1]);
        let max = usize::from(order[1]);
        let taken = match order[0] & 7 {
            0 => queue.take_readable(max, &mut burst),
            1 => queue.take_writable(max, &mut burst),
            2 => queue.take_mixed(max, &mut burst),
            3 => queue.ready(max),
            4 => {
                queue.give_back(&mut burst, max);
                Ok(0)
            }
            5 => Ok(usize::from(queue.arm())),
            6 => {
                queue.disarm();
                Ok(0)
            }
            _ => Ok(usize::from(queue.publish())),
        };
        assert!(taken.is_ok() || queue.broken().is_some());
        if order[0] & 7 < 3 {
            burst.chains().iter().for_each(|chain| use_up(&burst, chain));
            queue.complete_all(&burst);
        }
        if order[0] & 7 == 4 {
            burst = Burst::new();
        }
    }
}

/// Reads and writes every octet of a chain.
fn use_up(burst: &Burst, chain: &Chain) {
    let mut copy = [0; LEN as usize];
    for bytes in burst.readable(chain) {
        assert_eq!(bytes.copy_to_slice(&mut copy), bytes.len());
    }
    for bytes in burst.writable(chain) {
        bytes.copy_from_slice(&copy);
    }
}

fn transmit(mut queue: TxQueue, region: &Region, layout: &Layout, orders: &[u8]) {
    let ledger = NicDirection::default();
    for order in orders.chunks_exact(2) {
        mutate(region, layout, order[0], order[1]);
        let mut shown = 0;
        let drained = queue.drain(usize::from(order[1]), &ledger, &mut |frames| {
            shown = frames.len();
            for frame in frames {
                let mut copy = [0; LONGEST];
                assert!((14..=LONGEST).contains(&frame.len()));
                assert_eq!(frame.octets().copy_to_slice(&mut copy), frame.len());
            }
        });
        assert!(shown <= drained.frames && drained.frames <= BURST);
    }
}

fn receive(mut queue: RxQueue, region: &Region, layout: &Layout, orders: &[u8]) {
    let ledger = NicDirection::default();
    let mut octets = [0x5a; LONGEST];
    let all = Bytes::from_slice(&mut octets);
    let mut given = 0;
    for order in orders.chunks_exact(2) {
        mutate(region, layout, order[0], order[1]);
        let len = 14 + u32::from(order[1]) * 5;
        let frames = vec![Frame::new(all.take(len)); usize::from(order[0] & 31)];
        let filled = queue.fill(&frames, &ledger);
        assert!(filled.taken <= frames.len());
        given += filled.taken as u64;
    }
    assert_eq!(ledger.frames.get() + ledger.drop_too_long.get() + ledger.drop_bad_ring.get(), given);
}
