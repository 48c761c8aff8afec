//! The order of each flow's frames, through several pairs of queues, while the driver changes the number of pairs.

use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::thread;
use std::time::Instant;

use port::steer;
use port::{ClockHandle, Frame, Frames};
use ring::{BURST, Bytes};

use super::tests::Driver as _;
use super::tests::guest::{Guest, Habit};
use super::*;

const PAIRS: usize = 4;
const FLOWS: u32 = 2000;
/// Number of frames of each flow.
const EACH: u32 = 30;
/// Upper bound for the duration of a test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of frames between two changes of the number of pairs.
const BETWEEN: usize = 1000;

/// Returns frame `number` of a flow.
fn octets(flow: u32, number: u32) -> [u8; 60] {
    let mut octets = [0; 60];
    octets[12..15].copy_from_slice(&[8, 0, 0x45]);
    octets[23] = 17;
    octets[26..30].copy_from_slice(&(0x0a00_0000 + flow).to_be_bytes());
    octets[42..46].copy_from_slice(&flow.to_be_bytes());
    octets[46..50].copy_from_slice(&number.to_be_bytes());
    octets
}

/// A NIC whose driver sends back the frames that it receives, each pair in a thread of its own.
struct World {
    queues: Arc<NicQueues>,
    stop: AtomicBool,
    /// Advances the clock of the queues, by which the NIC is closed after a change.
    hand: ClockHandle,
    /// Number of threads that are delivering frames now.
    delivering: AtomicUsize,
    delivered: AtomicUsize,
    /// Number of the next expected frame of each flow.
    next: Vec<AtomicU32>,
    came: AtomicUsize,
}

impl World {
    fn new() -> (Self, Vec<[Guest; 2]>) {
        let (clock, hand) = Clock::by_hand();
        let design = NicQueuesConfig { pairs: PAIRS, ..NicQueuesConfig::default() };
        let queues = NicQueues::by(clock, design, SETTLE).expect("event descriptors");
        let guests = (0..PAIRS).map(|pair| {
            let (mut receiver, sender) = (Guest::new(Habit::InOrder, true), Guest::new(Habit::InOrder, true));
            let queue = receiver.receive_queue();
            *queues.rx.lock(pair).expect("a pair") =
                Some(Running { queue, notifier: Notifier::Message(None) });
            receiver.post();
            let queue = sender.transmit_queue();
            *queues.tx.lock(pair).expect("a pair") =
                Some(Running { queue, notifier: Notifier::Message(None) });
            [receiver, sender]
        });
        let guests = guests.collect();
        let next = (0..FLOWS).map(|_| AtomicU32::new(0)).collect();
        let world = Self {
            queues,
            stop: AtomicBool::new(false),
            hand,
            delivering: AtomicUsize::new(0),
            delivered: AtomicUsize::new(0),
            next,
            came: AtomicUsize::new(0),
        };
        (world, guests)
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
    }

    /// Sleeps, for a thread without work: on a busy host a thread that yields may wait for its CPU for a second.
    fn rest() {
        thread::sleep(Duration::from_micros(50));
    }

    /// Runs a vCPU.
    fn forward(&self, [mut receiver, mut sender]: [Guest; 2]) {
        while self.goes_on() {
            let frames = receiver.received();
            let mut frames = &frames[..];
            if frames.is_empty() {
                Self::rest();
            }
            while !frames.is_empty() && self.goes_on() {
                frames = &frames[sender.send(frames).0..];
            }
        }
    }

    /// Runs an I/O thread for frames from the router.
    fn collect(&self, mut source: Box<dyn Source>) {
        while self.goes_on() {
            if source.drain(BURST, &mut |frames| frames.iter().for_each(|frame| self.see(frame))) == 0 {
                Self::rest();
            }
        }
    }

    fn see(&self, frame: &Frame<'_>) {
        let [flow, number] = [42, 46].map(|at| frame.octets().read(at).map_or(0, u32::from_be_bytes));
        let due = self.next[flow as usize].swap(number + 1, Ordering::AcqRel);
        if due != number {
            // Lets the other threads end, too.
            self.stop.store(true, Ordering::Release);
            panic!("flow {flow}: {number} came when {due} was due");
        }
        self.came.fetch_add(1, Ordering::AcqRel);
    }

