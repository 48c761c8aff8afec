extern crate std;
use std::{vec, vec::Vec};

use super::*;

#[test]
fn contiguous_areas_are_aligned_and_do_not_overlap() {
    for shift in 0..=15 {
        let size = 1 << shift;
        let layout = Layout::contiguous(size, 0x1000);
        assert!(layout.available.is_multiple_of(2) && layout.used.is_multiple_of(4), "{layout:?}");
        assert!(layout.available >= layout.descriptors + 16 * u64::from(size));
        assert!(layout.used >= layout.available + available_octets(size));
        assert!(0x1000 + Layout::octets(size) >= layout.used + used_octets(size));
    }
}

/// Guest memory for one test: a queue at the start, buffers behind it.
struct Memory {
    octets: Vec<u64>,
}

impl Memory {
    fn new() -> Self {
        Self { octets: vec![0; 64 * 1024] }
    }

    fn region(&mut self) -> crate::Region {
        let (base, len) = (self.octets.as_mut_ptr().cast(), self.octets.len() as u64 * 8);
        // SAFETY: the vector outlives the queues of the test and nothing else refers to it meanwhile.
        unsafe { crate::Region::new(base, 0x10000, len) }
    }
}

#[test]
fn in_order_frames_go_round() {
    let mut memory = Memory::new();
    let region = memory.region();
    let at = region.start().next_multiple_of(64)
        + (64 - region.translate(region.start(), 1).unwrap() as u64 % 64) % 64;
    let layout = Layout::contiguous(256, at);
    let features = Features { in_order: true, ..Features::default() };
    let mut tokens = vec![core::mem::MaybeUninit::uninit(); 256];
    let mut driver = InOrderDriver::<u32>::new(region, &layout, features, &mut tokens).unwrap();
    let mut device = DeviceQueue::new(region, &layout, features).unwrap();
    let mut burst = Burst::new();
    for round in 0..5000u32 {
        for i in 0..48 {
            assert!(driver.push(round * 48 + i, 0x20000 + u64::from(i) * 64, 64, true));
        }
        driver.publish();
        assert_eq!(device.take_writable(64, &mut burst), Ok(48));
        for chain in burst.chains() {
            device.complete(chain, 60);
        }
        assert!(device.publish());
        let mut next = round * 48;
        let popped = driver.pop(64, |token, written| {
            assert_eq!((token, written), (next, 60));
            next += 1;
        });
        assert_eq!(popped, Ok(48));
    }
}
