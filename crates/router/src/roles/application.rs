//! An application behind a bounded queue that a driver fills, for experiments on receive livelock (seed paper 004,
//! "Receive throughput performance").
//!
//! ```text
//!   ring --> driver --> [ bounded queue ] --> application: fixed work for each frame
//! ```
//!
//! Unprotected, the driver takes precedence over the application: it takes every frame that it can, and those that find
//! the queue full were taken in vain. The more frames arrive, the less time is left for the application, until it makes
//! no progress at all. Protected, the driver polls with a budget, and only while the queue has room for a full budget:
//! excess frames stay in the ring, where the host finds no buffer and drops further ones at no cost to the guest.

use arrayvec::ArrayVec;
use ledger::ApplicationTally;
use ring::BURST;

use crate::platform::{Buffer, Burst, Platform};

/// Maximum length of the queue in frames.
pub const LONGEST_QUEUE: usize = 1024;
/// Maximum number of bursts that an unprotected driver takes in one pass: a pass must be bounded, because the firmware
/// has other work.
const BURSTS: usize = 4;
/// Nanoseconds of work between two passes: about the latency of serving an interrupt.
const SLICE: u64 = 2000;
/// Nanoseconds, many times the interval of two reads of the clock. A longer interval means that something else had the
/// CPU meanwhile (an interrupt, another thread of the host), and only this much counts as work.
const LONGEST_STEP: u64 = 500;

/// A platform with a clock that can measure work.
pub trait Clock: Platform {
    /// Returns ticks since an arbitrary origin.
    fn ticks(&mut self) -> u64;

    /// Converts nanoseconds to ticks.
    fn ticks_in(&self, nanoseconds: u64) -> u64;
}

/// Load of an application.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Nanoseconds of work for each frame.
    pub work_ns: u64,
    /// Maximum number of waiting frames; at least a burst, at most [`LONGEST_QUEUE`].
    pub queue_len: usize,
    /// True if the driver leaves frames in the ring while the queue is full.
    pub protected: bool,
}

/// The application, its queue and its driver. About 24 KiB.
pub struct Application<'a, B> {
    protected: bool,
    queue_len: usize,
    queue: Queue<B>,
    /// Ticks of work for each frame.
    work: u64,
    /// [`SLICE`] and [`LONGEST_STEP`] in ticks.
    slice: u64,
    longest_step: u64,
    /// The current frame, and the ticks of work already done for it.
    current: Option<(B, u64)>,
    burst: Burst<B>,
    tally: &'a ApplicationTally,
}

impl<'a, B: Buffer> Application<'a, B> {
    /// Creates an application with an empty queue.
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

    /// Makes one pass: runs the driver, then the application for a slice. Returns how many frames were taken or are
    /// being worked on.
    pub fn pass<P: Clock<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        let (taken, more) = if self.protected { self.poll(platform) } else { self.take_all(platform) };
        let worked = !more && self.work(platform);
        taken + usize::from(worked)
    }

    /// The unprotected driver: takes frames as long as there are some. The second value is true if there may be more.
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

    /// The polling driver: takes one budget, if there is room for it.
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

    /// Works for a slice of time; returns false if there is no frame to work on.
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
            // Charges at least one tick, even if the work takes no time.
            left = left.saturating_sub(1);
            if left == 0 {
                return true;
            }
        }
    }
}

/// A FIFO of frames.
struct Queue<B> {
    places: [Option<B>; LONGEST_QUEUE],
    first: usize,
    len: usize,
}

impl<B> Queue<B> {
    const fn new() -> Self {
        Self { places: [const { None }; LONGEST_QUEUE], first: 0, len: 0 }
    }

    /// Appends a frame. The caller ensures that there is room.
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
