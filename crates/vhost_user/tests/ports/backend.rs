//! This program is the device of another one, whose rings are in its own memfd, shared over the socket.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use conformance::{SinkBench, SourceBench, check_sink, check_source};
use door::Door;
use nic::virtio_net::features;
use port::{Sink, Source};
use ring::Region;
use rustix::fs::{MemfdFlags, memfd_create};
use sandbox::Confinement;
use vhost::vhost_user::message::{
    VhostUserHeaderFlag, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vhost_user::backend::{Backend, News, Offer};
use vhost_user::memory::{PeerMemory, Table};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::driver::{ENTRIES, OCTETS, Queue};
use super::{CHOICES, LONGEST, Port, until};

/// Octets of each of the two ranges of the peer's memory.
const RANGE: u64 = 2 << 20;
/// Guest-physical address of the second range: beyond a hole, as in a machine with much memory.
const SECOND: u64 = 4 << 30;
/// Address of the file in the peer's own address space.
const USER: u64 = 0x7f00_0000_0000;

/// A peer with its driver, and the port that serves it.
struct Bench {
    port: Port,
    /// The receive and transmit queue of each pair.
    receive: Vec<Queue>,
    transmit: Vec<Queue>,
    kicks: Vec<EventFd>,
    _calls: Vec<EventFd>,
    speaker: Frontend,
    backend: Backend,
    _memory: PeerMemory,
    _folder: tempfile::TempDir,
}

fn event() -> EventFd {
    EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).expect("an event descriptor")
}

/// Returns the peer's memory, and its memory table.
fn memory() -> (OwnedFd, [VhostUserMemoryRegion; 2]) {
    let file = File::from(memfd_create("peer", MemfdFlags::CLOEXEC).expect("a file"));
    file.set_len(2 * RANGE).expect("a size");
    let first = VhostUserMemoryRegion::new(0, RANGE, USER, 0);
    (file.into(), [first, VhostUserMemoryRegion::new(SECOND, RANGE, USER + RANGE, RANGE)])
}

/// Translates a guest-physical address to the peer's own address.
const fn user(guest: u64) -> u64 {
    if guest < RANGE { USER + guest } else { USER + RANGE + (guest - SECOND) }
}

impl Bench {
    /// Creates a peer whose driver has negotiated these features, and uses this many queue pairs.
    fn new(picked: u64, pairs: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("vm.sock");
        let offer = Offer { pairs, longest: LONGEST, offload: true, memory_max: 2 * RANGE };
        let door = Door::listen(&path).expect("a socket");
        let backend = Backend::start("ports-peer", door, offer, Confinement::On).expect("a thread");
        let (file, places) = memory();
        let files = places.iter().map(|_| file.try_clone().expect("a descriptor")).collect();
        let memory = Table::new(&places, files, 2 * RANGE).and_then(PeerMemory::map).expect("two ranges");
        let regions = memory.regions().expect("two ranges");
        let region = |at: u64| -> Region { *regions.find(at, OCTETS).expect("it lies in a range") };
        let picked = picked | features::VERSION_1;
        let queues = |first: u64| {
            let start = |pair: usize| first + pair as u64 * OCTETS;
            (0..pairs).map(|pair| Queue::new(region(start(pair)), start(pair), picked)).collect::<Vec<_>>()
        };
        let (mut receive, transmit) = (queues(0), queues(SECOND));
        let stream = UnixStream::connect(&path).expect("it listens");
        let mut speaker = Frontend::from_stream(stream, 256);
        greet(&mut speaker, picked);
        share(&speaker, &file, &places);
        let (kicks, calls): (Vec<_>, Vec<_>) = (0..2 * pairs).map(|_| (event(), event())).unzip();
        for (pair, (receive, transmit)) in receive.iter_mut().zip(&transmit).enumerate() {
            lay_out(&mut speaker, 2 * pair, receive, (&kicks[2 * pair], &calls[2 * pair]));
            lay_out(&mut speaker, 2 * pair + 1, transmit, (&kicks[2 * pair + 1], &calls[2 * pair + 1]));
            if receive.post() {
                kicks[2 * pair].write(1).expect("it has room");
            }
        }
        let port = Port::of(backend.queues());
        Self {
            port,
            receive,
            transmit,
            kicks,
            _calls: calls,
            speaker,
            backend,
            _memory: memory,
            _folder: folder,
        }
    }

    fn kick(&self, ring: usize) {
        self.kicks[ring].write(1).expect("it has room");
    }
}