    /// Runs an I/O thread for frames to the router, with these flows.
    fn send(&self, sink: &dyn Sink, flows: &[u32]) {
        for number in 0..EACH {
            let mut waiting = flows;
            while !waiting.is_empty() && self.goes_on() {
                let n = sink.room().min(BURST).min(waiting.len());
                if n == 0 {
                    Self::rest();
                }
                let mut burst: Vec<_> = waiting[..n].iter().map(|flow| octets(*flow, number)).collect();
                let frames: Frames<'_> =
                    burst.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
                // The driver may have changed the number of pairs meanwhile, or another thread may have filled the
                // ring.
                self.delivering.fetch_add(1, Ordering::AcqRel);
                let taken = sink.deliver(&frames);
                self.delivered.fetch_add(taken, Ordering::AcqRel);
                self.delivering.fetch_sub(1, Ordering::AcqRel);
                waiting = &waiting[taken..];
            }
        }
    }

    /// Waits until this is true; returns false if it will not be.
    fn wait(&self, is_so: impl Fn() -> bool) -> bool {
        let end = Instant::now() + PATIENCE;
        while self.goes_on() && Instant::now() < end {
            if is_so() {
                return true;
            }
            Self::rest();
        }
        false
    }

    /// Waits for all frames, while the driver changes the number of pairs. The NIC stays closed after each change until no frame is under
    /// way: what it waits for, however long the threads wait for their CPUs.
    fn watch(&self) {
        let (all, came) = ((FLOWS * EACH) as usize, || self.came.load(Ordering::Acquire));
        for pairs in [2, 3, 1, 4, 1, 2].iter().cycle() {
            let enough = all.min(came() + BETWEEN);
            if !self.wait(|| came() >= enough) || enough == all {
                break;
            }
            self.queues.use_pairs(*pairs);
            // Who has not seen the change is delivering. After that nobody delivers anything.
            let settled = self.wait(|| self.delivering.load(Ordering::Acquire) == 0)
                && self.wait(|| came() == self.delivered.load(Ordering::Acquire));
            if !settled {
                break;
            }
            self.hand.advance(SETTLE + Duration::from_micros(1));
        }
        self.stop.store(true, Ordering::Release);
    }
}

/// Returns the flows of each part.
fn parts() -> Vec<Vec<u32>> {
    let mut parts = vec![Vec::new(); PAIRS];
    for flow in 0..FLOWS {
        let mut octets = octets(flow, 0);
        steer::by_flow(&[Frame::new(Bytes::from_slice(&mut octets))], PAIRS, Hash::Flow, |part, _| {
            parts[part].push(flow);
        });
    }
    parts
}

/// Sends all flows through: each sink takes its flows in a thread of its own.
fn try_out(sinks: impl FnOnce(&Arc<NicQueues>) -> Vec<(Arc<dyn Sink>, Vec<u32>)>) {
    let (world, guests) = World::new();
    world.queues.use_pairs(PAIRS);
    let (world, sinks) = (&world, sinks(&world.queues));
    thread::scope(|scope| {
        for (pair, guests) in guests.into_iter().enumerate() {
            scope.spawn(move || world.forward(guests));
            scope.spawn(move || world.collect(world.queues.source_of(pair)));
        }
        for (sink, flows) in sinks {
            scope.spawn(move || world.send(&*sink, &flows));
        }
        world.watch();
    });
    assert_eq!(world.came.load(Ordering::Acquire), (FLOWS * EACH) as usize);
}

#[test]
fn one_thread_for_all_pairs_keeps_thousands_of_flows_in_order() {
    try_out(|queues| vec![(queues.sink(), (0..FLOWS).collect())]);
}

#[test]
fn a_thread_for_each_pair_keeps_thousands_of_flows_in_order() {
    try_out(|queues| {
        parts().into_iter().enumerate().map(|(part, flows)| (queues.sink_of(part, PAIRS), flows)).collect()
    });
}

/// Without the pause flows move at once: shows the error that the tests above detect.
#[test]
fn without_a_pause_flows_overtake_themselves() {
    let (world, mut guests) = World::new();
    let world = World {
        queues: NicQueues { pairs: Pairs::new(Duration::ZERO, Clock::default()), ..take(world.queues) }
            .into(),
        ..world
    };
    world.queues.use_pairs(2);
    let flow = parts()[3][0];
    let deliver = |number| {
        let mut octets = octets(flow, number);
        assert_eq!(world.queues.sink().deliver(&[Frame::new(Bytes::from_slice(&mut octets))]), 1);
    };
    deliver(0);
    world.queues.use_pairs(PAIRS);
    deliver(1);
    // Pair 3 is served before pair 1.
    assert_eq!([3, 1].map(|pair: usize| guests[pair][0].received().len()), [1, 1]);
}

fn take(queues: Arc<NicQueues>) -> NicQueues {
    Arc::into_inner(queues).expect("nobody else has it")
}
