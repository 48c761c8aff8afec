mod eventfds;

use std::fs::File;
use std::os::fd::{AsFd, FromRawFd};

use port::Frame;
use ring::Region;
use ring::split::{Driver, DriverQueue, Features, Layout, Slot};
use rustix::event::{EventfdFlags, eventfd};

use super::*;
use crate::memory::MemoryError;

const ENTRIES: u16 = 64;
/// Address of the peer's memory in its own address space.
const USER: u64 = 0x7f00_0000_0000;
const SIZE: u64 = 0x20_0000;
/// Start of the buffers of ring `n`.
const BUFFERS: u64 = 0x10_0000;

fn offer() -> Offer {
    Offer { pairs: 2, longest: 1518, offload: false, memory_max: SIZE }
}

fn message(request: FrontendReq, body: &[u8], descriptors: Vec<OwnedFd>) -> Message {
    Message { request, need_reply: true, body: body.to_vec(), descriptors }
}

/// A peer with two queue pairs in one file.
struct Peer {
    session: Session,
    file: File,
    mapped: PeerMemory,
    calls: Vec<OwnedFd>,
}

impl Peer {
    fn new() -> Self {
        // SAFETY: the name is a C string, and the descriptor has no other owner.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"peer".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len(SIZE).expect("a size");
        let place = VhostUserMemoryRegion::new(0, SIZE, USER, 0);
        let mapped =
            Table::new(&[place], vec![again(&file)], SIZE).and_then(PeerMemory::map).expect("a range");
        let queues = NicQueues::foreign(2).expect("descriptors");
        Self { session: Session::new(queues, offer()), file, mapped, calls: Vec::new() }
    }

    fn ask(&mut self, request: FrontendReq, body: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.session.handle(message(request, body, Vec::new())).map_err(|refused| refused.fault)
    }

    fn send(&mut self, request: FrontendReq, body: &[u8], fd: OwnedFd) -> Result<Option<Vec<u8>>, Fault> {
        self.session.handle(message(request, body, vec![fd])).map_err(|refused| refused.fault)
    }

    fn share(&mut self) {
        let fd = again(&self.file);
        self.send(FrontendReq::SET_MEM_TABLE, &table(&[[0, SIZE, USER, 0]]), fd).expect("a good table");
    }

    fn agree(&mut self, features: u64) {
        self.ask(FrontendReq::SET_FEATURES, &features.to_le_bytes()).expect("they were offered");
    }

    fn layout(ring: u32) -> Layout {
        Layout::contiguous(ENTRIES, u64::from(ring) * 0x1_0000)
    }

    /// Its back end was killed and replaced: the old one was not asked for the rings' indices.
    fn find_another(&mut self) {
        self.session = Session::new(NicQueues::foreign(2).expect("descriptors"), offer());
        self.calls.clear();
    }

    fn lay_out(&mut self, ring: u32) {
        self.lay_out_at(ring, 0);
    }

    fn lay_out_at(&mut self, ring: u32, base: u32) {
        self.ask(FrontendReq::SET_VRING_NUM, &state(ring, ENTRIES.into())).expect("a size");
        self.ask(FrontendReq::SET_VRING_BASE, &state(ring, base)).expect("an index");
        let layout = Self::layout(ring);
        let places = [layout.descriptors, layout.used, layout.available, 0].map(|at| at + USER);
        let body: Vec<u8> = ring
            .to_le_bytes()
            .into_iter()
            .chain([0; 4])
            .chain(places.into_iter().flat_map(u64::to_le_bytes))
            .collect();
        self.ask(FrontendReq::SET_VRING_ADDR, &body).expect("it lies in the memory");
        let call = event();
        self.calls.push(call.try_clone().expect("a descriptor"));
        let number = u64::from(ring).to_le_bytes();
        self.send(FrontendReq::SET_VRING_CALL, &number, call).expect("a call");
        self.send(FrontendReq::SET_VRING_KICK, &number, event()).expect("a kick");
    }

    fn enable(&mut self, ring: u32) {
        self.ask(FrontendReq::SET_VRING_ENABLE, &state(ring, 1)).expect("a ring");
    }

    fn disable(&mut self, ring: u32) {
        self.ask(FrontendReq::SET_VRING_ENABLE, &state(ring, 0)).expect("a ring");
    }

    fn region(&self) -> Region {
        *self.mapped.regions().expect("a range").find(0, 1).expect("it is there")
    }

    fn base(&mut self, ring: u32) -> u32 {
        let answer =
            self.ask(FrontendReq::GET_VRING_BASE, &state(ring, 0)).expect("a ring").expect("an answer");
        let (_, base) = answer.split_last_chunk::<4>().expect("an index");
        u32::from_le_bytes(*base)
    }
}

