use port::{Frame, Sink, Source};
use ring::Bytes;

use super::*;

#[test]
fn chunks_are_as_large_as_frames_need() {
    let layout = |mtu, queue_len| {
        layout(&XdpConfig { mtu, queue_len, ..XdpConfig::default() }, 1500).expect("it fits")
    };
    assert_eq!(layout(1500, 1000), Layout { chunk: 2048, receive: 1024, transmit: 1024 });
    assert_eq!(layout(1770, 1).chunk, 2048, "1770 + 22 + 256 = 2048");
    assert_eq!(layout(1771, 1).chunk, 4096);
    assert_eq!(layout(1500, 1).receive, 256);
    assert_eq!(layout(1500, 65_536).receive, 16_384);
    assert_eq!(layout(1500, 1000).len(), 4 << 20);
}

#[test]
fn frames_of_more_than_a_page_are_refused() {
    let refused = layout(&XdpConfig::default(), 9000).expect_err("9000 octets are too many").to_string();
    assert!(refused.starts_with("the MTU of the interface is 9000, expected at most 3818"), "{refused}");
}

#[test]
fn an_address_belongs_to_one_half_of_the_memory() {
    let layout = Layout { chunk: 2048, receive: 256, transmit: 256 };
    let first = 256 * 2048;
    assert_eq!(layout.chunk_of(first + 2047), first);
    assert!(!layout.is_transmit(first - 1));
    assert!(layout.is_transmit(first));
    assert!(!layout.is_transmit(layout.len()));
    assert_eq!(layout.receive_chunks().last(), Some(first - 2048));
    assert_eq!(layout.transmit_chunks().next(), Some(first));
}

#[test]
fn parts_that_make_no_sense_are_refused() {
    let parts = XdpParts {
        interface: "eth0".to_owned(),
        queues: 1,
        transmit: 1,
        chunk: 2048,
        ring: 1000,
        zero_copy: false,
        in_driver: true,
        busy_poll: false,
        gone: false,
    };
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    assert!(Xdp::from_parts(parts.clone(), [null(), null()]).is_err(), "1000 is no power of two");
    assert!(Xdp::from_parts(XdpParts { ring: 1024, ..parts.clone() }, [null()]).is_err(), "a half queue");
    let opened =
        Xdp::from_parts(XdpParts { ring: 1024, ..parts }, [null(), null()]).expect("two descriptors");
    assert!(opened.ports(1).is_err(), "/dev/null has no rings");
}

#[test]
fn a_sink_without_room_has_the_kernel_send() {
    let (world, mut octets) = (fuzzed::World::new(), [0x5a; 60]);
    let sink = XdpSink::new(Some(world.queue.clone()));
    // The flags of the transmit ring: XDP_RING_NEED_WAKEUP.
    world.store(&[0, 0, 7, 3, 1, 0, 0, 0, 0, 0, 0, 0]);
    // It takes none of them, and the ring has no more entries.
    let frame = Frame::new(Bytes::from_slice(&mut octets));
    assert_eq!(sink.deliver(&[frame; 8]), 8);
    let woken = sink.counters().wakeups.get();
    assert!(woken > 0);
    assert_eq!(sink.room(), 0);
    assert!(sink.counters().wakeups.get() > woken, "nobody else would send what waits");
}

#[test]
fn frames_do_not_wait_for_room_while_half_of_a_ring_is_in_use() {
    // Of eight entries the kernel has filled this many.
    let cases = [(true, 3, true), (true, 4, false), (true, 8, false), (false, 8, true)];
    for (overflows, filled, waits) in cases {
        let world = fuzzed::World::new();
        let mut source = world.source(overflows);
        world.store(&[0, 0, 2, 0, filled, 0, 0, 0, 0, 0, 0, 0]);
        source.tend();
        assert_eq!(source.waits(), waits, "{filled} frames");
        assert_eq!(source.drain(8, &mut |_| {}), usize::from(filled));
        assert!(source.waits(), "none is left");
    }
}

#[test]
fn whatever_the_kernel_writes_no_frame_lies_outside() {
    corpus::replay("xdp_rings", fuzzed::run);
}
