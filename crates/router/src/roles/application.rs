//! An application behind a bounded queue, which a driver fills: what receive livelock is shown with (seed paper 004,
//! "Receive throughput performance").
//!
//! ```text
//!   ring --> driver --> [ bounded queue ] --> application: so much work on each frame
//! ```
//!
//! Unprotected, the driver goes before the application: whatever it can take it takes, and what finds the queue full was
//! taken for nothing. The more comes, the less time is left for the application, until it does nothing at all.
//! Protected, the driver polls with a budget, and only while the queue has room for all of it: what is too much stays in
//! the ring, where the host sees that there is no buffer and drops it at no cost to the guest.

use arrayvec::ArrayVec;
use ledger::ApplicationTally;
use ring::BURST;

use crate::platform::{Buffer, Burst, Platform};

/// Most frames that the queue can hold.
pub const LONGEST_QUEUE: usize = 1024;
/// Bursts that an unprotected driver takes in one pass: a pass must have an end, because the firmware has more to do.
const BURSTS: usize = 4;
/// Nanoseconds of work between two passes: about how late an interrupt is served.
const SLICE: u64 = 2000;
/// Nanoseconds, many times what there is between two looks at the clock. If there is more, something else had the CPU
/// meanwhile (an interrupt, another thread of the host), and only so much was work.
const LONGEST_STEP: u64 = 500;

/// A platform with a clock by which work can be measured.
pub trait Clock: Platform {
    /// Ticks since some moment.
    fn ticks(&mut self) -> u64;

    /// Ticks in so many nanoseconds.
    fn ticks_in(&self, nanoseconds: u64) -> u64;
}

/// What an application is to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Nanoseconds of work on each frame.
    pub work_ns: u64,
    /// Frames that wait at most; at least a burst, at most [`LONGEST_QUEUE`].
    pub queue_len: usize,
    /// Whether the driver leaves frames in the ring while the queue is full.
    pub protected: bool,
}

/// The application, its queue and its driver. About 24 KiB.
pub struct Application<'a, B> {
    protected: bool,
    queue_len: usize,
    queue: Queue<B>,
    /// Ticks of work on each frame.
    work: u64,
    /// [`SLICE`] and [`LONGEST_STEP`] in ticks.
    slice: u64,
    longest_step: u64,
    /// The frame that is worked on, and how much work was done on it.
    current: Option<(B, u64)>,
    burst: Burst<B>,
    tally: &'a ApplicationTally,
}

impl<'a, B: Buffer> Application<'a, B> {
    /// An application with an empty queue.
    pub fn new(load: Load, tally: &'a ApplicationTally, clock: &impl Clock) -> Self {
        Self {
            protected: load.protected,
            queue_len: load.queue_len.clamp(BURST, LONGEST_QUEUE),
            queue: Queue::new(),
            work: clock.ticks_in(load.work_ns),
            slice: clock.ticks_in(SLICE),
            longest_step: clock.ticks_in(LONGEST_STEP),
            current: None,
            burst: ArrayVec::new_const(),
            tally,
        }
    }

    /// One pass: the driver's turn, then a slice of the application's work. Returns how many frames were taken or are
    /// being worked on.
    pub fn pass<P: Clock<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        let (taken, more) = if self.protected { self.poll(platform) } else { self.take_all(platform) };
        let worked = !more && self.work(platform);
        taken + usize::from(worked)
    }

    /// What a driver does who is served first: takes as long as there is something. The second: there is more.
    fn take_all<P: Clock<Buffer = B>>(&mut self, platform: &mut P) -> (usize, bool) {
        let (mut taken, mut more) = (0, false);
        for nic in 0..platform.nics() {
            for _ in 0..BURSTS {
                let came = self.take(platform, nic);
                taken += came;
                more = came == BURST;
                if !more {
                    break;
                }
            }
        }
        (taken, more)
    }

    /// What a driver does who polls: takes one budget, if there is room for it.
    fn poll<P: Clock<Buffer = B>>(&mut self, platform: &mut P) -> (usize, bool) {
        let mut taken = 0;
        for nic in 0..platform.nics() {
            if self.queue_len - self.queue.len >= BURST {
                taken += self.take(platform, nic);
            }
        }
        (taken, false)
    }

    /// Takes a burst into the queue as far as there is room.
    fn take<P: Clock<Buffer = B>>(&mut self, platform: &mut P, nic: usize) -> usize {
        platform.receive(nic, &mut self.burst);
        let came = self.burst.len();
        let mut queued = 0;
        for frame in self.burst.drain(..) {
            if self.queue.len < self.queue_len {
                self.queue.push(frame);
                queued += 1;
            } else {
                platform.free(frame);
            }
        }
        self.tally.received.add(came as u64);
        self.tally.queued.add(queued);
        self.tally.drop_queue_full.add(came as u64 - queued);
        came
    }

    /// Works for a slice of time; false if there is nothing to work on.
    fn work<P: Clock<Buffer = B>>(&mut self, platform: &mut P) -> bool {
        let mut left = self.slice;
        let mut last = platform.ticks();
        loop {
            let Some((frame, mut spent)) = self.current.take().or_else(|| Some((self.queue.pop()?, 0)))
            else {
                return left < self.slice;
            };
            while spent < self.work && left > 0 {
                let now = platform.ticks();
                let step = now.saturating_sub(last).min(self.longest_step);
                last = now;
                spent += step;
                left = left.saturating_sub(step);
            }
            if spent < self.work {
                self.current = Some((frame, spent));
                return true;
            }
            platform.free(frame);
            self.tally.delivered.add(1);
            // Work that takes no time takes some all the same.
            left = left.saturating_sub(1);
            if left == 0 {
                return true;
            }
        }
    }
}

/// Frames in the order in which they came.
struct Queue<B> {
    places: [Option<B>; LONGEST_QUEUE],
    first: usize,
    len: usize,
}

impl<B> Queue<B> {
    const fn new() -> Self {
        Self { places: [const { None }; LONGEST_QUEUE], first: 0, len: 0 }
    }

    /// Puts a frame behind the others. The caller has made sure that there is room.
    fn push(&mut self, frame: B) {
        self.places[(self.first + self.len) % LONGEST_QUEUE] = Some(frame);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<B> {
        let frame = self.places[self.first].take()?;
        self.first = (self.first + 1) % LONGEST_QUEUE;
        self.len -= 1;
        Some(frame)
    }
}
