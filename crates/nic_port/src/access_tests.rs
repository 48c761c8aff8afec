//! Transmission within accesses: its duration, and delegation of the rest.

use conformance::Pattern;
use nic::e1000::{TxSettings, TxSetup};
use port::{ClockHandle, Frame};
use ring::e1000::{Context, Data, Descriptor, HeadTail, Layout, tx};
use ring::{BURST, Region};

use super::access::{ACCESS_BUDGET, LEAST_BURSTS};
use super::tests::guest::{Guest, Habit};
use super::tests::{Driver, is_readable};
use super::*;

/// A sink that uses up the whole time budget of an access for each burst.
struct Slow {
    hand: ClockHandle,
    came: Mutex<Vec<Vec<u8>>>,
}

impl Sink for Slow {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.hand.advance(ACCESS_BUDGET);
        let octets = frames.iter().map(|frame| {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            octets
        });
        self.came.lock().expect("no panic").extend(octets);
        frames.len()
    }
}

struct Bench {
    queues: Arc<NicQueues>,
    source: Box<dyn Source>,
    guest: Guest,
    slow: Arc<Slow>,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// Creates a bench whose driver has rung once already.
    fn new(habit: Habit) -> Self {
        let (clock, hand) = Clock::by_hand();
        let stop = Arc::<AtomicBool>::default();
        let design =
            NicQueuesConfig { pairs: 1, in_access: true, stop: stop.clone(), ..NicQueuesConfig::default() };
        let mut queues = NicQueues::by(clock, design, SETTLE).expect("event descriptors");
        // The ring of this driver holds two bursts.
        Arc::get_mut(&mut queues).expect("nobody has them yet").in_access = Some(InAccess::with_least(1, 1));
        let slow = Arc::new(Slow { hand, came: Mutex::default() });
        queues.transmit_in_access(slow.clone());
        let guest = Guest::new(habit, true);
        let running = Running { queue: guest.transmit_queue(), notifier: Notifier::Message(None) };
        *queues.tx.lock(0).expect("a pair") = Some(running);
        let source = queues.source();
        Self { queues, source, guest, slow, stop }
    }

    /// The driver publishes frames at once, and rings by an access if the device wants a kick; returns how many frames
    /// found a buffer.
    fn send(&mut self, frames: &[Vec<u8>]) -> usize {
        let (sent, kick) = self.guest.send(frames);
        if kick {
            self.queues.transmit_pair(0, Ringer::Driver);
        }
        sent
    }

    fn came(&self) -> Vec<Vec<u8>> {
        self.slow.came.lock().expect("no panic").clone()
    }

    /// The thread polls until it finds no more frames.
    fn poll(&mut self) {
        while self.source.drain(BURST, &mut |_| panic!("they go where those of an access go")) > 0 {}
    }
}

fn frames(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| Pattern::default().octets(1, number, 60)).collect()
}

#[test]
fn an_access_ends_after_its_budget_and_the_thread_that_polls_sends_the_rest() {
    for habit in Habit::ALL.into_iter().filter(|habit| *habit != Habit::HeaderApart) {
        let mut bench = Bench::new(habit);
        let all = frames(2 * BURST as u32 + 4);
        let mut sent = bench.send(&all);
        assert!(sent > BURST, "{habit:?}: the ring holds more than a burst");
        assert_eq!(bench.came().len(), BURST, "{habit:?}: the access has sent more, or less");
        // Frames published now must not overtake delegated ones.
        bench.source.disarm();
        sent += bench.send(&all[sent..]);
        assert_eq!((sent, bench.came().len()), (all.len(), BURST), "{habit:?}");
        bench.poll();
        assert_eq!(bench.came(), all, "{habit:?}");
        // No frame is delegated any more: accesses send again.
        assert_eq!(bench.send(&frames(1)), 1);
        assert_eq!(bench.came().len(), all.len() + 1, "{habit:?}");
    }
}

#[test]
fn what_is_left_wakes_the_thread_that_polls() {
    let mut bench = Bench::new(Habit::ByTheBook);
    assert!(!bench.source.arm(), "nothing is left");
    bench.send(&frames(2 * BURST as u32));
    let kicks = bench.queues.tx_ledger().kicks.get();
    assert!(is_readable(bench.source.bell()), "it goes on sleeping");
    bench.source.disarm();
    assert_eq!(bench.queues.tx_ledger().kicks.get(), kicks, "the driver rang no more than that");
}