fn state(ring: u32, value: u32) -> Vec<u8> {
    [ring, value].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn table(ranges: &[[u64; 4]]) -> Vec<u8> {
    let head = (ranges.len() as u64).to_le_bytes();
    head.into_iter().chain(ranges.iter().flatten().flat_map(|word| word.to_le_bytes())).collect()
}

fn again(fd: &impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().expect("a descriptor")
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a descriptor")
}

fn driver<'a>(peer: &Peer, ring: u32, slots: &'a mut [Slot<u64>]) -> Driver<'a, u64> {
    Driver::new(peer.region(), &Peer::layout(ring), Features::default(), slots).expect("a ring")
}

fn slots() -> Vec<Slot<u64>> {
    vec![Slot::EMPTY; ENTRIES.into()]
}

/// Features of a minimal virtio 1 driver.
const PLAIN: u64 = features::VERSION_1 | PROTOCOL_FEATURES;

#[test]
fn frames_go_both_ways_once_all_is_agreed_on_and_stop_where_the_driver_takes_over() {
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    (0..2).for_each(|ring| peer.lay_out(ring));
    assert_eq!(peer.session.running(), 0, "no ring is enabled yet");
    (0..2).for_each(|ring| peer.enable(ring));
    assert_eq!(peer.session.running(), 2);
    let (mut rx_slots, mut tx_slots) = (slots(), slots());
    let (mut rx, mut tx) = (driver(&peer, 0, &mut rx_slots), driver(&peer, 1, &mut tx_slots));
    for n in 0..8 {
        assert!(rx.push(n, BUFFERS + n * 2048, 2048, true));
        assert!(tx.push(n, BUFFERS + 0x4_0000 + n * 2048, 12 + 60, false));
    }
    rx.publish();
    tx.publish();
    let mut source = peer.session.queues.source();
    let shown = source.drain(64, &mut |frames| assert!(frames.iter().all(|frame| frame.len() == 60)));
    assert_eq!(shown, 8);
    let mut octets = [7u8; 60];
    let frame = Frame::new(ring::Bytes::from_slice(&mut octets));
    assert_eq!(peer.session.queues.sink().deliver(&[frame; 3]), 3);
    let mut got = Vec::new();
    rx.pop(64, |token, len| got.push((token, len))).expect("a sound ring");
    assert_eq!(got, [(0, 72), (1, 72), (2, 72)]);
    assert_eq!(peer.region().bytes(BUFFERS + 12, 60).expect("it is there").read(0), Some([7u8; 60]));
    assert_eq!(rustix::io::read(&peer.calls[0], &mut [0; 8]), Ok(8), "the driver is interrupted");
    assert_eq!((peer.base(0), peer.base(1)), (3, 8));
    assert_eq!(peer.session.running(), 0);
    assert_eq!(peer.session.queues.sink().deliver(&[frame]), 0, "nobody is there");
}

/// Sends frames with these numbers.
fn send(tx: &mut Driver<'_, u64>, numbers: std::ops::Range<u8>, peer: &Peer) {
    for number in numbers {
        let at = BUFFERS + u64::from(number) * 2048;
        let buffer = peer.region().bytes(at + 12, 1).expect("it is there");
        assert!(buffer.write(0, [number]) && tx.push(number.into(), at, 12 + 60, false));
    }
    tx.publish();
}

/// Returns the numbers of all frames sent.
fn sent(peer: &Peer) -> Vec<u8> {
    let mut numbers = Vec::new();
    let mut source = peer.session.queues.source();
    while source.drain(64, &mut |frames| {
        numbers.extend(frames.iter().filter_map(|frame| frame.octets().read::<1>(0)).flatten());
    }) > 0
    {}
    numbers
}

