//! Declined notifications stay declined however long the other end polls.

use super::*;

/// Pushes and returns one buffer `count` times; returns how many kicks and interrupts were requested.
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

/// Lends `lent` buffers, arms with `arm_delayed`, and has them returned one by one; returns which ones caused an
/// interrupt, and whether `arm_delayed` reported returned buffers when `early` of them had come back before.
fn told_of(
    driver: &mut impl DriverQueue<u8>,
    device: &mut DeviceQueue,
    lent: usize,
    early: usize,
) -> (bool, Vec<usize>) {
    driver.disarm();
    assert!((0..lent).all(|_| driver.push(1, BUFFERS, 64, false)));
    driver.publish();
    let mut burst = Burst::new();
    let mut next = |device: &mut DeviceQueue| {
        assert_eq!(device.take_readable(1, &mut burst).unwrap(), 1);
        device.complete_all(&burst);
        device.publish()
    };
    let unasked = (0..early).filter(|_| next(device)).count();
    assert_eq!(unasked, 0);
    let there = driver.arm_delayed();
    let told = (early + 1..=lent).filter(|_| next(device)).collect();
    assert_eq!(driver.reclaim(64, |_| {}).unwrap(), lent);
    (there, told)
}

fn is_told_once_of_three_quarters(driver: &mut impl DriverQueue<u8>, device: &mut DeviceQueue) {
    for _ in 0..5 {
        assert_eq!(told_of(driver, device, 16, 0), (false, vec![12]));
        assert_eq!(told_of(driver, device, 10, 6), (false, vec![7]), "some have come, not enough");
        assert_eq!(told_of(driver, device, 10, 7), (true, vec![]), "enough have come already");
        assert_eq!(told_of(driver, device, 1, 0), (false, vec![1]), "the only one");
    }
}

#[test]
fn who_asks_to_be_told_late_is_told_once_of_three_quarters() {
    let by_the_book = Features { event_idx: true, ..Features::default() };
    let mut memory = Memory::new(16);
    let (region, layout) = (memory.region(), memory.layout());
    let mut slots = vec![Slot::EMPTY; 16];
    let mut driver = Driver::new(region, &layout, by_the_book, &mut slots).unwrap();
    is_told_once_of_three_quarters(&mut driver, &mut memory.device(by_the_book));
    let in_order = Features { in_order: true, ..by_the_book };
    let mut memory = Memory::new(16);
    let (region, layout) = (memory.region(), memory.layout());
    let mut tokens = vec![core::mem::MaybeUninit::uninit(); 16];
    let mut driver = InOrderDriver::new(region, &layout, in_order, &mut tokens).unwrap();
    is_told_once_of_three_quarters(&mut driver, &mut memory.device(in_order));
}

#[test]
fn without_events_who_asks_to_be_told_late_is_told_of_each() {
    let mut memory = Memory::new(16);
    let (region, layout) = (memory.region(), memory.layout());
    let mut slots = vec![Slot::EMPTY; 16];
    let mut driver = Driver::new(region, &layout, Features::default(), &mut slots).unwrap();
    let mut device = memory.device(Features::default());
    assert_eq!(told_of(&mut driver, &mut device, 4, 0), (false, vec![1, 2, 3, 4]));
    assert_eq!(told_of(&mut driver, &mut device, 4, 1), (true, vec![2, 3, 4]));
}

#[test]
fn nothing_new_is_no_notification() {
    let mut memory = Memory::new(16);
    let mut device = memory.device(Features::default());
    assert!(!device.publish());
}
