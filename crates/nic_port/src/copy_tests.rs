//! Copies into the buffers of a driver that resets its device meanwhile.

use std::thread;

use nic::virtio_net::rx;
use port::Frame;
use ring::split::{DeviceQueue, Driver, DriverQueue, Features, Layout, Slot};
use ring::{BURST, Bytes, Region};

use super::copies::Copying;
use super::*;

/// Guest-physical address of the memory.
const START: u64 = 0x10_0000;
/// Size of a buffer in octets.
const BUFFER: u32 = 2048;
/// Length of the header before each frame in octets.
const HEADER: usize = 12;
/// Longer than any thread of this test waits for its CPU, even on a busy host.
const HOUR: Duration = Duration::from_secs(3600);

/// Creates a receive queue with a buffer for each frame of a burst, in memory of its own, which is leaked; returns it with
/// the buffers.
fn receive_queue() -> (RxQueue, Bytes<'static>) {
    const SIZE: u16 = BURST as u16;
    let rings = Layout::octets(SIZE).next_multiple_of(4096);
    let buffers = u32::from(SIZE) * BUFFER;
    let octets = Box::leak(vec![0_u8; rings as usize + buffers as usize + 64].into_boxed_slice());
    let skew = octets.as_ptr().align_offset(64);
    let region = Region::from_static(&mut octets[skew..], START);
    let (layout, features) = (Layout::contiguous(SIZE, START), Features::default());
    let slots = Box::leak(vec![Slot::EMPTY; SIZE.into()].into_boxed_slice());
    let mut driver = Driver::new(region, &layout, features, slots).expect("a queue");
    for number in 0..u64::from(SIZE) {
        let at = START + rings + number * u64::from(BUFFER);
        assert!(driver.push(at, at, BUFFER, true));
    }
    driver.publish();
    let device = DeviceQueue::new(region, &layout, features).expect("a queue");
    let queue = RxQueue::VirtioNet(Box::new(rx::RxQueue::new(device, false)));
    (queue, region.bytes(START + rings, buffers).expect("it lies there"))
}

/// Creates a NIC with this receive queue, to which several threads may deliver.
fn serving(queue: RxQueue) -> Arc<NicQueues> {
    let design = NicQueuesConfig { pairs: 1, several_senders: true, ..NicQueuesConfig::default() };
    let mut queues = NicQueues::new(design).expect("event descriptors");
    let nic = Arc::get_mut(&mut queues).expect("nothing else has them yet");
    nic.rx.queues[0].copies = CopiesInProgress::within(HOUR);
    queues.rx.install(0, Running { queue, notifier: Notifier::Message(None) });
    queues
}

#[test]
fn a_reset_waits_for_the_end_of_the_last_copy() {
    let queues = serving(receive_queue().0);
    let copies = &queues.rx.queues[0].copies;
    let end = |copying: Copying<'_>| {
        let _place = queues.rx.queues[0].lock();
        copying.end();
    };
    let (first, second) = (copies.begin(), copies.begin());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            queues.stop();
            over.store(true, Ordering::Release);
        });
        while !copies.is_awaited() {
            thread::yield_now();
        }
        end(first);
        assert!(!over.load(Ordering::Acquire), "there is another copy");
        end(second);
    });
    assert!(!copies.is_awaited());
}

#[test]
fn a_reset_does_not_wait_forever_for_a_copy_that_does_not_end() {
    let copies = CopiesInProgress::within(Duration::ZERO);
    let copying = copies.begin();
    assert!(copies.expect_end());
    copies.await_end();
    copies.expect_nothing();
    assert!(!copies.is_awaited());
    copying.end();
    assert!(!copies.expect_end());
}

#[test]
fn after_a_reset_nothing_is_copied_into_the_buffers() {
    for _ in 0..20 {
        let (queue, buffers) = receive_queue();
        let queues = serving(queue);
        let sink = queues.sink();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut octets = [1; 1500];
                sink.deliver(&[Frame::new(Bytes::from_slice(&mut octets)); BURST]);
            });
            // The first frame is being copied, or more of them.
            while buffers.read(HEADER) == Some([0]) {
                std::hint::spin_loop();
            }
            queues.stop();
            buffers.copy_from_slice(&vec![0xee; buffers.len()]);
        });
        let mut seen = vec![0; buffers.len()];
        buffers.copy_to_slice(&mut seen);
        assert!(seen.iter().all(|octet| *octet == 0xee), "the driver's own data is overwritten");
        let ledger = queues.rx_ledger();
        assert_eq!(ledger.frames.get() + ledger.drop_not_running.get(), BURST as u64);
    }
}