/// Like DPDK's `virtio_user` with `server=1`, which sends index 0 for any ring that it hands to its next back
/// end.
#[test]
fn a_ring_that_is_far_on_goes_on_where_it_was_whatever_the_peer_says() {
    let mut peer = Peer::new();
    let (mut rx_slots, mut tx_slots) = (slots(), slots());
    let (mut rx, mut tx) = (driver(&peer, 0, &mut rx_slots), driver(&peer, 1, &mut tx_slots));
    let mut octets = [7u8; 60];
    let frame = Frame::new(ring::Bytes::from_slice(&mut octets));
    let begin = |peer: &mut Peer, base| {
        peer.agree(PLAIN);
        peer.share();
        (0..2).for_each(|ring| peer.lay_out_at(ring, base));
        (0..2).for_each(|ring| peer.enable(ring));
    };
    begin(&mut peer, 0);
    // More than once around the ring, and not to its start.
    for _ in 0..3 {
        (0..30).for_each(|n| assert!(rx.push(n, BUFFERS + 0x8_0000 + n * 2048, 2048, true)));
        rx.publish();
        send(&mut tx, 0..30, &peer);
        assert_eq!(sent(&peer), (0..30).collect::<Vec<_>>());
        assert_eq!(peer.session.queues.sink().deliver(&[frame; 30]), 30);
        assert_eq!(rx.pop(64, |_, _| {}), Ok(30));
        assert_eq!(tx.pop(64, |_, _| {}), Ok(30));
    }
    for base in [0, 7, 95] {
        peer.find_another();
        // Frames sent meanwhile wait.
        send(&mut tx, 40..44, &peer);
        begin(&mut peer, base);
        assert_eq!(sent(&peer), [40, 41, 42, 43], "no frame of before, base {base}");
        peer.session.look().expect("the ring is whole");
        assert!(rx.push(50, BUFFERS, 2048, true));
        rx.publish();
        assert_eq!(peer.session.queues.sink().deliver(&[frame; 2]), 1, "one buffer is free");
        let mut tokens = Vec::new();
        rx.pop(64, |token, _| tokens.push(token)).expect("a sound ring");
        tx.pop(64, |token, _| tokens.push(token)).expect("a sound ring");
        assert_eq!(tokens, [50, 40, 41, 42, 43]);
        let rung = |call: &OwnedFd| rustix::io::read(call, &mut [0; 8]) == Ok(8);
        assert!(peer.calls.iter().all(rung));
    }
    assert_eq!((peer.base(0), peer.base(1)), (93, 102), "who asks is told");
}

/// The last back end has returned buffers without an interrupt.
#[test]
fn a_driver_is_told_once_when_its_ring_is_served() {
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    (0..2).for_each(|ring| peer.lay_out(ring));
    let rung = |call: &OwnedFd| rustix::io::read(call, &mut [0; 8]) == Ok(8);
    assert!(!peer.calls.iter().any(rung), "nobody serves them yet");
    (0..2).for_each(|ring| peer.enable(ring));
    assert!(peer.calls.iter().all(rung));
    let call = event();
    peer.send(FrontendReq::SET_VRING_CALL, &1u64.to_le_bytes(), again(&call)).expect("a call");
    assert!(rung(&call), "the one before may have been nobody's");
}

#[test]
fn a_new_memory_table_changes_nothing_for_the_rings_in_it() {
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    peer.lay_out(1);
    peer.enable(1);
    let mut tx_slots = slots();
    let mut tx = driver(&peer, 1, &mut tx_slots);
    for round in 0..4 {
        assert!(tx.push(round, BUFFERS, 12 + 60, false));
        tx.publish();
        assert_eq!(peer.session.queues.source().drain(64, &mut |_| {}), 1, "round {round}");
        peer.share();
        assert_eq!(peer.session.running(), 1);
    }
    assert_eq!(peer.base(1), 4);
}

#[test]
fn rings_that_need_not_be_enabled_run_at_once_and_disabled_ones_rest() {
    let mut peer = Peer::new();
    peer.agree(features::VERSION_1);
    peer.share();
    peer.lay_out(0);
    assert_eq!(peer.session.running(), 1);
    // QEMU enables rings before it negotiates anything.
    let mut peer = Peer::new();
    peer.enable(0);
    peer.agree(PLAIN);
    peer.share();
    peer.lay_out(0);
    assert_eq!(peer.session.running(), 1);
    (0..4).for_each(|ring| peer.lay_out(ring));
    (0..4).for_each(|ring| peer.enable(ring));
    assert_eq!((peer.session.running(), peer.session.active), (4, 2));
    peer.disable(2);
    assert_eq!((peer.session.running(), peer.session.active), (3, 1), "frames go by the other pair");
}

