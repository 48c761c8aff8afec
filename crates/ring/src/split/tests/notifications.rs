//! Declined wishes stay declined however long the other end polls.

use super::*;

/// Pushes and returns one buffer `count` times; how many kicks and interrupts were wanted.
fn traffic(driver: &mut impl DriverQueue<u8>, device: &mut DeviceQueue, count: usize) -> (usize, usize) {
    let (mut kicks, mut interrupts, mut burst) = (0, 0, Burst::new());
    for _ in 0..count {
        assert!(driver.push(1, BUFFERS, 64, false));
        kicks += usize::from(driver.publish());
        device.take_readable(64, &mut burst).unwrap();
        device.complete_all(&burst);
        interrupts += usize::from(device.publish());
        driver.reclaim(64, |_| {}).unwrap();
    }
    (kicks, interrupts)
}

#[test]
fn pollers_are_never_notified() {
    for event_idx in [false, true] {
        let mut memory = Memory::new(16);
        let (region, layout) = (memory.region(), memory.layout());
        let features = Features { event_idx, in_order: true, ..Features::default() };
        let mut tokens = vec![core::mem::MaybeUninit::uninit(); 16];
        let mut driver = InOrderDriver::new(region, &layout, features, &mut tokens).unwrap();
        let mut device = memory.device(features);
        driver.disarm();
        device.disarm();
        assert_eq!(traffic(&mut driver, &mut device, 200_000), (0, 0), "event_idx {event_idx}");
    }
}

#[test]
fn a_new_queue_is_armed_at_both_ends() {
    for event_idx in [false, true] {
        let mut memory = Memory::new(16);
        let (region, layout) = (memory.region(), memory.layout());
        let features = Features { event_idx, ..Features::default() };
        let mut slots = vec![Slot::EMPTY; 16];
        let mut driver = Driver::new(region, &layout, features, &mut slots).unwrap();
        let mut device = memory.device(features);
        assert_eq!(traffic(&mut driver, &mut device, 1), (1, 1), "event_idx {event_idx}");
    }
}

#[test]
fn an_armed_end_is_notified_of_the_next_entry_and_told_of_what_is_there() {
    for event_idx in [false, true] {
        let mut memory = Memory::new(16);
        let (region, layout) = (memory.region(), memory.layout());
        let features = Features { event_idx, ..Features::default() };
        let mut slots = vec![Slot::EMPTY; 16];
        let mut driver = Driver::new(region, &layout, features, &mut slots).unwrap();
        let mut device = memory.device(features);
        driver.disarm();
        device.disarm();
        assert_eq!(traffic(&mut driver, &mut device, 100), (0, 0));
        assert!(!device.arm() && !driver.arm());
        assert_eq!(traffic(&mut driver, &mut device, 1), (1, 1), "event_idx {event_idx}");
        driver.disarm();
        device.disarm();
        assert!(driver.push(1, BUFFERS, 64, false));
        assert!(!driver.publish());
        assert!(device.arm());
        let mut burst = Burst::new();
        device.take_readable(64, &mut burst).unwrap();
        device.complete_all(&burst);
        assert!(!device.publish());
        assert!(driver.arm());
        assert!(!device.arm());
    }
}

#[test]
fn nothing_new_is_no_notification() {
    let mut memory = Memory::new(16);
    let mut device = memory.device(Features::default());
    assert!(!device.publish());
}
