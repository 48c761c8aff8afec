//! `vhost = "vmm"`: frames are moved by the vCPU that sends them and by a main loop, one at a time, as in
//! VMMs before vhost-net. It exists to measure seed paper 000's figure 1, not for its speed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use port::{Frame, Sink, SinkWrapper, Source, SourceWrapper};

/// Lock that a thread must hold to move frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct MainLock(Arc<MainLockState>);

#[derive(Debug, Default)]
struct MainLockState {
    moves: Mutex<()>,
    /// Number of waiting vCPUs. The main loop, which takes the lock again and again, lets them go first.
    waiting: AtomicUsize,
}

impl MainLock {
    fn hold(&self) -> MutexGuard<'_, ()> {
        self.0.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the lock for a vCPU.
    fn lock_for_vcpu(&self) -> MutexGuard<'_, ()> {
        self.0.waiting.fetch_add(1, Ordering::SeqCst);
        let held = self.hold();
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        held
    }

    /// Acquires the lock for the main loop; returns `None` while a vCPU waits.
    fn try_lock_for_main_loop(&self) -> Option<MutexGuard<'_, ()>> {
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
            return None;
        }
        Some(self.hold())
    }

    /// Wraps a source for the main loop: the lock is held until the end of each drained burst.
    pub(super) fn source(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(LockedSource { source, lock: self.clone() })
    }

    /// Wraps a sink for vCPUs: the lock is held during each delivery.
    pub(super) fn sink(&self, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(LockedSink { sink, lock: self.clone() })
    }
}

struct LockedSource {
    source: Box<dyn Source>,
    lock: MainLock,
}

impl SourceWrapper for LockedSource {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Some(_held) = self.lock.try_lock_for_main_loop() else { return 0 };
        self.source.drain(budget, take)
    }
}

struct LockedSink {
    sink: Arc<dyn Sink>,
    lock: MainLock,
}

impl SinkWrapper for LockedSink {
    fn inner(&self) -> &dyn Sink {
        &*self.sink
    }

    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        let _held = self.lock.lock_for_vcpu();
        self.sink.deliver(frames)
    }
}

#[cfg(test)]
mod conformance_tests;

#[cfg(test)]
mod tests {
    use port::Null;

    use super::*;

    #[test]
    fn one_moves_frames_at_a_time() {
        let lock = MainLock::default();
        let sink = lock.sink(Arc::new(Null::new()));
        let held = lock.hold();
        std::thread::scope(|scope| {
            let vcpu = scope.spawn(|| sink.deliver(&[Frame::new(ring::Bytes::from_slice(&mut [0; 60]))]));
            while lock.0.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert!(!vcpu.is_finished());
            assert!(
                lock.try_lock_for_main_loop().is_none(),
                "the main loop takes the lock before a vCPU that waits"
            );
            drop(held);
            assert_eq!(vcpu.join().unwrap(), 1);
        });
        assert!(lock.try_lock_for_main_loop().is_some());
    }
}