/// vhost-user protocol, "Ring states".
#[test]
fn frames_of_a_ring_that_is_disabled_while_it_is_served_are_lost_and_their_buffers_returned() {
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    peer.lay_out(1);
    let mut tx_slots = slots();
    let mut tx = driver(&peer, 1, &mut tx_slots);
    send(&mut tx, 0..2, &peer);
    peer.disable(1);
    assert!(sent(&peer).is_empty(), "it was never enabled");
    peer.enable(1);
    assert_eq!(sent(&peer), [0, 1]);
    assert_eq!(tx.pop(64, |_, _| {}), Ok(2));
    peer.disable(1);
    assert_eq!(peer.session.running(), 0);
    send(&mut tx, 2..5, &peer);
    assert!(sent(&peer).is_empty(), "none leaves");
    assert_eq!(tx.pop(64, |_, _| {}), Ok(3), "their buffers are back");
    peer.share();
    send(&mut tx, 5..7, &peer);
    assert!(sent(&peer).is_empty(), "none leaves under another memory table");
    assert_eq!(tx.pop(64, |_, _| {}), Ok(2));
    let ledger = peer.session.queues.tx_ledger();
    assert_eq!((ledger.frames.get(), ledger.drop_not_running.get()), (2, 5));
    peer.enable(1);
    send(&mut tx, 7..9, &peer);
    assert_eq!(sent(&peer), [7, 8]);
    assert_eq!(tx.pop(64, |_, _| {}), Ok(2));
    assert_eq!(peer.base(1), 9);
}

#[test]
fn what_was_not_offered_is_refused() {
    let packed = 1 << 34;
    let mut peer = Peer::new();
    let offered = peer.ask(FrontendReq::GET_FEATURES, &[]).expect("it is asked so").expect("an answer");
    let offered = u64::from_le_bytes(*offered.last_chunk::<8>().expect("features"));
    assert_eq!(offered & packed, 0);
    let mut refusal = |request, body: &[u8]| peer.ask(request, body).expect_err("it is wrong").to_string();
    assert!(refusal(FrontendReq::SET_FEATURES, &(PLAIN | packed).to_le_bytes()).contains("0x400000000"));
    assert!(refusal(FrontendReq::SET_PROTOCOL_FEATURES, &(1u64 << 12).to_le_bytes()).contains("0x1000"));
    assert!(refusal(FrontendReq::SET_LOG_BASE, &[0; 16]).contains("not agreed on"));
    assert!(refusal(FrontendReq::SET_STATUS, &[0; 8]).contains("not agreed on"));
    assert!(refusal(FrontendReq::GET_INFLIGHT_FD, &[0; 24]).contains("not agreed on"));
}

#[test]
fn messages_that_are_wrong_are_told_in_one_line() {
    let mut peer = Peer::new();
    let fd = event();
    let mut wrong = |request, body: &[u8], descriptors: usize| {
        let descriptors = (0..descriptors).map(|_| again(&fd)).collect();
        let Refused { fault, .. } =
            peer.session.handle(message(request, body, descriptors)).expect_err("it is wrong");
        fault.to_string()
    };
    use FrontendReq as Request;
    assert!(wrong(Request::SET_FEATURES, &[0; 7], 0).contains("7 octets"));
    assert!(wrong(Request::GET_FEATURES, &[0; 1], 0).contains("1 octets"));
    assert!(wrong(Request::GET_FEATURES, &[], 1).contains("1 descriptors, expected 0"));
    assert!(wrong(Request::SET_VRING_KICK, &[0; 8], 0).contains("0 descriptors, expected 1"));
    assert!(wrong(Request::SET_VRING_CALL, &[0; 8], 2).contains("2 descriptors, expected 1"));
    assert!(wrong(Request::SET_VRING_CALL, &0x100u64.to_le_bytes(), 1).contains("1 descriptors, expected 0"));
    assert!(wrong(Request::SET_VRING_KICK, &0x100u64.to_le_bytes(), 0).contains("nobody polls"));
    assert!(wrong(Request::SET_VRING_CALL, &4u64.to_le_bytes(), 1).contains("ring 4; there are 4"));
    assert!(wrong(Request::SET_VRING_NUM, &state(4, 64), 0).contains("ring 4; there are 4"));
    assert!(wrong(Request::SET_VRING_NUM, &state(0, 63), 0).contains("0x3f"));
    assert!(wrong(Request::SET_VRING_NUM, &state(0, 0), 0).contains("power of two"));
    assert!(wrong(Request::SET_VRING_BASE, &state(0, 0x1_0000), 0).contains("16 bits"));
    assert!(wrong(Request::SET_MEM_TABLE, &[0; 7], 0).contains("7 octets"));
    assert!(wrong(Request::SET_MEM_TABLE, &table(&[[0, SIZE, USER, 0]])[..39], 1).contains("39 octets"));
    assert!(wrong(Request::SET_MEM_TABLE, &u64::MAX.to_le_bytes(), 0).contains("8 octets"));
    assert!(wrong(Request::SET_MEM_TABLE, &table(&[[0, SIZE, USER, 0]]), 0).contains("0 descriptors"));
}

