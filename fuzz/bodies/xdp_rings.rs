//! The four rings of an AF_XDP socket, written by a kernel that breaks every rule: any word, any address and length, at any time.
//! Finds panics, hangs, accesses outside the frames' memory, and frames lost without being counted under a name.
//!
//! The input consists of steps of 12 octets: the action, the place, and two words that are stored there before.

use std::os::unix::net::UnixStream;

use port::{Frame, Sink, Source};
use ring::Bytes;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::xdp::XdpRingOffset;

use super::rings::{Consumer, Mapping, Place, Producer};
use super::source::ReceiveQueues;
use super::umem::Umem;
use super::*;

/// Entries of a ring.
const SIZE: u32 = 8;
/// Octets of a ring's file.
const PAGE: usize = 4096;
/// Offsets of its words, and of its entries.
const PARTS: XdpRingOffset = XdpRingOffset { producer: 0, consumer: 64, desc: 192, flags: Some(128) };
pub(super) const LAYOUT: Layout = Layout { chunk: 2048, pieces: 1, receive: SIZE, transmit: SIZE };
/// Layout in which a frame may lie in up to three chunks.
const IN_PIECES: Layout = Layout { pieces: 3, ..LAYOUT };
/// Most steps of an input.
const STEPS: usize = 64;

/// Runs one input, with frames of one chunk and of several.
pub(crate) fn run(input: &[u8]) {
    [LAYOUT, IN_PIECES].into_iter().for_each(|layout| run_with(layout, input));
}

fn run_with(layout: Layout, input: &[u8]) {
    let world = World::with(layout);
    let mut source = world.source(true);
    let sink = XdpSink::new(Some(world.queue.clone()));
    let (mut shown, mut octets, mut offered) = (0, 0, 0);
    for step in input.as_chunks::<12>().0.iter().take(STEPS) {
        world.store(step);
        let count = usize::from(step[0] >> 2);
        match step[0] & 3 {
            0 | 1 => {
                _ = source.drain(count, &mut |frames| {
                    shown += frames.len() as u64;
                    octets += frames.iter().map(|frame| world.look_at(frame)).sum::<u64>();
                })
            }
            2 => {
                let mut frame = [0x5a; 2100];
                let frame = Frame::new(Bytes::from_slice(&mut frame).take(u32::from(step[1]) * 9));
                let frames = vec![frame; count];
                offered += frames.len() as u64;
                assert!(sink.deliver(&frames) <= frames.len());
            }
            _ => {
                source.tend();
                _ = (source.arm(), source.waits(), sink.room());
            }
        }
    }
    let (read, written) = (source.counters(), sink.counters());
    assert_eq!((read.frames.get(), read.bytes.get()), (shown, octets));
    let dropped = [&written.drop_full, &written.drop_length, &written.drop_gone, &written.drop_down];
    let out = written.frames.get() + dropped.map(|counter| counter.get()).iter().sum::<u64>();
    assert_eq!(out, offered, "in = out + named drops");
}

/// Files in place of the kernel's, and the objects under test.
pub(super) struct World {
    /// Fill, completion, receive and transmit ring.
    pub(super) rings: [Mapping; 4],
    pub(super) queue: Arc<Queue>,
    receive: Mutex<Option<Receiver>>,
    /// Other end of the connection that represents the socket.
    _kernel: UnixStream,
}

fn file(octets: u64) -> OwnedFd {
    let file = memfd_create("rings", MemfdFlags::CLOEXEC).expect("a memfd");
    ftruncate(&file, octets).expect("room");
    file
}

impl World {
    /// With as many chunks as entries of a ring.
    pub(super) fn with(layout: Layout) -> Self {
        let files = [(); 4].map(|()| file(PAGE as u64));
        let place = Place { page: 0, parts: PARTS, size: SIZE };
        let [fill, completion, receive, transmit] = files.each_ref().map(OwnedFd::as_fd);
        let chunks = layout.transmit_chunks();
        let sender = Sender::new(
            Producer::map(transmit, place).expect("a ring"),
            Consumer::map(completion, place).expect("a ring"),
            chunks,
        );
        let (socket, kernel) = UnixStream::pair().expect("sockets");
        let queue = Arc::new(Queue {
            socket: socket.into(),
            umem: Umem::map(&file(layout.len()), layout).expect("memory"),
            device: Device::named("rings"),
            sender: Mutex::new(sender),
            busy: AtomicBool::new(false),
        });
        let (receive, fill) =
            (Consumer::map(receive, place).expect("a ring"), Producer::map(fill, place).expect("a ring"));
        let mut receiver = Receiver::new(queue.clone(), receive, fill);
        receiver.fill_up();
        let rings = files.each_ref().map(|file| Mapping::new(file.as_fd(), 0, PAGE).expect("a ring"));
        Self { rings, queue, receive: Mutex::new(Some(receiver)), _kernel: kernel }
    }

    /// The one source.
    pub(super) fn source(&self, overflows: bool) -> XdpSource {
        let receiver = self.receive.lock().expect("nobody panics").take().expect("one source");
        let desk = QueueHandover::new().expect("a desk");
        let hand = ReceiveQueues::new(vec![receiver], &desk).expect("a hand");
        XdpSource::new(hand, desk, false, Arc::new(AtomicBool::new(overflows)))
    }

    /// Writes like the kernel: two words of one ring, which are entries, indices or flags.
    pub(super) fn store(&self, step: &[u8; 12]) {
        let [_, _, which, at, low @ .., a, b, c, d] = *step;
        let place = match which >> 2 & 3 {
            0 => 0,
            1 => usize::from(at & 1) * 64 + usize::from(at >> 1 & 1) * 64,
            _ => 192 + usize::from(at & 31) * 4,
        };
        for (n, word) in [low, [a, b, c, d]].into_iter().enumerate() {
            let word = u32::from_le_bytes(word).to_le_bytes();
            let base = self.rings[usize::from(which & 3)].base();
            // SAFETY: the place lies in the page; these are the words of a file that the code under test reads by its own mapping.
            unsafe { base.add(place + 4 * n).cast::<[u8; 4]>().write_volatile(word) };
        }
    }

    /// Returns the length of a frame after checking that it lies in the memory, unless its chunks were copied together.
    fn look_at(&self, frame: &Frame<'_>) -> u64 {
        let (layout, len) = (self.queue.umem.layout, frame.len() as u64);
        let from = (frame.octets().as_ptr() as u64).wrapping_sub(self.queue.umem.address());
        let is_inside = from.checked_add(len).is_some_and(|end| end <= layout.len());
        assert!(
            is_inside || layout.is_in_pieces() && len <= u64::from(layout.longest()),
            "a frame lies outside"
        );
        len
    }
}
