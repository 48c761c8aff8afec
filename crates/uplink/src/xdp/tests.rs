use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use port::{Frame, Sink, Source};
use ring::Bytes;

use super::*;

#[test]
fn chunks_are_as_large_as_frames_need() {
    let layout = |mtu, queue_len| {
        layout(&XdpConfig { mtu, queue_len, ..XdpConfig::default() }, 1500).expect("it fits")
    };
    assert_eq!(layout(1500, 1000), Layout { chunk: 2048, pieces: 1, receive: 1024, transmit: 1024 });
    assert_eq!(layout(1770, 1).chunk, 2048, "1770 + 22 + 256 = 2048");
    assert_eq!(layout(1771, 1).chunk, 4096);
    assert_eq!(layout(1500, 1).receive, 256);
    assert_eq!(layout(1500, 65_536).receive, 16_384);
    assert_eq!(layout(1500, 1000).len(), 4 << 20);
}

#[test]
fn frames_of_more_than_a_page_lie_in_several_chunks() {
    let pieces = |mtu| {
        let layout = layout(&XdpConfig { mtu, ..XdpConfig::default() }, 1500).expect("it fits");
        (layout.chunk, layout.pieces, layout.receive)
    };
    assert_eq!(pieces(3818), (4096, 1, 1024), "3818 + 22 + 256 = 4096");
    assert_eq!(pieces(3819), (4096, 2, 2048));
    assert_eq!(pieces(9216), (4096, 3, 4096));
    let refused = layout(&XdpConfig::default(), 9217).expect_err("one too many").to_string();
    assert!(refused.starts_with("the MTU of the interface is 9217, expected at most 9216"), "{refused}");
}

/// Memory for frames in up to three chunks.
const PIECES: Layout = Layout { chunk: 4096, pieces: 3, receive: 8, transmit: 8 };

/// Place of the entries in the page of a ring; its producer's index is at the beginning.
const ENTRIES: usize = 192;

impl fuzzed::World {
    /// A word of a ring: fill, completion, receive and transmit ring.
    fn word(&self, ring: usize, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at < 4096);
        // SAFETY: the place lies in the page, aligned; the mapping lives as long as `self`, and every value is valid.
        unsafe { &*self.rings[ring].base().add(at).cast::<AtomicU32>() }
    }

    /// Fills entries of the receive ring like the kernel: number of the chunk, octets, options.
    fn received(&self, pieces: &[(u32, u32, u32)]) {
        let from = self.word(2, 0).load(Relaxed);
        for (n, (chunk, len, options)) in (from..).zip(pieces) {
            for (word, value) in [chunk * 4096, 0, *len, *options].into_iter().enumerate() {
                self.word(2, ENTRIES + (n % 8) as usize * 16 + 4 * word).store(value, Relaxed);
            }
        }
        self.word(2, 0).store(from + pieces.len() as u32, Release);
    }

    /// Number of chunks that were given to the kernel.
    fn filled(&self) -> u32 {
        self.word(0, 0).load(Acquire)
    }

    /// All entries of the transmit ring, which has had no more than it has places.
    fn sent(&self) -> Vec<abi::Descriptor> {
        let entry = |n: usize| {
            let word = |at: usize| self.word(3, ENTRIES + 16 * n + 4 * at).load(Relaxed);
            let addr = u64::from(word(0)) | u64::from(word(1)) << 32;
            abi::Descriptor { addr, len: word(2), options: word(3) }
        };
        (0..self.word(3, 0).load(Acquire) as usize).map(entry).collect()
    }
}

/// What one call of `drain` shows: the first octet and the length of each frame.
fn shown(source: &mut XdpSource) -> Vec<(u8, usize)> {
    let mut all = Vec::new();
    source.drain(64, &mut |frames| {
        let first = |frame: &Frame<'_>| (frame.octets().read::<1>(0).map_or(0, |[first]| first), frame.len());
        all.extend(frames.iter().map(first));
    });
    all
}

#[test]
fn chunks_of_a_frame_are_joined_when_the_last_has_come() {
    let world = fuzzed::World::with(PIECES);
    let mut source = world.source(false);
    for chunk in 0..8 {
        let octets = world.queue.umem.bytes(4096 * chunk, 4096).expect("a chunk");
        octets.copy_from_slice(&[chunk as u8 + 1; 4096]);
    }
    // A small frame, one of three chunks, and the first of another one.
    world.received(&[(0, 60, 0), (1, 3840, 1), (2, 3840, 1), (3, 1000, 0), (4, 3840, 1)]);
    assert_eq!(shown(&mut source), [(1, 60), (2, 3840 + 3840 + 1000)]);
    assert!(shown(&mut source).is_empty());
    // Its end, one that is too long, and one behind it.
    world.received(&[(5, 1, 0), (6, 3840, 1), (7, 3840, 1), (0, 3840, 1), (1, 9, 0), (2, 70, 0)]);
    assert_eq!(shown(&mut source), [(5, 3841), (3, 70)]);
    let counters = source.counters();
    assert_eq!((counters.frames.get(), counters.bytes.get()), (4, 60 + 8680 + 3841 + 70));
    assert_eq!(counters.drop_bad_address.get(), 1);
    // All chunks are back: eight at the beginning, and as many as were used.
    assert!(shown(&mut source).is_empty());
    assert_eq!(world.filled(), 8 + 11);
}

#[test]
fn chunks_of_a_frame_that_leads_outside_the_memory_are_given_back() {
    let world = fuzzed::World::with(PIECES);
    let mut source = world.source(false);
    // The second chunk of the first frame would begin where the memory ends.
    world.received(&[(0, 3840, 1), (16, 1, 0), (1, 60, 0)]);
    assert_eq!(shown(&mut source), [(0, 60)]);
    assert_eq!(source.counters().drop_bad_address.get(), 1);
    assert!(shown(&mut source).is_empty());
    assert_eq!(world.filled(), 8 + 3);
}

#[test]
fn a_frame_of_more_than_a_chunk_is_sent_in_several() {
    let world = fuzzed::World::with(PIECES);
    let sink = XdpSink::new(Some(world.queue.clone()));
    assert_eq!(sink.room(), 2, "each may take three of eight chunks");
    let (mut long, mut short, mut longest) = ([0x5a; 9000], [0xa5; 60], [0; 12_000]);
    let frames =
        [&mut long[..], &mut longest, &mut short].map(|octets| Frame::new(Bytes::from_slice(octets)));
    assert_eq!(sink.deliver(&frames[..2]), 2);
    assert_eq!(sink.deliver(&frames[2..]), 1);
    let first = |entry: &abi::Descriptor| {
        let octets = world.queue.umem.bytes(entry.addr, entry.len).expect("it lies inside");
        octets.read::<1>(0).map_or(0, |[first]| first)
    };
    let sent: Vec<_> = world.sent().iter().map(|entry| (first(entry), entry.len, entry.options)).collect();
    assert_eq!(sent, [(0x5a, 4096, 1), (0x5a, 4096, 1), (0x5a, 808, 0), (0xa5, 60, 0)]);
    let counters = sink.counters();
    assert_eq!((counters.frames.get(), counters.bytes.get(), counters.drop_length.get()), (2, 9060, 1));
}

#[test]
fn an_address_belongs_to_one_half_of_the_memory() {
    let layout = Layout { chunk: 2048, pieces: 1, receive: 256, transmit: 256 };
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
        pieces: 1,
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
    let (world, mut octets) = (fuzzed::World::with(fuzzed::LAYOUT), [0x5a; 60]);
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
        let world = fuzzed::World::with(fuzzed::LAYOUT);
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
