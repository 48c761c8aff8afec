//! Receive livelock on a platform whose simulated clock is advanced by driver and application.

use ledger::ApplicationTally;
use router::roles::{Application, Clock, LONGEST_QUEUE, Load};
use router::{Buffer, Burst, HEAD, Platform};

/// Cost of a frame for the driver, whatever its outcome; in nanoseconds, like all values below.
const FRAME: u64 = 1_000;
/// Cost of each poll of the ring.
const LOOK: u64 = 50;
/// Cost of one read of the clock.
const TICK: u64 = 30;
/// Number of buffers in the ring.
const RING: u64 = 256;

struct Nothing;

impl Buffer for Nothing {
    fn head(&mut self) -> &mut [u8; HEAD] {
        unreachable!("nobody looks into a frame")
    }
    fn len(&self) -> usize {
        60
    }
    fn set_len(&mut self, _: usize) {}
    fn octets(&mut self) -> &mut [u8] {
        &mut []
    }
    fn prefetch(&self) {}
}

/// A NIC at which frames arrive at a steady rate.
struct Steady {
    now: u64,
    /// Interval of frames; 0: there are none.
    every: u64,
    /// Frames taken from the ring, or lost before it.
    gone: u64,
    /// Frames that found the ring full, which costs the guest no time.
    lost_before: u64,
    out: usize,
}

impl Steady {
    fn new(every: u64) -> Self {
        Self { now: 0, every, gone: 0, lost_before: 0, out: 0 }
    }

    fn waiting(&mut self) -> u64 {
        let arrived = self.now.checked_div(self.every).unwrap_or(0);
        let too_many = (arrived - self.gone).saturating_sub(RING);
        self.gone += too_many;
        self.lost_before += too_many;
        arrived - self.gone
    }
}

impl Platform for Steady {
    type Buffer = Nothing;

    fn nics(&self) -> usize {
        1
    }

    fn receive(&mut self, _: usize, burst: &mut Burst<Nothing>) {
        self.now += LOOK;
        for _ in 0..self.waiting().min(burst.capacity() as u64) {
            burst.push(Nothing);
            self.gone += 1;
            self.out += 1;
            self.now += FRAME;
        }
    }

    fn transmit(&mut self, _: usize, _: &mut Burst<Nothing>) {
        unreachable!("it sends nothing")
    }

    fn allocate(&mut self) -> Option<Nothing> {
        None
    }

    fn free(&mut self, _: Nothing) {
        self.out -= 1;
    }

    fn now(&self) -> u64 {
        self.now / 1_000_000
    }
}

impl Clock for Steady {
    fn ticks(&mut self) -> u64 {
        self.now += TICK;
        self.now
    }

    fn ticks_in(&self, nanoseconds: u64) -> u64 {
        nanoseconds
    }
}

/// Unit of rates, and the part of it that an experiment simulates.
const SECOND: u64 = 1_000_000_000;
const PART: u64 = 10;

/// Offers frames at a rate a second; returns how many were delivered a second, and the counters.
fn run(rate: u64, protected: bool) -> (u64, ApplicationTally, Steady) {
    let (tally, mut platform) = (ApplicationTally::default(), Steady::new(SECOND / rate));
    let load = Load { work_ns: 9_000, queue_len: 128, protected };
    let mut application = Application::new(load, &tally, &platform);
    while platform.now < SECOND / PART {
        if application.pass(&mut platform) == 0 {
            platform.now += 100;
        }
    }
    drop(application);
    let delivered = tally.delivered.get() * PART;
    (delivered, tally, platform)
}

/// Driver and application together can handle 100,000 frames a second.
const CAPACITY: u64 = 100_000;

#[test]
fn below_its_capacity_it_delivers_everything() {
    for protected in [false, true] {
        for rate in [1_000, CAPACITY / 2, CAPACITY * 9 / 10] {
            let (delivered, tally, platform) = run(rate, protected);
            assert!(rate - delivered < 300, "{delivered} of {rate}: what waits at the end");
            assert_eq!((tally.drop_queue_full.get(), platform.lost_before), (0, 0));
        }
    }
}

#[test]
fn beyond_its_capacity_it_delivers_less_and_less_if_it_is_not_protected() {
    let peak = run(CAPACITY * 95 / 100, false).0;
    let mut last = peak;
    for percent in [150, 300, 600, 900] {
        let (delivered, tally, _) = run(CAPACITY * percent / 100, false);
        assert!(delivered < last, "{delivered} at {percent} %");
        assert!(tally.drop_queue_full.get() > 0);
        last = delivered;
    }
    assert!(last * 2 < peak, "more than half is lost: {last} of {peak}");
    // When the driver alone uses up all the time, none is left for the application.
    assert!(run(2_000_000, false).0 < peak / 100);
}

#[test]
fn protected_it_goes_on_at_its_peak() {
    let peak = run(CAPACITY * 95 / 100, true).0;
    for percent in [150, 300, 900, 3000] {
        let (delivered, tally, platform) = run(CAPACITY * percent / 100, true);
        assert!(delivered * 10 >= peak * 9, "{delivered} of {peak} at {percent} %");
        assert_eq!(tally.drop_queue_full.get(), 0, "nothing is taken for nothing");
        assert!(platform.lost_before > 0, "what is too much stays outside");
    }
}

#[test]
fn each_frame_is_somewhere() {
    for (rate, protected) in [(1_000_000, false), (300_000, true), (50_000, false)] {
        let (_, tally, platform) = run(rate, protected);
        let get = |counter: &ledger::Counter| counter.get();
        assert_eq!(get(&tally.received), get(&tally.queued) + get(&tally.drop_queue_full));
        // The platform's buffers that are out are waiting, or being worked on.
        assert_eq!(get(&tally.queued), get(&tally.delivered) + platform.out as u64);
        assert!(platform.out <= 128 + 1);
    }
}

#[test]
fn work_is_only_what_the_application_had_the_cpu_for() {
    let (tally, mut platform) = (ApplicationTally::default(), Steady::new(0));
    let load = Load { work_ns: 10_000, queue_len: 0, protected: false };
    let mut application = Application::new(load, &tally, &platform);
    // A single frame arrives.
    (platform.every, platform.now) = (SECOND, SECOND);
    assert_eq!(application.pass(&mut platform), 2);
    for passes in 2.. {
        // A millisecond in which the application did not run.
        platform.now += 1_000_000;
        application.pass(&mut platform);
        if tally.delivered.get() == 1 {
            assert!((4..=6).contains(&passes), "two microseconds a pass: {passes}");
            break;
        }
    }
    assert_eq!(application.pass(&mut platform), 0, "nothing more to do");
}

#[test]
fn queues_have_bounds() {
    for queue_len in [0, 64, 5000] {
        let (tally, mut platform) = (ApplicationTally::default(), Steady::new(1));
        let load = Load { work_ns: u64::MAX, queue_len, protected: false };
        let mut application = Application::new(load, &tally, &platform);
        for _ in 0..50 {
            application.pass(&mut platform);
        }
        let bound = queue_len.clamp(64, LONGEST_QUEUE);
        assert!(platform.out == bound || platform.out == bound + 1, "{} of {bound}", platform.out);
    }
}
