//! The one tap point: a sink wrapper that shows delivered frames to an observer while somebody wants to see them.
//!
//! Switched off, it costs one relaxed load a burst. Switched on, the frames that the wrapped sink took are shown after
//! they were delivered, so that an observer that is slow delays, but never drops, what it looks at. An observer that
//! must know of a frame before anything can come of it looks at the burst before it is delivered as well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use frame::offload::Offloads;

use crate::offload::Completed;
use crate::port::{Bell, Frame, Sink};

/// What looks at frames: [`crate::pcap::Pcap`], or who follows packets through an instance.
pub trait Observer: Send {
    /// Shows frames that were delivered in one burst, in order.
    fn observe(&mut self, frames: &[Frame<'_>]);

    /// Shows the frames of a burst that is about to be delivered.
    fn expect(&mut self, _frames: &[Frame<'_>]) {}

    /// Shows the frames of a burst that were not taken and are lost.
    fn lose(&mut self, _frames: &[Frame<'_>]) {}
}

/// A sink at which one can look.
pub struct TapPoint {
    inner: Arc<dyn Sink>,
    enabled: AtomicBool,
    observer: Mutex<Option<Box<dyn Observer>>>,
}

impl TapPoint {
    /// Wraps a sink; nobody looks yet.
    pub fn new(inner: Arc<dyn Sink>) -> Self {
        Self { inner, enabled: AtomicBool::new(false), observer: Mutex::new(None) }
    }

    /// Shows delivered frames to `observer` from now on; returns the one that looked before.
    pub fn enable(&self, observer: Box<dyn Observer>) -> Option<Box<dyn Observer>> {
        self.set(Some(observer))
    }

    /// Nobody looks any more; returns the one that did.
    pub fn disable(&self) -> Option<Box<dyn Observer>> {
        self.set(None)
    }

    /// Whether somebody looks.
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    fn set(&self, new: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
        let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        self.enabled.store(new.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut *observer, new)
    }

    fn with(&self, look: impl FnOnce(&mut dyn Observer)) {
        if let Some(observer) = &mut *self.observer.lock().unwrap_or_else(PoisonError::into_inner) {
            look(observer.as_mut());
        }
    }

    /// Delivers while somebody looks. The observer is not held meanwhile: others may deliver here, too.
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

impl Sink for TapPoint {
    #[inline]
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        if self.enabled.load(Ordering::Relaxed) {
            self.deliver_shown(frames)
        } else {
            self.inner.deliver(frames)
        }
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn large_room(&self) -> usize {
        self.inner.large_room()
    }

    fn arm(&self) -> bool {
        self.inner.arm()
    }

    fn disarm(&self) {
        self.inner.disarm();
    }

    fn bell(&self) -> Bell<'_> {
        self.inner.bell()
    }

    fn offloads(&self) -> Offloads {
        self.inner.offloads()
    }

    fn completed(&self, done: &Completed) {
        self.inner.completed(done);
    }
}

#[cfg(test)]
mod tests;