#[test]
fn an_access_ends_with_its_machine() {
    let mut bench = Bench::new(Habit::ByTheBook);
    bench.stop.store(true, Ordering::Relaxed);
    bench.send(&frames(2 * BURST as u32));
    assert_eq!(bench.came().len(), BURST, "whoever stops the machine waits for one burst");
}

/// Octets of payload that one register access publishes, in all and in one descriptor.
const LARGE: usize = 0xf_ffff;
const PIECE: usize = 1 << 16;
/// Lengths of the header of each frame, and of the payload after it, in octets.
const HEADER: usize = 14;
const SEGMENT: u16 = 1000;

/// A sink that uses up the time budget of an access for each burst, and stops the machine in one of them.
struct Stopping {
    slow: Slow,
    stop: Arc<AtomicBool>,
    bursts: AtomicU64,
    last: u64,
}

impl Sink for Stopping {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.stop.store(self.bursts.fetch_add(1, Ordering::Relaxed) + 1 >= self.last, Ordering::Relaxed);
        self.slow.deliver(frames)
    }
}

/// Creates the transmit ring of an e1000, in memory of its own, with a packet to be segmented; returns it with the
/// packet's payload.
fn large_packet() -> (TxQueue, Vec<u8>) {
    const RING: u64 = 0x1_0000;
    const BUFFER: u64 = RING + 0x1000;
    let payload: Vec<u8> = (0..).flat_map(u32::to_le_bytes).take(LARGE).collect();
    let octets = Box::leak(vec![0; 0x1000 + HEADER + LARGE + 64].into_boxed_slice());
    let skew = octets.as_ptr().align_offset(64);
    let region = Region::from_static(&mut octets[skew..], RING);
    let packet = [&[2; HEADER][..], &payload].concat();
    region.bytes(BUFFER, packet.len() as u32).expect("it has room").copy_from_slice(&packet);
    let context = Context {
        command: tx::TSE,
        payload: LARGE as u32,
        header: HEADER as u8,
        mss: SEGMENT,
        ..Context::default()
    };
    let pieces = packet.chunks(PIECE).zip(0..).map(|(piece, number)| {
        let end = if (number + 1) * PIECE >= packet.len() { tx::EOP } else { 0 };
        let (address, length) = (BUFFER + (number * PIECE) as u64, piece.len() as u32);
        Descriptor::from(Data { address, length, command: tx::TSE | end, ..Data::default() })
    });
    (transmit_ring(region, 128, std::iter::once(context.into()).chain(pieces)), payload)
}

/// Creates the transmit ring of an e1000 at the beginning of this memory, with these descriptors.
fn transmit_ring(region: Region, entries: u16, descriptors: impl Iterator<Item = Descriptor>) -> TxQueue {
    let ends = Arc::new(HeadTail::new());
    for (descriptor, place) in descriptors.zip(0..) {
        let at = region.bytes(region.start() + 16 * u64::from(place), 16).expect("it lies there");
        assert!(at.write(0, descriptor.address.to_le_bytes()) && at.write(8, descriptor.rest.to_le_bytes()));
        ends.set_tail(place + 1);
    }
    let settings = TxSettings {
        pad_short: false,
        vlan: false,
        vlan_type: 0x8100,
        longest: 1514,
        low: 0,
        loopback: false,
    };
    let layout = Layout { base: region.start(), entries };
    let setup = TxSetup { layout, ends, block: None, statistics: Arc::default(), settings };
    TxQueue::E1000(Box::new(nic::e1000::tx::TxQueue::new(region, &setup).expect("a ring")))
}

/// Creates queues whose driver has written TDT once, for a megabyte, and a sink that stops the machine in burst number
/// `last`.
fn tell_of_a_megabyte(last: u64) -> (Arc<NicQueues>, Arc<Stopping>, Vec<u8>) {
    let (clock, hand) = Clock::by_hand();
    let stop = Arc::<AtomicBool>::default();
    let design =
        NicQueuesConfig { pairs: 1, in_access: true, stop: stop.clone(), ..NicQueuesConfig::default() };
    let queues = NicQueues::by(clock, design, SETTLE).expect("event descriptors");
    let slow = Slow { hand, came: Mutex::default() };
    let sink = Arc::new(Stopping { slow, stop, bursts: AtomicU64::new(0), last });
    queues.transmit_in_access(sink.clone());
    let (queue, payload) = large_packet();
    queues.start_transmit(queue, false, Notifier::Message(None));
    queues.transmit();
    (queues, sink, payload)
}

