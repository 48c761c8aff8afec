//! Ports that stand before another one: they say what they do with frames, and everything else is the other's.

use frame::offload::Offloads;

use crate::boundary::{Bell, Frame, Sink, Source};
use crate::offload::Completed;

/// A sink before another one, and a [`Sink`] by that.
pub trait SinkWrapper: Send + Sync {
    /// The one behind it.
    fn inner(&self) -> &dyn Sink;

    /// What [`Sink::deliver`] is here.
    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize;
}

impl<W: SinkWrapper> Sink for W {
    #[inline]
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.deliver_on(frames)
    }

    #[inline]
    fn room(&self) -> usize {
        self.inner().room()
    }

    #[inline]
    fn large_room(&self) -> usize {
        self.inner().large_room()
    }

    #[inline]
    fn arm(&self) -> bool {
        self.inner().arm()
    }

    #[inline]
    fn disarm(&self) {
        self.inner().disarm();
    }

    #[inline]
    fn bell(&self) -> Bell<'_> {
        self.inner().bell()
    }

    #[inline]
    fn offloads(&self) -> Offloads {
        self.inner().offloads()
    }

    #[inline]
    fn completed(&self, done: &Completed) {
        self.inner().completed(done);
    }
}

/// A source before another one, and a [`Source`] by that.
pub trait SourceWrapper: Send {
    /// What it stands before.
    type Inner: Source + ?Sized;

    /// The one behind it.
    fn inner(&self) -> &Self::Inner;

    /// The one behind it, to be changed.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// What [`Source::drain`] is here.
    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize;
}

impl<W: SourceWrapper> Source for W {
    #[inline]
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.drain_on(budget, take)
    }

    #[inline]
    fn waits(&self) -> bool {
        self.inner().waits()
    }

    #[inline]
    fn arm(&mut self) -> bool {
        self.inner_mut().arm()
    }

    #[inline]
    fn disarm(&mut self) {
        self.inner_mut().disarm();
    }

    #[inline]
    fn bell(&self) -> Bell<'_> {
        self.inner().bell()
    }

    #[inline]
    fn tend(&mut self) {
        self.inner_mut().tend();
    }

    #[inline]
    fn timer(&self) -> Bell<'_> {
        self.inner().timer()
    }

    #[inline]
    fn settle(&mut self, takes: Offloads) {
        self.inner_mut().settle(takes);
    }
}
