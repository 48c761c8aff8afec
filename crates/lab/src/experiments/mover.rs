//! The host's side of a guest's NIC in a measuring thread: moves what there is, and sleeps where an I/O thread would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use switch::port::pump;
use switch::{Bell, Sink, Source};
use vmm::NicQueues;

/// Bursts between two looks at the clock.
const BURSTS: usize = 64;
/// Longest sleep, so that nobody oversleeps the end of a slice.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// What a guest sends, and where it goes.
pub(super) struct Mover {
    source: Box<dyn Source>,
    sink: Arc<dyn Sink>,
    /// Frames leave inside of the guest's register accesses: here is only the time of its interrupts to keep.
    in_access: bool,
}

impl Mover {
    /// Leads what a NIC sends to `sink`.
    pub(super) fn new(nic: &Arc<NicQueues>, sink: Arc<dyn Sink>) -> Self {
        let in_access = nic.transmits_in_access();
        nic.transmit_in_access(sink.clone());
        Self { source: nic.source(), sink, in_access }
    }

    /// One burst; returns frames moved.
    pub(super) fn pump(&mut self) -> usize {
        pump(self.source.as_mut(), &*self.sink)
    }

    /// Moves frames for about `length`; returns the seconds it took.
    pub(super) fn run(&mut self, length: Duration) -> f64 {
        let start = Instant::now();
        while start.elapsed() < length {
            if self.in_access {
                self.keep_time();
            } else {
                (0..BURSTS).for_each(|_| {
                    self.pump();
                });
            }
        }
        start.elapsed().as_secs_f64()
    }

    /// Sleeps until an interrupt is due, and sees to it.
    fn keep_time(&mut self) {
        self.pump();
        if !self.source.arm()
            && let Bell::Event(bell) | Bell::Readable(bell) = self.source.bell()
        {
            // An interrupted sleep is a short one.
            let _ = poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&NAP));
        }
        self.source.disarm();
    }
}