/// Returns the payload of all frames received.
fn payload_at(sink: &Stopping) -> Vec<u8> {
    sink.slow.came.lock().expect("no panic").iter().flat_map(|frame| frame[HEADER..].to_vec()).collect()
}

#[test]
fn of_a_megabyte_that_is_to_be_cut_an_access_sends_its_bursts_and_the_thread_that_polls_the_rest() {
    let (queues, sink, payload) = tell_of_a_megabyte(u64::MAX);
    assert_eq!(sink.bursts.load(Ordering::Relaxed), LEAST_BURSTS as u64);
    assert_eq!(payload_at(&sink), payload[..LEAST_BURSTS * BURST * usize::from(SEGMENT)]);
    // Frames published now are not sent before the delegated ones.
    queues.transmit();
    assert_eq!(sink.bursts.load(Ordering::Relaxed), LEAST_BURSTS as u64);
    let mut source = queues.source();
    while source.drain(BURST, &mut |_| panic!("they go where those of an access go")) > 0 {}
    assert!(payload_at(&sink) == payload, "something is lost, or overtakes");
}

#[test]
fn an_access_that_cuts_a_megabyte_ends_with_the_burst_in_which_its_machine_is_stopped() {
    for last in 1..=LEAST_BURSTS as u64 {
        let (queues, sink, _) = tell_of_a_megabyte(last);
        assert_eq!(sink.bursts.load(Ordering::Relaxed), last);
        let mut source = queues.source();
        assert_eq!(source.drain(BURST, &mut |_| panic!("nothing is for it")), 0, "what is left stays");
    }
}

/// Descriptors of a packet that takes three bursts to gather.
const PIECES: usize = 2 * nic::e1000::tx::MOST_DESCRIPTORS + 88;

/// Creates the transmit ring of an e1000 with a frame of 60 octets, and one of an octet in each of [`PIECES`] descriptors.
fn packet_of_many_pieces() -> TxQueue {
    const RING: u64 = 0x1_0000;
    const ENTRIES: u16 = 1024;
    let rings = 16 * usize::from(ENTRIES);
    let octets = Box::leak(vec![2_u8; rings + 256].into_boxed_slice());
    let skew = octets.as_ptr().align_offset(64);
    let region = Region::from_static(&mut octets[skew..], RING);
    let buffer = RING + rings as u64;
    let pieces = (1..=PIECES).map(|number| {
        let command = if number == PIECES { tx::EOP } else { 0 };
        Descriptor::legacy(buffer, 1, command)
    });
    transmit_ring(region, ENTRIES, std::iter::once(Descriptor::legacy(buffer, 60, tx::EOP)).chain(pieces))
}

#[test]
fn a_thread_with_delegated_frames_stays_awake_while_it_gathers_a_packet_of_many_descriptors() {
    let (clock, hand) = Clock::by_hand();
    let design = NicQueuesConfig { pairs: 1, in_access: true, ..NicQueuesConfig::default() };
    let mut queues = NicQueues::by(clock, design, SETTLE).expect("event descriptors");
    Arc::get_mut(&mut queues).expect("nobody has them yet").in_access = Some(InAccess::with_least(1, 1));
    let slow = Arc::new(Slow { hand, came: Mutex::default() });
    queues.transmit_in_access(slow.clone());
    queues.start_transmit(packet_of_many_pieces(), false, Notifier::Message(None));
    // The access ends with the first frame.
    queues.transmit();
    let came = || slow.came.lock().expect("no panic").iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(came(), [60]);
    let mut sources = [queues.source(), queues.source_of(0)];
    let drain = |source: &mut Box<dyn Source>| source.drain(BURST, &mut |_| panic!("nothing is for it"));
    for source in &mut sources {
        assert_eq!(drain(source), 0, "the packet is not complete");
        assert!(source.arm(), "no access would wake it");
        source.disarm();
    }
    assert_eq!(drain(&mut sources[0]), 1);
    assert_eq!(came(), [60, PIECES]);
    assert_eq!(drain(&mut sources[0]), 0);
    assert!(!sources[0].arm() && !sources[1].arm(), "nothing is left");
}
