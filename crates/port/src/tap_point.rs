//! Observation point: a sink decorator that shows delivered frames to an observer while there is one.
//!
//! Disabled, it costs one relaxed load a burst. Enabled, it shows the frames that the wrapped sink took after their
//! delivery, so that a slow observer delays frames, but never drops them. An observer that must know of a frame before
//! it can have effects is shown the burst before its delivery too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::boundary::{Frame, Sink};
use crate::wrapper::SinkWrapper;

/// Observer of frames: [`crate::pcap::Pcap`], or one that traces packets through an instance.
pub trait Observer: Send {
    /// Shows frames that were delivered in one burst, in order.
    fn observe(&mut self, frames: &[Frame<'_>]);

    /// Shows the frames of a burst that is about to be delivered.
    fn expect(&mut self, _frames: &[Frame<'_>]) {}

    /// Shows the frames of a burst that were not taken and are lost.
    fn lose(&mut self, _frames: &[Frame<'_>]) {}
}

/// A sink that can be observed.
pub struct TapPoint {
    inner: Arc<dyn Sink>,
    enabled: AtomicBool,
    seats: Mutex<[Option<Box<dyn Observer>>; 2]>,
}

/// Two observers at the same time: one that traces packets, and one that records frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObserverSlot {
    Follower,
    Recorder,
}

impl TapPoint {
    /// Wraps a sink; there is no observer yet.
    pub fn new(inner: Arc<dyn Sink>) -> Self {
        Self { inner, enabled: AtomicBool::new(false), seats: Mutex::default() }
    }

    /// Shows delivered frames to `observer` from now on; returns the previous one.
    pub fn enable(&self, observer: Box<dyn Observer>) -> Option<Box<dyn Observer>> {
        self.set(ObserverSlot::Follower, Some(observer))
    }

    /// Removes and returns the observer of [`TapPoint::enable`].
    pub fn disable(&self) -> Option<Box<dyn Observer>> {
        self.set(ObserverSlot::Follower, None)
    }

    /// Returns true if there is an observer of [`TapPoint::enable`].
    pub fn is_enabled(&self) -> bool {
        self.looks(ObserverSlot::Follower)
    }

    /// Shows delivered frames to a second observer; returns false, and does nothing, if there is one already.
    pub fn record(&self, observer: Box<dyn Observer>) -> bool {
        let free = !self.looks(ObserverSlot::Recorder);
        if free {
            self.set(ObserverSlot::Recorder, Some(observer));
        }
        free
    }

    /// Removes and returns the observer of [`TapPoint::record`].
    pub fn stop_recording(&self) -> Option<Box<dyn Observer>> {
        self.set(ObserverSlot::Recorder, None)
    }

    fn seats(&self) -> MutexGuard<'_, [Option<Box<dyn Observer>>; 2]> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looks(&self, seat: ObserverSlot) -> bool {
        self.seats()[seat as usize].is_some()
    }

    fn set(&self, seat: ObserverSlot, new: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
        let mut seats = self.seats();
        let old = std::mem::replace(&mut seats[seat as usize], new);
        self.enabled.store(seats.iter().any(Option::is_some), Ordering::Relaxed);
        old
    }

    fn with(&self, look: impl Fn(&mut dyn Observer)) {
        for observer in self.seats().iter_mut().flatten() {
            look(observer.as_mut());
        }
    }

    /// Delivers to an observed sink. The observer is not locked during the delivery: other threads may deliver too.
    #[cold]
    fn deliver_shown(&self, frames: &[Frame<'_>]) -> usize {
        self.with(|observer| observer.expect(frames));
        let taken = self.inner.deliver(frames);
        self.with(|observer| {
            let (delivered, lost) = frames.split_at(taken.min(frames.len()));
            if !delivered.is_empty() {
                observer.observe(delivered);
            }
            if !lost.is_empty() {
                observer.lose(lost);
            }
        });
        taken
    }
}

impl SinkWrapper for TapPoint {
    fn inner(&self) -> &dyn Sink {
        &*self.inner
    }

    #[inline]
    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        if self.enabled.load(Ordering::Relaxed) {
            self.deliver_shown(frames)
        } else {
            self.inner.deliver(frames)
        }
    }
}

#[cfg(test)]
mod tests;