#[test]
fn rings_outside_the_memory_and_drivers_of_before_are_refused_when_they_start() {
    let mut peer = Peer::new();
    peer.agree(PROTOCOL_FEATURES);
    peer.share();
    peer.lay_out(0);
    let refusal = peer.ask(FrontendReq::SET_VRING_ENABLE, &state(0, 1)).expect_err("it is too old");
    assert!(matches!(refusal, Fault::Legacy));
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    let fd = again(&peer.file);
    let half = table(&[[0, 0x400, USER, 0]]);
    peer.send(FrontendReq::SET_MEM_TABLE, &half, fd).expect("a small range");
    peer.lay_out(0);
    let refusal = peer.ask(FrontendReq::SET_VRING_ENABLE, &state(0, 1)).expect_err("it lies outside");
    assert!(matches!(refusal, Fault::Outside { ring: 0, .. } | Fault::Layout { ring: 0, .. }), "{refusal}");
    assert_eq!(peer.session.running(), 0);
}

#[test]
fn a_broken_ring_and_memory_that_is_cut_off_are_noticed() {
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    peer.lay_out(1);
    peer.enable(1);
    peer.session.look().expect("it is sound");
    // An available index beyond the ring.
    let available = peer.region().bytes(Peer::layout(1).available + 2, 2).expect("it is there");
    assert!(available.write(0, 1000u16.to_le_bytes()));
    assert_eq!(peer.session.queues.source().drain(64, &mut |_| {}), 0);
    assert!(matches!(peer.session.look(), Err(Fault::Ring(_))));
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    peer.lay_out(1);
    peer.enable(1);
    peer.file.set_len(0).expect("it is ours");
    peer.session.queues.source().drain(64, &mut |_| {});
    assert!(matches!(peer.session.look(), Err(Fault::CutOff)));
}

#[test]
fn a_table_that_is_refused_leaves_the_one_before() {
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    peer.lay_out(0);
    peer.enable(0);
    let overlapping = table(&[[0, 0x2000, USER, 0], [0x1000, 0x2000, USER + 0x2000, 0x2000]]);
    let descriptors = vec![again(&peer.file), again(&peer.file)];
    let refused = peer.session.handle(message(FrontendReq::SET_MEM_TABLE, &overlapping, descriptors));
    let Refused { fault, .. } = refused.expect_err("they overlap");
    assert!(matches!(fault, Fault::Memory(MemoryError::Overlap(0, 0x1000))));
    assert_eq!(peer.session.running(), 1);
}

/// The address space has room for one of these tables, also beside AddressSanitizer's own memory, and not for two.
#[test]
fn what_was_shared_before_goes_before_the_next_table_comes() {
    const HUGE: u64 = 60 << 40;
    let mut peer = Peer::new();
    peer.session.offer.memory_max = HUGE;
    peer.file.set_len(HUGE).expect("a sparse file");
    let whole = table(&[[0, HUGE, USER, 0]]);
    for _ in 0..2 {
        let fd = again(&peer.file);
        peer.send(FrontendReq::SET_MEM_TABLE, &whole, fd).expect("one of them has room");
    }
    let twice = table(&[[0, HUGE, USER, 0], [HUGE, HUGE, USER + HUGE, 0]]);
    let descriptors = vec![again(&peer.file), again(&peer.file)];
    let refused = peer.session.handle(message(FrontendReq::SET_MEM_TABLE, &twice, descriptors));
    let line = refused.expect_err("it is too much").fault.to_string();
    assert_eq!(line, "a memory table of 122880 GiB, and at most 61440 GiB may be shared (memory_max)");
}

#[test]
fn who_waits_for_it_is_told_how_it_went() {
    let mut peer = Peer::new();
    assert!(peer.ask(FrontendReq::SET_OWNER, &[]).expect("it is done").is_none(), "not agreed on yet");
    let reply_ack = Protocol::REPLY_ACK.bits();
    let code = |answer: Vec<u8>| u64::from_le_bytes(*answer.last_chunk::<8>().expect("a code"));
    let done = peer.ask(FrontendReq::SET_PROTOCOL_FEATURES, &reply_ack.to_le_bytes()).expect("it is done");
    assert!(done.is_some_and(|done| code(done) == 0));
    let refused = peer.session.handle(message(FrontendReq::SET_VRING_NUM, &state(9, 1), Vec::new()));
    assert!(refused.expect_err("no such ring").answer.is_some_and(|told| code(told) != 0));
    let mut quiet = message(FrontendReq::SET_OWNER, &[], Vec::new());
    quiet.need_reply = false;
    assert!(peer.session.handle(quiet).expect("it is done").is_none());
}