fn greet(speaker: &mut Frontend, picked: u64) {
    let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
    speaker.set_owner().expect("heard");
    let offered = speaker.get_features().expect("features");
    assert_eq!((picked | protocol) & !offered, 0, "all of it is offered");
    speaker.get_protocol_features().expect("features");
    let more = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
    speaker.set_protocol_features(more).expect("they were offered");
    // From now on each request is complete when the call returns.
    speaker.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    speaker.set_features(picked | protocol).expect("they were offered");
}

fn share(speaker: &Frontend, file: &OwnedFd, places: &[VhostUserMemoryRegion]) {
    let told = |place: &VhostUserMemoryRegion| VhostUserMemoryRegionInfo {
        guest_phys_addr: place.guest_phys_addr,
        memory_size: place.memory_size,
        userspace_addr: place.user_addr,
        mmap_offset: place.mmap_offset,
        mmap_handle: file.as_raw_fd(),
    };
    let table: Vec<_> = places.iter().map(told).collect();
    speaker.set_mem_table(&table).expect("it may be shared");
}

fn lay_out(speaker: &mut Frontend, ring: usize, queue: &Queue, (kick, call): (&EventFd, &EventFd)) {
    let layout = queue.layout();
    let places = VringConfigData {
        queue_max_size: ENTRIES,
        queue_size: ENTRIES,
        flags: 0,
        desc_table_addr: user(layout.descriptors),
        used_ring_addr: user(layout.used),
        avail_ring_addr: user(layout.available),
        log_addr: None,
    };
    speaker.set_vring_num(ring, ENTRIES).expect("a size");
    speaker.set_vring_base(ring, 0).expect("an index");
    speaker.set_vring_addr(ring, &places).expect("it lies in the memory");
    speaker.set_vring_call(ring, call).expect("an event");
    speaker.set_vring_kick(ring, kick).expect("an event");
    speaker.set_vring_enable(ring, true).expect("a ring");
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.port.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        for pair in 0..self.receive.len() {
            let (frames, wants_kick) = self.receive[pair].received();
            all.extend(frames);
            if wants_kick {
                self.kick(2 * pair);
            }
        }
        Some(all)
    }

    fn lost(&self) -> u64 {
        self.port.lost()
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.port.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        // A single flow: all frames go through the last pair.
        let last = self.transmit.len() - 1;
        let (sent, wants_kick) = self.transmit[last].send(frames);
        if wants_kick {
            self.kick(2 * last + 1);
        }
        sent
    }
}

#[test]
fn what_a_peer_receives_by_is_a_sink() {
    for picked in CHOICES {
        for pairs in [1, 2] {
            check_sink(|| Bench::new(picked, pairs));
        }
    }
}

#[test]
fn what_a_peer_sends_by_is_a_source() {
    for picked in CHOICES {
        for pairs in [1, 2] {
            check_source(|| Bench::new(picked, pairs));
        }
    }
}

/// As QEMU does when its guest is shut down.
#[test]
fn a_peer_that_takes_its_rings_back_before_it_goes_is_told_of_like_any_other() {
    let Bench { port: _port, speaker, backend, .. } = Bench::new(CHOICES[0], 1);
    let mut news = Vec::new();
    until("the peer is served", || {
        news.extend(backend.look_after());
        !news.is_empty()
    });
    for ring in 0..2 {
        speaker.get_vring_base(ring).expect("an index");
    }
    drop(speaker);
    until("the peer is gone", || {
        news.extend(backend.look_after());
        news.len() > 1
    });
    assert!(matches!(news[..], [News::Served(_), News::Gone]), "{news:?}");
}

/// A process that is killed, or has waited for too long, leaves such connections.
#[test]
fn connections_that_were_closed_before_they_are_answered_are_no_fault() {
    let Bench { port: _port, speaker, backend, _folder: folder, .. } = Bench::new(CHOICES[0], 1);
    let path = folder.path().join("vm.sock");
    let mut news = Vec::new();
    until("the peer is served", || {
        news.extend(backend.look_after());
        !news.is_empty()
    });
    for _ in 0..3 {
        let mut gone = UnixStream::connect(&path).expect("it listens");
        // GET_FEATURES, of version 1, without a body.
        gone.write_all(&[1_u32, 1, 0].map(u32::to_le_bytes).concat()).expect("it has room");
    }
    let mut next = Frontend::from_stream(UnixStream::connect(&path).expect("it listens"), 256);
    drop(speaker);
    // Peers are met one after the other: this one after those.
    greet(&mut next, CHOICES[0] | features::VERSION_1);
    news.extend(std::iter::from_fn(|| backend.look_after()));
    assert!(matches!(news[..], [News::Served(_), News::Gone]), "{news:?}");
}
