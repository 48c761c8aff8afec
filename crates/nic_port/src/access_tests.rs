//! Frames that are sent within accesses: for how long, and by whom then.

use port::conformance::Pattern;
use port::{Frame, Hand};
use ring::BURST;

use super::access::ACCESS_BUDGET;
use super::tests::guest::{Guest, Habit};
use super::tests::{Driver, is_readable};
use super::*;

/// A sink that takes all the time that an access has for each burst.
struct Slow {
    hand: Hand,
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
    /// Its driver has rung once already.
    fn new(habit: Habit) -> Self {
        let (clock, hand) = Clock::by_hand();
        let stop = Arc::<AtomicBool>::default();
        let design = Design { pairs: 1, in_access: true, stop: stop.clone(), ..Design::default() };
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

    /// The driver publishes frames at once, and rings by an access if the device wants that; how many found a buffer.
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

    /// The thread polls until it finds nothing.
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
        // What is published now must not overtake what is left.
        bench.source.disarm();
        sent += bench.send(&all[sent..]);
        assert_eq!((sent, bench.came().len()), (all.len(), BURST), "{habit:?}");
        bench.poll();
        assert_eq!(bench.came(), all, "{habit:?}");
        // Nothing is left: accesses send again.
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
