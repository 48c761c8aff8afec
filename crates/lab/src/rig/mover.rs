//! Device side of a guest's NIC in a measuring thread: moves frames, and sleeps where an I/O thread would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nic_port::NicQueues;
use port::pump;
use port::{Bell, Sink, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bursts between two readings of the clock.
const BURSTS: usize = 64;
/// Longest sleep, so that the thread does not oversleep the end of a slice.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Transmit queues of a guest's NIC with the sink that they are drained to.
pub(crate) struct Mover {
    source: Box<dyn Source>,
    sink: Arc<dyn Sink>,
    /// True if frames leave within the guest's register accesses: then only the interrupt timers are left to keep here.
    in_access: bool,
}

impl Mover {
    /// Moves frames that a NIC sends to `sink`.
    pub(crate) fn new(nic: &Arc<NicQueues>, sink: Arc<dyn Sink>) -> Self {
        Self::of_pair(nic, nic.source(), sink)
    }

    /// Moves frames that one pair of the NIC's queues sends to `sink`.
    pub(crate) fn of_pair(nic: &Arc<NicQueues>, source: Box<dyn Source>, sink: Arc<dyn Sink>) -> Self {
        let in_access = nic.transmits_in_access();
        nic.transmit_in_access(sink.clone());
        Self { source, sink, in_access }
    }

    /// Moves frames from any source to any sink.
    pub(crate) fn between(source: Box<dyn Source>, sink: Arc<dyn Sink>) -> Self {
        Self { source, sink, in_access: false }
    }

    /// Moves one burst; returns the frames moved.
    pub(crate) fn pump(&mut self) -> usize {
        pump(self.source.as_mut(), &*self.sink)
    }
}

/// Moves frames for about `length`; returns the seconds it took, and the passes (all, and those that moved nothing). If
/// all frames leave within register accesses, it sleeps until an interrupt is due.
pub(crate) fn run(movers: &mut [Mover], length: Duration) -> (f64, Passes) {
    let (start, mut passes) = (Instant::now(), Passes::default());
    let in_access = movers.iter().all(|mover| mover.in_access);
    while start.elapsed() < length {
        if in_access {
            keep_time(movers);
            continue;
        }
        for _ in 0..BURSTS {
            let moved: usize = movers.iter_mut().map(Mover::pump).sum();
            passes.all += 1;
            passes.empty += u64::from(moved == 0);
        }
    }
    (start.elapsed().as_secs_f64(), passes)
}

/// Passes of a measuring thread's polling loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passes {
    /// Passes over all movers.
    pub(crate) all: u64,
    /// Passes that moved nothing.
    pub(crate) empty: u64,
}

/// Sleeps until an interrupt is due, and delivers it.
fn keep_time(movers: &mut [Mover]) {
    let ready = movers.iter_mut().fold(false, |ready, mover| {
        mover.pump();
        mover.source.arm() | ready
    });
    if !ready {
        let bells = movers.iter().filter_map(|mover| match mover.source.bell() {
            Bell::Event(bell) | Bell::Readable(bell) => Some(PollFd::from_borrowed_fd(bell, PollFlags::IN)),
            Bell::None => None,
        });
        // If the sleep is interrupted, it is only shorter.
        let _ = poll(&mut bells.collect::<Vec<_>>(), Some(&NAP));
    }
    movers.iter_mut().for_each(|mover| mover.source.disarm());
}
